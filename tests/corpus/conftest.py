"""A small world: a tokenizer of 500 words, a mark for it with its key, and documents."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from powermark import plan
from powermark.corpus.job import ScanJob
from powermark.models.tokenizer import FileTokenizer
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of
from tests.detection.marked import marked_ids

WORDS = 500
KEY_BYTES = bytes(range(32))
KEY = SecretKey(KEY_BYTES)


@dataclass(frozen=True)
class World:
    folder: Path
    tokenizer: FileTokenizer
    spec: WatermarkSpec

    @property
    def key(self) -> str:
        return str(self.folder / "k.key")

    def job(self, **given: object) -> ScanJob:
        settings: dict[str, object] = {
            "specs": (self.spec,),
            "keys": (self.key,),
            "model": str(self.folder / "model"),
        }
        return ScanJob(**{**settings, **given})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    (folder / "model").mkdir()
    inner = Tokenizer(WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    inner.pre_tokenizer = WhitespaceSplit()
    inner.save(str(folder / "model" / "tokenizer.json"))
    tokenizer = FileTokenizer(folder / "model" / "tokenizer.json")
    spec = WatermarkSpec.from_plan(
        plan(n_tokens=60, alpha=0.01, power=0.95, edit_rate=0.05),
        vocab_size=WORDS,
        tokenizer_digest=digest_of(tokenizer),
    )
    save_key(KEY_BYTES, folder / "k.key")
    spec.save(folder / "s.json")
    return World(folder, tokenizer, spec)


def documents(world: World, count: int, marked: int = 3, seed: int = 0) -> list[list[int]]:
    """Token ids of documents of 20 to 200 tokens, of which the first few are marked."""
    rng = np.random.default_rng(seed)
    found = [marked_ids(world.spec, KEY, 150, rng) for _ in range(marked)]
    lengths = rng.integers(20, 200, count - marked)
    return found + [rng.integers(0, WORDS, n).tolist() for n in lengths]


def text_of(ids: list[int]) -> str:
    return " ".join(f"w{token}" for token in ids)


def write_jsonl(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def save_key(content: bytes, path: Path) -> None:
    path.write_text(f"powermark-key-1:{content.hex()}\n")
    path.chmod(0o600)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
