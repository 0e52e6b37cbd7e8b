"""Profiles on disk: versioned, with metadata and a digest, written atomically."""

from __future__ import annotations

import dataclasses
import io
import json
import tokenize
import zipfile
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powermark import fields
from powermark.checks import in_interval
from powermark.errors import FileProblem, InvalidInput
from powermark.fields import Check, check_fields
from powermark.files import read_file, write_file
from powermark.signals.profile import ARRAYS, Profile
from powermark.signals.round_trip import RoundTrip
from powermark.theory.required_length import LONGEST

FORMAT, VERSION = "powermark-profile", 2
LARGEST = 2**28  # bytes of all arrays together
MOST_STEPS = LARGEST // 320  # bytes of a step with 64 probabilities, and of its round trip
_SHARES, _NUMBERS = ("head", "tail_mass", "tail_square", "strength"), ("text", "ids")
# The round trip's arrays, called copies_* in the file; from version 2 on, in finished profiles.
COPIES = ("text", "ids", "step", "returns")
_ROUNDING = 1e-3  # tolerance for probabilities of a step that sum to more than 1


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile atomically."""
    content = io.BytesIO()
    arrays = {name: getattr(profile, name) for name in ARRAYS}
    if profile.round_trip is not None:
        arrays |= {f"copies_{name}": getattr(profile.round_trip, name) for name in COPIES}
    about = json.dumps({"format": FORMAT, "version": VERSION, **profile.about}, sort_keys=True)
    np.savez_compressed(content, about=np.array(about), **arrays)
    write_file(path, content.getvalue())


def load_profile(path: str | Path, *, unfinished: bool = False) -> Profile:
    """Read a profile; truncated, modified, newer or unfinished files raise."""
    hint = "make it with `powermark profile`"
    if unfinished:
        hint = "remove it; the recording then starts again from the beginning."
    try:
        content = io.BytesIO(read_file(path, LARGEST))
        with zipfile.ZipFile(content) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST:
                raise FileProblem(
                    f"{str(path)!r} holds more than {LARGEST >> 20} MB, too much for a profile.",
                    hint=hint,
                )
        with np.load(content, allow_pickle=False) as found:
            about = dict(json.loads(str(found["about"])))
            arrays = {name: found[name] for name in ARRAYS}
            round_trip = None
            if "copies_text" in found:
                round_trip = RoundTrip(*(found[f"copies_{name}"] for name in COPIES))
    except FileProblem:
        raise
    except OSError as error:
        raise FileProblem(
            f"cannot read {str(path)!r}: {error.strerror or error}.", hint=hint
        ) from None
    except (
        ValueError, TypeError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error,
        tokenize.TokenError,  # of a header that NumPy cannot parse
        RuntimeError,  # encrypted, of an unknown method, or nested without end
    ):  # fmt: skip
        raise FileProblem(f"{str(path)!r} is not a profile, or is cut off.", hint=hint) from None
    if about.pop("format", None) != FORMAT or type(about.get("version")) is not int:
        raise FileProblem(f"{str(path)!r} is not a profile.", hint=hint)
    if (version := about.pop("version")) > VERSION:
        raise FileProblem(
            f"{str(path)!r} has version {version}; this powermark reads up to {VERSION}.",
            hint="install a newer powermark.",
        )
    try:
        _check_round_trip(round_trip, arrays["text"])
        profile = Profile(**arrays, about=about, round_trip=round_trip)
        if about.get("digest") != profile_digest(profile):
            raise FileProblem(f"{str(path)!r} was changed after it was written.", hint=hint)
        _check(profile)
    except InvalidInput as error:
        raise FileProblem(f"in {str(path)!r}, {error}", hint=hint) from None
    if "next" in about and not unfinished:
        raise FileProblem(
            f"{str(path)!r} is an unfinished profile.",
            hint="run the command that started it again; it resumes where it stopped.",
        )
    return profile


def _check(profile: Profile) -> None:
    """Raise for samples that are not probabilities, and for malformed metadata."""
    check_fields(profile.about, FIELDS)
    for kind, names in (("f", _SHARES), ("i", _NUMBERS)):
        for name in names:
            found = getattr(profile, name).dtype
            if found.kind != kind or found.itemsize not in (4, 8):
                raise InvalidInput(f"{name} must not be of type {found}.")
    for name in _SHARES:
        values = getattr(profile, name)
        extremes = [values.min(initial=0.0), values.max(initial=0.0)]
        in_interval(name, extremes, 0.0, 1.0 + _ROUNDING, closed="both")
    whole = profile.head.sum(axis=1, dtype=np.float64) + profile.tail_mass
    if whole.max() > 1.0 + _ROUNDING:
        raise InvalidInput(f"the probabilities of a step add up to {whole.max():.4g}.")
    if np.any((np.diff(profile.strength) != 0.0) & (np.diff(profile.text) == 0)):
        raise InvalidInput("strength must be the same at all steps of a text.")


def _check_round_trip(found: RoundTrip | None, text: NDArray[Any]) -> None:
    """Raise if a round trip does not fit the steps, which the profile looks up by number."""
    if found is None:
        return
    kinds = [getattr(found, name).dtype.str[1:] for name in COPIES]
    shapes = [getattr(found, name).shape for name in COPIES]
    fits = kinds == ["i4", "i4", "i4", "u1"] and shapes == [found.text.shape] * 3 + [text.shape]
    if not fits or found.text.ndim != 1 or text.ndim != 1 or found.text.size == 0:
        raise InvalidInput("copies need a text number, id and step for each token.")
    if found.step.min() < -1 or found.step.max() >= text.size:
        raise InvalidInput("copies must have tokens of the profile's own steps.")
    own = found.step >= 0
    if np.any(np.diff(found.text) < 0) or np.any(text[found.step[own]] != found.text[own]):
        raise InvalidInput("copies must be those of the profile's texts, in their order.")


def with_metadata(profile: Profile) -> Profile:
    """Return a profile whose metadata has its size, what its texts are like, and its digest."""
    about = {name: value for name, value in profile.about.items() if name != "digest"}
    about |= {"texts": np.unique(profile.text).size, "steps": profile.text.size}
    if profile.round_trip is not None:
        about |= {"survival": profile.round_trip.shares(), "typical": profile.typical()}
        about |= {"randomness": profile.randomness()}
    profile = dataclasses.replace(profile, about=about)
    return dataclasses.replace(profile, about={**about, "digest": profile_digest(profile)})


def profile_digest(profile: Profile) -> str:
    """Return 32 hexadecimal digits over the sample and its metadata."""
    about = {name: value for name, value in profile.about.items() if name != "digest"}
    digest = blake2b(
        json.dumps(about, sort_keys=True).encode(), digest_size=16, person=b"pm-profile"
    )
    for name in ARRAYS:
        digest.update(np.ascontiguousarray(getattr(profile, name)).data)
    for name in COPIES if profile.round_trip is not None else ():
        digest.update(np.ascontiguousarray(getattr(profile.round_trip, name)).data)
    return digest.hexdigest()


FIELDS: dict[str, Check] = {
    **dict.fromkeys(
        ("model", "model_digest", "tokenizer_digest", "prompts", "digest"), fields.text
    ),
    **dict.fromkeys(("top_k", "batch", "texts", "steps", "next"), fields.count),
    "vocab_size": fields.number(2, 2**32, whole=True),
    "n_tokens": fields.number(1, LONGEST, whole=True),
    "temperature": fields.not_negative,
    "top_p": fields.number(0.0, 1.0, closed="high"),
    "min_p": fields.number(0.0, 1.0, closed="low"),
    "repetition_penalty": fields.positive,
    "chat": fields.truth,
    "source": fields.one_of("text", "ids"),
    "answered": fields.share,
    "survival": fields.shares,
    "typical": fields.pairs,
    "randomness": fields.object_of(fields.not_negative),
    **dict.fromkeys(("reference", "sharpened"), fields.mapping),
}
