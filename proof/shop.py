"""What the later parts work with: a canary key, a spec, a small model, a corpus; and children.

The canary is a key that is written nowhere but in its file and in the environment of every child.
What children print is kept, for the search at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from powermark import plan
from powermark.files import CACHE_ENVIRONMENT, make_folder, write_file
from powermark.watermark.keys import ENVIRONMENT, PREFIX, SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of

CANARY = np.random.default_rng(11).bytes(32)
WORDS = 200
FILES, TOKENS = 4, 40  # of the corpus: files, and tokens of a document
_OFFLINE = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1"}  # nothing here is to be fetched
_MAIN = "import sys; from powermark.interfaces.cli import main; main(sys.argv[1:])"


@dataclass(frozen=True, slots=True)
class Shop:
    """A folder with all of it; made by :func:`open_shop`."""

    folder: Path

    @property
    def shelf(self) -> Path:
        """Folder of the spec and its key, as ``powermark serve`` takes it."""
        return self.folder / "shelf"

    @property
    def spec(self) -> Path:
        """A spec that is tied to the canary."""
        return self.shelf / "canary.json"

    @property
    def key(self) -> Path:
        """The canary's file."""
        return self.shelf / "canary.key"

    @property
    def model(self) -> Path:
        """A random model of 200 words."""
        return self.folder / "model"

    @property
    def corpus(self) -> Path:
        """Parquet files of token ids."""
        return self.folder / "corpus"

    @property
    def data(self) -> Path:
        """A folder with passages, as experiments take it."""
        return self.folder / "data"

    @property
    def mark(self) -> list[str]:
        """Options that name the spec and its key."""
        return ["--spec", str(self.spec), "--key", str(self.key)]

    def place(self, name: str) -> Path:
        """Return a folder for one scenario."""
        return make_folder(self.folder / name)

    def command(self, *arguments: str, before: str = "") -> list[str]:
        """Return what runs powermark; ``before`` is Python that runs first."""
        return [sys.executable, "-c", before + _MAIN, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """Return a child's environment, with the canary in it."""
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        mine = {ENVIRONMENT: PREFIX + CANARY.hex(), "PYTHONPATH": path, **_OFFLINE}
        return {**os.environ, CACHE_ENVIRONMENT: str(self.folder / "cache"), **mine, **more}

    def begin(self, command: list[str], log: Path, **more: str) -> subprocess.Popen[bytes]:
        """Start a child; what it prints goes to ``log``."""
        with log.open("ab") as stream:
            return subprocess.Popen(
                command, stdout=stream, stderr=stream, env=self.environment(**more)
            )

    @staticmethod
    def heard(place: Path) -> str:
        """Return all that the children of a scenario printed, to files named log*."""
        logs = sorted(path for path in place.rglob("log*") if path.is_file())
        return "\n".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)

    def run(self, command: list[str], log: Path, **more: str) -> tuple[int, str]:
        """Run a child to its end; return its exit code and what it printed."""
        found = subprocess.run(command, capture_output=True, env=self.environment(**more))
        said = (found.stdout + found.stderr).decode(errors="replace")
        with log.open("a") as stream:
            stream.write(said)
        return found.returncode, said


def open_shop(folder: Path, documents: int) -> Shop:
    """Make what is not there yet."""
    shop = Shop(make_folder(folder))
    if not shop.model.exists():
        _write_model(shop.model)
    if not shop.spec.exists():
        _write_shelf(shop)
    if not shop.data.exists():
        rng = np.random.default_rng(0)
        texts = [words(row) for row in rng.integers(2, WORDS, (60, 60)).tolist()]
        make_folder(shop.data)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        write_file(shop.data / "c4.jsonl", lines.encode())
    if not shop.corpus.exists():
        _write_corpus(shop.corpus, documents)
    return shop


def words(ids: list[int]) -> str:
    """Return the text of token ids."""
    return " ".join(f"w{i}" for i in ids)


def _write_model(folder: Path) -> None:
    from proof.tiny_model import save_tiny_model  # imports torch

    partial = make_folder(folder.with_name("model.part"))
    save_tiny_model(
        partial,
        ["<s>", "</s>", *(f"w{i}" for i in range(2, WORDS))],
        seed=1,
        vocab_size=WORDS,
        max_position_embeddings=512,
        eos_token_id=None,
        initializer_range=1.0,
    )
    partial.replace(folder)


def _write_shelf(shop: Shop) -> None:
    from powermark.models.tokenizer import FileTokenizer

    make_folder(shop.shelf)
    shop.key.touch(0o600)
    shop.key.write_text(f"{PREFIX}{CANARY.hex()}\n")
    tokenizer: Any = FileTokenizer(shop.model / "tokenizer.json")
    WatermarkSpec.from_plan(
        plan(n_tokens=80, alpha=0.01, power=0.95, edit_rate=0.05),
        vocab_size=WORDS,
        tokenizer_digest=digest_of(tokenizer),
        key_fingerprint=SecretKey(CANARY).fingerprint,
    ).save(shop.spec)


def _write_corpus(folder: Path, documents: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    partial, rng = make_folder(folder.with_name("corpus.part")), np.random.default_rng(1)
    for number in range(FILES):
        count = documents // FILES
        ids = pa.array(rng.integers(2, WORDS, count * TOKENS, np.int32))
        rows = pa.ListArray.from_arrays(np.arange(0, len(ids) + 1, TOKENS, dtype=np.int32), ids)
        names = [f"d{number}-{i}" for i in range(count)]
        pq.write_table(pa.table({"id": names, "token_ids": rows}), partial / f"{number}.parquet")
    partial.replace(folder)
