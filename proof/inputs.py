"""What the fuzz draws, and what takes it: the files of users."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from powermark.calibration.profile import Profile
from powermark.calibration.profile_file import load_profile, profile_digest, save_profile
from powermark.errors import PowermarkError
from powermark.watermark.keys import HASH_PREFIX, PREFIX, load_hash_key, load_key
from powermark.watermark.spec import WatermarkSpec
from proof.shop import Shop

Said = Callable[[str], object]


class Target(NamedTuple):
    """What is drawn, and what takes it; it returns whether it was accepted."""

    inputs: st.SearchStrategy[Any]
    take: Callable[[Any, Said], bool]


_numbers = st.one_of(
    st.integers(-3, 300),
    st.floats(-1.0, 2.0),
    st.floats(),
    st.integers(-(2**70), 2**70),
)
_scalars = st.one_of(st.none(), st.booleans(), _numbers, st.text(max_size=8))
any_json = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


def changed(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw an object with some fields other than they are, or missing."""
    fields = st.dictionaries(st.sampled_from([*whole, "other"]), any_json, max_size=2)
    missing = st.sets(st.sampled_from(list(whole)), max_size=1)
    return st.builds(
        lambda new, gone: {k: v for k, v in {**whole, **new}.items() if k not in gone},
        fields,
        missing,
    )


def _spliced(whole: bytes) -> st.SearchStrategy[bytes]:
    """Draw a content with a stretch of it replaced."""
    place = st.integers(0, len(whole))
    return st.builds(
        lambda at, length, new: whole[:at] + new + whole[at + length :],
        place,
        st.integers(0, 16),
        st.binary(max_size=16),
    )


@contextlib.contextmanager
def _spec(shop: Shop, place: Path) -> Iterator[Target]:
    whole = shop.spec.read_bytes()
    objects = changed(json.loads(whole)).map(lambda found: json.dumps(found).encode())

    def take(content: bytes, _: Said) -> bool:
        (place / "spec.json").write_bytes(content)
        return bool(WatermarkSpec.load(place / "spec.json"))

    yield Target(st.binary() | _spliced(whole) | objects, take)


@contextlib.contextmanager
def _key(shop: Shop, place: Path) -> Iterator[Target]:
    del shop
    file = place / "fuzzed.key"
    file.touch(0o600)
    other = bytes(32).hex()  # not the canary: a key's file is the one place where it may be
    starts = st.sampled_from([PREFIX, HASH_PREFIX, "powermark-key-2:", ""])
    near = st.tuples(starts, st.sampled_from([other, other[1:], "7"]) | st.text(max_size=8))
    texts = near.map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))

    def take(content: bytes, said: Said) -> bool:
        file.write_bytes(content)
        good = 0
        for load in (load_key, load_hash_key):
            try:
                good += bool(load(file))
            except PowermarkError as error:
                said(f"{error}\n")
        return good > 0

    yield Target(st.binary(max_size=100) | texts | _spliced((PREFIX + other).encode()), take)


@contextlib.contextmanager
def _profile(shop: Shop, place: Path) -> Iterator[Target]:
    del shop
    file = place / "p.npz"
    save_profile(_small_profile(), file)
    whole = file.read_bytes()
    with np.load(io.BytesIO(whole)) as found:
        arrays = {name: found[name] for name in found.files}
    shapes = st.lists(st.integers(0, 4), max_size=3)
    kinds = st.sampled_from([np.float32, np.int32, np.float64, np.bool_, "U3", np.complex64])

    def repacked(name: str, shape: list[int], kind: Any, about: dict[str, Any]) -> bytes:
        content = io.BytesIO()
        told = {"about": np.array(json.dumps(about))}
        np.savez(content, **{**arrays, **told, name: np.zeros(shape, kind)})
        return content.getvalue()

    about = changed(json.loads(str(arrays["about"])))
    near = st.builds(repacked, st.sampled_from([*arrays]), shapes, kinds, about)

    def take(content: bytes, _: Said) -> bool:
        file.write_bytes(content)
        return bool(load_profile(file))

    yield Target(st.binary() | _spliced(whole) | near, take)


def _small_profile() -> Any:
    rng = np.random.default_rng(0)
    head = np.sort(rng.dirichlet(np.ones(64), 12).astype(np.float32) * 0.9)[:, ::-1]
    rest, square = np.full(12, 0.1, np.float32), np.full(12, 1e-3, np.float32)
    texts, ids = np.arange(12, dtype=np.int32) // 4, np.arange(12, dtype=np.int32)
    about = {"model": "m", "vocab_size": 200}
    found = Profile(head, rest, square, texts, ids, np.zeros(12, np.float32), about)
    about["digest"] = profile_digest(found)
    return found


TARGETS: dict[str, Any] = {
    "spec": _spec,
    "key": _key,
    "profile": _profile,
}
