"""A server of completions, and a command that verifies it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.conftest import Run
from tests.engines.served import SECRETS, save_key
from tests.generation.completions import Server, running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as found:
        yield found


@pytest.fixture
def job(
    run: Run, server: Server, writer_folder: Path, prompts_file: Path, tmp_path: Path
) -> tuple[str, ...]:
    """A plan for the writer's words, on the server and on disk."""
    key, mark = save_key(tmp_path / "k.key", SECRETS["old"]), tmp_path / "s.json"
    code, _, err = run("plan", "--n-tokens", "30", "--alpha", ".05", "--power", ".9", "--gamma",
                       ".5", "--model", str(writer_folder), "-o", str(mark))  # fmt: skip
    assert code == 0, err
    spec = WatermarkSpec.load(mark)
    server.scheme, server.delta = Watermark(spec, SecretKey(SECRETS["old"])).scheme, spec.delta
    return (
        "verify", "--spec", str(mark), "--key", str(key), "--model", str(writer_folder),
        "--prompts", str(prompts_file), "--texts", "16", "--batch", "8",
        "--endpoint", f"http://127.0.0.1:{server.server_port}/v1",
    )  # fmt: skip
