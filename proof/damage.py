"""Faults of files: cut, emptied, zeroed, overwritten or with one bit turned.

What is damaged must be refused in a sentence, or made anew, or be read as if nothing had happened;
never be taken for something else.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from powermark.corpus.job import ScanJob
from powermark.corpus.scan import scan
from powermark.errors import PowermarkError
from powermark.files import CACHE_ENVIRONMENT
from powermark.generation.records import Records
from powermark.models import load_model, load_tokenizer
from powermark.signals.profile_file import load_profile
from powermark.statistics import windows
from powermark.statistics.windows import WindowTest
from powermark.watermark.keys import load_key
from powermark.watermark.spec import WatermarkSpec, digest_of
from proof.scenario import outcome, profile_of
from proof.shop import Shop

Reader = Callable[[], Any]
_FEW = 20  # times at most for what takes long to read


def tried(*, folder: str, what: str, times: int) -> dict[str, Any]:
    """Damage a file in many ways and read it each time."""
    shop = Shop(Path(folder))
    place = shop.place(f"damaged-{what}-{time.time_ns()}")
    lost, tracebacks, said = 0, [], ""
    times = min(times, _FEW) if what in ("model", "scan") else times
    trials = 0
    for file, read in KINDS[what](shop, place):
        whole = file.read_bytes()
        wanted = read()
        for content in damages(whole, times):
            file.write_bytes(content)
            trials += 1
            try:
                lost += read() != wanted
            except PowermarkError as error:
                said = f"powermark: {error}"
            except Exception as error:
                tracebacks.append(f"{type(error).__name__}: {error}")
        file.write_bytes(whole)
    found = outcome(trials, lost, said, said or "made anew")
    return {**found, "tracebacks": len(tracebacks), "kinds": sorted(set(tracebacks))[:5]}


def damages(whole: bytes, times: int) -> Iterator[bytes]:
    """Yield broken versions of a content."""
    rng = np.random.default_rng(len(whole))
    yield from (b"", b"\0" * len(whole), whole[: len(whole) // 2], rng.bytes(len(whole)))
    for _ in range(times - 4):
        kind, at = int(rng.integers(3)), int(rng.integers(len(whole)))
        if kind == 0:
            yield whole[:at]
        elif kind == 1:
            yield whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :]
        else:
            yield whole[:at] + b"\0" * min(512, len(whole) - at) + whole[at + 512 :]


def _spec(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    file = shutil.copy(shop.spec, place)
    yield Path(file), lambda: WatermarkSpec.load(file)


def _key(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    """Turn a key into another one: the spec that it goes with must refuse it."""
    file, spec = shutil.copy(shop.key, place), WatermarkSpec.load(shop.spec)

    def read() -> Any:
        key = load_key(file)
        spec.check_key(key)
        return key

    yield Path(file), read
    Path(file).unlink()


def _profile(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    file = place / "p.npz"
    shop.run(shop.command(*profile_of(shop), "-o", str(file)), place / "log")
    yield file, lambda: load_profile(file).about["digest"]


def _cache(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    """A detector's table under H0: p-values follow from it."""
    del shop
    with _cache_at(place):

        def read() -> Any:
            windows._null.cache_clear()
            return WindowTest("winmax", 60, 0.5, draws=2_000).null.tolist()

        read()
        [file] = (place / "null").iterdir()
        yield file, read
    windows._null.cache_clear()


@contextmanager
def _cache_at(place: Path) -> Iterator[None]:
    with patch.dict(os.environ, {CACHE_ENVIRONMENT: str(place)}):
        yield


def _model(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    """A model's own files: its spec refuses another tokenizer; a config makes the same weights.

    What a config says beside them is not compared. Other weights are another model, which a file
    with a turned bit in them is too, and nothing says what they should be: only tracebacks count.
    """
    folder, spec = Path(shutil.copytree(shop.model, place / "model")), WatermarkSpec.load(shop.spec)

    def tokenizer() -> Any:
        found = load_tokenizer(str(folder))
        spec.check_tokenizer(digest_of(found), len(found))
        return digest_of(found)

    yield folder / "tokenizer.json", tokenizer
    yield folder / "config.json", lambda: load_model(str(folder)).digest
    yield folder / "model.safetensors", lambda: load_model(str(folder)).name


def _records(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    """A job's records: what is kept of them is a beginning of what was written."""
    del shop
    file = place / "records.jsonl"
    rows = [{"index": i, "signature": "s", "text": "w" * 60} for i in range(8)]
    with Records(file, "s", 2, 8) as records:
        for first in range(0, 8, 2):
            records.append(rows[first : first + 2])

    def read() -> bool:
        with Records(file, "s", 2, 8) as records:
            kept = records.rows()
            return kept == rows[: len(kept)]

    yield file, read


def _scan(shop: Shop, place: Path) -> Iterator[tuple[Path, Reader]]:
    """A finished partition of a scan, which is run again, and its job."""
    job = ScanJob(
        specs=(WatermarkSpec.load(shop.spec),),
        keys=(str(shop.key),),
        model=None,
        field="token_ids",
    )
    corpus, output = place / "corpus.jsonl", place / "out"
    ids = np.random.default_rng(0).integers(2, 200, (20, 40)).tolist()
    corpus.write_text("".join(json.dumps({"token_ids": row}) + "\n" for row in ids))

    def read() -> Any:
        return scan([str(corpus)], job, str(output), workers=1)

    read()
    yield output / "job.json", read
    [part] = output.glob("part-*")
    yield part, read


KINDS: dict[str, Callable[[Shop, Path], Iterator[tuple[Path, Reader]]]] = {
    "spec": _spec,
    "key": _key,
    "profile": _profile,
    "cache": _cache,
    "records": _records,
    "scan": _scan,
    "model": _model,
}
