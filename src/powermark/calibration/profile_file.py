"""Profiles on disk: versioned, with a digest, written whole or not at all."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from hashlib import blake2b
from pathlib import Path

import numpy as np

from powermark.calibration.fields import PROFILE, check_fields
from powermark.calibration.profile import Profile
from powermark.checks import in_interval
from powermark.errors import FileProblem, InvalidInput
from powermark.files import write_file

FORMAT, VERSION = "powermark-profile", 1
_SHARES, _NUMBERS = ("head", "tail_mass", "tail_square", "strength"), ("text", "ids")
_ARRAYS = ("head", "tail_mass", "tail_square", "text", "ids", "strength")  # as the digest has them
_ROUNDING = 1e-3  # by which the probabilities of a step may seem to be above 1


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile, whole or not at all."""
    content = io.BytesIO()
    arrays = {name: getattr(profile, name) for name in _ARRAYS}
    about = json.dumps({"format": FORMAT, "version": VERSION, **profile.about}, sort_keys=True)
    np.savez_compressed(content, about=np.array(about), **arrays)
    write_file(path, content.getvalue())


def load_profile(path: str | Path, *, unfinished: bool = False) -> Profile:
    """Read a profile; what is cut off, changed, of a newer version or not finished is refused."""
    hint = "make it with `powermark profile`"
    if unfinished:
        hint = "remove it; the profile then begins anew."
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as found:
            about = dict(json.loads(str(found["about"])))
            arrays = {name: found[name] for name in _ARRAYS}
    except OSError as error:
        raise FileProblem(
            f"cannot read {str(path)!r}: {error.strerror or error}.", hint=hint
        ) from None
    except (
        ValueError, TypeError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error,
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
        profile = Profile(**arrays, about=about)
        if about.get("digest") != profile_digest(profile):
            raise FileProblem(f"{str(path)!r} was changed after it was written.", hint=hint)
        _check(profile)
    except InvalidInput as error:
        raise FileProblem(f"in {str(path)!r}, {error}", hint=hint) from None
    if "next" in about and not unfinished:
        raise FileProblem(
            f"{str(path)!r} is an unfinished profile.",
            hint="run the command that began it once more; it goes on where it stopped.",
        )
    return profile


def _check(profile: Profile) -> None:
    """Refuse a sample that is none of probabilities, or of which something odd is said."""
    check_fields(profile.about, PROFILE)
    for kind, names in (("f", _SHARES), ("i", _NUMBERS)):
        for name in names:
            found = getattr(profile, name).dtype
            if found.kind != kind or found.itemsize not in (4, 8):
                raise InvalidInput(f"{name} must not be of the kind {found}.")
    for name in _SHARES:
        in_interval(name, getattr(profile, name), 0.0, 1.0 + _ROUNDING, closed="both")
    whole = profile.head.sum(axis=1, dtype=np.float64) + profile.tail_mass
    if whole.max() > 1.0 + _ROUNDING:
        raise InvalidInput(f"the probabilities of a step add up to {whole.max():.4g}.")
    if np.any((np.diff(profile.strength) != 0.0) & (np.diff(profile.text) == 0)):
        raise InvalidInput("strength must be the same at all steps of a text.")


def profile_digest(profile: Profile) -> str:
    """32 hexadecimal digits over the sample and what is said about it."""
    about = {name: value for name, value in profile.about.items() if name != "digest"}
    digest = blake2b(
        json.dumps(about, sort_keys=True).encode(), digest_size=16, person=b"pm-profile"
    )
    for name in _ARRAYS:
        digest.update(np.ascontiguousarray(getattr(profile, name)).tobytes())
    return digest.hexdigest()
