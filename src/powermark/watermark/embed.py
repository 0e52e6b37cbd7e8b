"""A spec joined with its key: all that an engine needs to mark logits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from powermark.checks import Array, positive
from powermark.errors import InvalidInput
from powermark.watermark import kernels
from powermark.watermark.compat import Compat
from powermark.watermark.greenlist import Pm1
from powermark.watermark.keys import HashKey, SecretKey, load_hash_key, load_key, load_ring
from powermark.watermark.scheme import Logits, Scheme
from powermark.watermark.spec import Place, WatermarkSpec
from powermark.watermark.threads import over_rows


def load_key_for(spec: WatermarkSpec, path: str | Path | None = None) -> SecretKey | HashKey:
    """Return the key a spec needs, of its kind, from a file or the environment; checked."""
    key = load_key(path) if spec.scheme == "pm1" else load_hash_key(path)
    spec.check_key(key)
    return key


def load_keys_for(
    spec: WatermarkSpec, path: str | Path | None = None, folder: str | Path | None = None
) -> SecretKey | HashKey | dict[str, SecretKey]:
    """Return the spec's key, or of a folder of keys the one it is tied to, or all of them."""
    if folder is None:
        return load_key_for(spec, path)
    if path is not None:
        raise InvalidInput("give either --key or --keys.")
    ring = load_ring(folder)
    return tied_keys(spec, ring) or ring


def tied_keys(spec: WatermarkSpec, ring: Mapping[str, SecretKey]) -> dict[str, SecretKey]:
    """Return the keys of a ring that have the spec's fingerprint; none where it has none."""
    return {n: k for n, k in ring.items() if k.fingerprint == spec.key_fingerprint}


def scheme_of(spec: WatermarkSpec, key: SecretKey | HashKey) -> Scheme:
    """Return the scheme that a spec and its key make."""
    spec.check_key(key)
    if isinstance(key, SecretKey):
        return Pm1(
            key,
            gamma=spec.gamma,
            vocab_size=spec.vocab_size,
            context_width=spec.context_width,
        )
    return Compat(
        spec.scheme,
        key,
        gamma=spec.gamma,
        vocab_size=spec.vocab_size,
        context_width=spec.context_width,
    )


def delta_scale(spec: WatermarkSpec, place: Place, temperature: float | None) -> float:
    """Return what to multiply a spec's delta with so that, added at ``place``, it acts as meant.

    A bias added before the logits are divided by T acts as ``delta / T``. Where spec and engine
    add at the same place the temperature does not matter; else it must be known.
    """
    if spec.delta_place == place:
        return 1.0
    if temperature is None:
        raise InvalidInput(
            f"the spec means delta {_words(spec.delta_place)}, and it is added {_words(place)} "
            f"here: the temperature must be given.",
            hint="pass temperature=, the value that sampling uses.",
        )
    t = float(positive("temperature", temperature))
    return t if place == "before_temperature" else 1.0 / t


def _words(place: Place) -> str:
    return place.replace("_", " ")


def measure_bias(logits: Logits, marked: Logits) -> Array:
    """Return KL(marked || original), green mass and green rate of rows; (rows, width) -> (rows, 3).

    From the two rows of logits alone, by definition: nothing of the mark is assumed but that it
    raises green tokens. Tokens with a logit of minus infinity are not there.
    """
    out = np.empty((logits.shape[0], 3))
    rows = (np.ascontiguousarray(logits), np.ascontiguousarray(marked), out)
    over_rows(lambda first, last: kernels.measure_bias(*rows, first, last), *logits.shape)
    return out
