"""What the fuzz draws, and what takes it: the files of users.

Half of the specs and profiles that are almost right are given the digest of what they hold, as
whoever means harm would; what is accepted is used.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from powermark import evaluate, plan
from powermark.detection.detector import Detector
from powermark.errors import PowermarkError
from powermark.generation.writing import sampling_for
from powermark.measuring.promise import promise_of
from powermark.measuring.verify import verify
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile, profile_digest, save_profile
from powermark.steering.goal import BIASES
from powermark.steering.schedule import Schedule
from powermark.watermark.keys import HASH_PREFIX, PREFIX, SecretKey, load_hash_key, load_key
from powermark.watermark.spec import STEERED, WatermarkSpec, digest_of_fields
from powermark.watermark.watermark import Watermark
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


def mostly(near: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw what is almost right four times as often as what is not."""
    return st.sampled_from(range(5)).flatmap(lambda number: near if number else odd)


def _spliced(whole: bytes) -> st.SearchStrategy[bytes]:
    """Draw a content with a stretch of it replaced."""
    place = st.integers(0, len(whole))
    return st.builds(
        lambda at, length, new: whole[:at] + new + whole[at + length :],
        place,
        st.integers(0, 16),
        st.binary(max_size=16),
    )


def used(said: Said, *uses: Callable[[], object]) -> bool:
    """Use what was accepted in every way, and say whether one of them came to an end."""
    good = 0
    for use in uses:
        try:
            said(f"{use()}\n")
            good += 1
        except PowermarkError as error:
            said(f"{error}\n")
    return good > 0


@contextlib.contextmanager
def _spec(shop: Shop, place: Path) -> Iterator[Target]:
    whole, key = json.loads(shop.spec.read_bytes()), load_key(shop.key)
    about = {"model": "m", "vocab_size": 200, "temperature": 0.7, "top_k": 5, "top_p": 0.9}
    whole["design"] |= {"profile": about, "standard_errors": {"kl": 0.1, "power": 0.1}}
    n = whole["design"]["n_tokens"]
    biases, rates = np.full((n, n + 1), 0.5), np.full(BIASES.size, 0.5)
    schedule = Schedule(whole["gamma"], biases, rates).to_dict()
    steered = {**whole, "version": STEERED, "steering": schedule}
    windows = {**whole["design"], "detector": "winmax-c", "removal": 0.2, "draws": 20_000}
    windows |= {"window_size": 0.01, "window_power": 0.9, "window_attacked_power": 0.8}
    plans = changed(whole["design"])
    near = st.one_of(
        changed(whole),
        changed(steered),
        plans.map(lambda found: {**whole, "design": found}),
        plans.map(lambda found: {**steered, "design": found}),
        changed(windows).map(lambda found: {**whole, "design": found}),
        changed(about).map(lambda found: _with_profile(whole, found)),
        changed(schedule).map(lambda found: {**steered, "steering": found}),
    )
    objects = st.builds(lambda found, sign: _signed(found) if sign else found, near, st.booleans())
    content = objects.map(lambda found: json.dumps(found).encode())

    def take(content: bytes, said: Said) -> bool:
        (place / "spec.json").write_bytes(content)
        spec = WatermarkSpec.load(place / "spec.json")
        return used(said, *_uses_of_spec(spec, key))

    yield Target(mostly(content, st.binary() | _spliced(shop.spec.read_bytes())), take)


def _with_profile(spec: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "design": {**spec["design"], "profile": about}}


def _signed(found: dict[str, Any]) -> dict[str, Any]:
    """Return a spec's object with the digest of what it holds."""
    fields = {name: value for name, value in found.items() if name != "digest"}
    try:
        return {**fields, "digest": digest_of_fields(fields)}
    except ValueError:  # no spec holds a nan
        return found


def _uses_of_spec(spec: WatermarkSpec, key: SecretKey) -> list[Callable[[], object]]:
    about = None if spec.plan is None else spec.plan.profile
    ids = [list(range(first, first + 100)) for first in (0, 20)]
    texts = [{"token_ids": row, "kl": [0.1] * 100, "green_rate": [0.6] * 100} for row in ids]

    def kept() -> object:
        by_hand: dict[str, Any] = {} if spec.plan else {"n_tokens": 50, "alpha": 0.05}
        return verify(Watermark(spec, key), promise_of(spec, **by_hand), texts, texts)

    return [
        lambda: Detector(spec, key).detect(ids[0]),
        lambda: Detector(spec, key, detector="evalue").detect(ids[0]),
        lambda: sampling_for(about, 50, strict=True, temperature=0.8),
        kept,
    ]


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
    told = changed(json.loads(str(arrays.pop("about"))))
    shapes = st.lists(st.integers(0, 4), max_size=3)
    kinds = st.sampled_from([np.float32, np.int32, np.float64, np.bool_, "U3", np.complex64])
    other = st.builds(lambda shape, kind: np.zeros(shape, kind), shapes, kinds)
    values = st.sampled_from([np.nan, np.inf, -0.5, 0.0, 0.3, 1.0, 1e30])

    def spoilt(name: str, at: int, value: float) -> dict[str, Any]:
        array = arrays[name].copy()
        array.flat[at % array.size] = value if array.dtype.kind == "f" else at
        return {name: array}

    names = st.sampled_from([*arrays])
    changes = st.one_of(
        st.just({}),
        st.builds(lambda name, array: {name: array}, names, other),
        st.builds(spoilt, names, st.integers(0, 2**31 - 1), values),
    )

    def repacked(change: dict[str, Any], about: dict[str, Any], sign: bool) -> bytes:
        content, mine = io.BytesIO(), {**arrays, **change}
        if sign:
            with contextlib.suppress(PowermarkError):  # of no profile's shape
                kept = {k: v for k, v in about.items() if k not in ("format", "version", "digest")}
                about = {**about, "digest": profile_digest(Profile(**mine, about=kept))}
        np.savez(content, **mine, about=np.array(json.dumps(about)))
        return content.getvalue()

    near = st.builds(repacked, changes, told, st.booleans())

    def take(content: bytes, said: Said) -> bool:
        file.write_bytes(content)
        return used(said, *_uses_of_profile(load_profile(file)))

    yield Target(mostly(near, st.binary() | _spliced(whole)), take)


def _uses_of_profile(profile: Profile) -> list[Callable[[], object]]:
    level: dict[str, Any] = {"n_tokens": 20, "alpha": 0.05, "signal": profile}
    return [
        lambda: evaluate(0.5, 2.0, **level),
        lambda: plan(power=0.5, gamma=0.5, **level),
        lambda: sampling_for(profile.about, 20, strict=True, temperature=0.7),
    ]


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
