"""Profiles on disk: versioned, with a digest, written whole or not at all."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from hashlib import blake2b
from pathlib import Path

import numpy as np

from powermark.calibration.profile import Profile
from powermark.errors import FileProblem
from powermark.files import write_file

FORMAT, VERSION = "powermark-profile", 1
_ARRAYS = ("head", "tail_mass", "tail_square", "text", "ids", "strength")


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
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        raise FileProblem(f"{str(path)!r} is not a profile, or is cut off.", hint=hint) from None
    if about.pop("format", None) != FORMAT or type(about.get("version")) is not int:
        raise FileProblem(f"{str(path)!r} is not a profile.", hint=hint)
    if (version := about.pop("version")) > VERSION:
        raise FileProblem(
            f"{str(path)!r} has version {version}; this powermark reads up to {VERSION}.",
            hint="install a newer powermark.",
        )
    profile = Profile(**arrays, about=about)
    if about.get("digest") != profile_digest(profile):
        raise FileProblem(f"{str(path)!r} was changed after it was written.", hint=hint)
    if "next" in about and not unfinished:
        raise FileProblem(
            f"{str(path)!r} is an unfinished profile.",
            hint="run the command that began it once more; it goes on where it stopped.",
        )
    return profile


def profile_digest(profile: Profile) -> str:
    """32 hexadecimal digits over the sample and what is said about it."""
    about = {name: value for name, value in profile.about.items() if name != "digest"}
    digest = blake2b(
        json.dumps(about, sort_keys=True).encode(), digest_size=16, person=b"pm-profile"
    )
    for name in _ARRAYS:
        digest.update(np.ascontiguousarray(getattr(profile, name)).tobytes())
    return digest.hexdigest()
