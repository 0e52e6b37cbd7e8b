"""A small server's worth of marks, on disk as a server finds them."""

from pathlib import Path
from typing import Any

import pytest

from powermark import plan
from powermark.watermark.keys import PREFIX
from powermark.watermark.spec import WatermarkSpec, digest_of
from tests.engines.letters import Letters

VOCAB, WIDTH = 400, 416
SECRETS = {"old": bytes(range(32)), "new": bytes(range(1, 33))}


class Tokens(Letters):
    """Letters with an end token."""

    all_special_ids = (399,)


TOKENIZER = Tokens(VOCAB)


def spec(h: int, gamma: float = 0.5, **changes: Any) -> WatermarkSpec:
    fields: dict[str, Any] = {"delta": 2.0, "tokenizer_digest": digest_of(TOKENIZER)}
    return WatermarkSpec(gamma=gamma, context_width=h, vocab_size=VOCAB, **fields | changes)


def steered(h: int) -> WatermarkSpec:
    found = plan(n_tokens=12, alpha=0.1, power=0.9, gamma=0.5, steer=True, context_width=h)
    return WatermarkSpec.from_plan(found, vocab_size=VOCAB)


def save_key(path: Path, secret: bytes) -> Path:
    path.write_text(PREFIX + secret.hex())
    path.chmod(0o600)
    return path


def serve(
    monkeypatch: pytest.MonkeyPatch, folder: Path, specs: dict[str, WatermarkSpec], **settings: str
) -> None:
    """Write specs and a key, and say so in the environment."""
    (folder / "specs").mkdir()
    for name, one in specs.items():
        one.save(folder / "specs" / f"{name}.json")
    monkeypatch.setenv("POWERMARK_SPECS", str(folder / "specs"))
    monkeypatch.setenv("POWERMARK_KEYS", str(save_key(folder / "k.key", SECRETS["old"])))
    for name, value in settings.items():
        monkeypatch.setenv(f"POWERMARK_{name.upper()}", value)
