"""What a server knows: specs with their keys, profiles and example texts, read once from a folder.

``NAME.json`` is a spec. Its key is ``NAME.key``, or whichever ``*.key`` in the folder has the
spec's fingerprint; a spec without either can be looked at but detects nothing. ``NAME.npz`` is a
profile, ``NAME.verify.json`` what ``powermark verify --result`` wrote, ``NAME.txt`` a text to try
things on.
Names come from file names and are looked up in a dictionary: no request ever reaches the disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from powermark.calibration.profile import Profile
from powermark.calibration.profile_file import load_profile
from powermark.detection.detection import Detector, Kind
from powermark.errors import FileProblem, SpecMismatch
from powermark.interfaces.server.refusals import Refusal
from powermark.watermark.embed import load_key_for, tied_keys
from powermark.watermark.keys import HashKey, SecretKey, load_ring
from powermark.watermark.spec import FORMAT, WatermarkSpec, digest_of

T = TypeVar("T")
_EXAMPLE_BYTES = 20_000
_VERIFIED = ".verify.json"
_DETECTORS = 64  # kept ready; a client that varies alpha makes new ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMark:
    """A spec, what it takes to detect it, and what was measured of it."""

    name: str
    spec: WatermarkSpec
    key: SecretKey | HashKey | None = None
    tokenizer: Any = None
    verification: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what may be told: the spec as its file has it, and nothing of the key."""
        reads = "texts" if self.tokenizer is not None else "token ids"
        return {
            "name": self.name,
            "detects": "nothing" if self.key is None else reads,
            "spec": self.spec.to_dict(),
            "verification": self.verification,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Everything by name."""

    marks: Mapping[str, LoadedMark] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)

    def mark(self, name: str) -> LoadedMark:
        """Return a mark; the refusal does not repeat the name."""
        return _named(self.marks, name, "spec")

    def profile(self, name: str | None) -> Profile | None:
        """Return a profile, or none where none is named."""
        return None if name is None else _named(self.profiles, name, "profile")


def _named(shelf: Mapping[str, T], name: str, kind: str) -> T:
    if name not in shelf:
        hint = f"loaded: {', '.join(shelf)}." if shelf else f"no {kind} is loaded."
        raise Refusal(404, "not-found", f"no {kind} has this name.", hint=hint)
    return shelf[name]


class Detectors:
    """Detectors of a library's marks, made when they are asked for and kept."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.get = lru_cache(maxsize=_DETECTORS)(self._make)

    def _make(
        self, name: str, alpha: float | None, detector: Kind | None, normalise: bool
    ) -> Detector:
        mark = self._library.mark(name)
        if mark.key is None:
            raise Refusal(422, "no-key", "the server has no key for this spec.")
        return Detector(
            mark.spec,
            mark.key,
            tokenizer=mark.tokenizer,
            alpha=alpha,
            detector=detector,
            normalise_text=normalise,
        )


def load_library(folder: Path | None, tokenizers: Sequence[Any]) -> Library:
    """Read a folder; a file that is broken is an error, and a file of another kind is none."""
    if folder is None:
        return Library()
    if not folder.is_dir():
        raise FileProblem(
            f"there is no folder {str(folder)!r}.", hint="make one with `powermark demo -o out`."
        )
    found = _objects(folder)
    specs = {name: WatermarkSpec.from_dict(o, f"the spec {name!r}")
             for name, o in found.items() if o.get("format") == FORMAT}  # fmt: skip
    marks = {
        name: LoadedMark(
            name=name,
            spec=spec,
            key=_key(folder, name, spec),
            tokenizer=_tokenizer(spec, tokenizers),
            verification=_verification(folder, name),
        )
        for name, spec in specs.items()
    }
    profiles = {file.stem: load_profile(file) for file in sorted(folder.glob("*.npz"))}
    return Library(marks=marks, profiles=profiles, examples=_examples(folder))


def _objects(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the JSON objects of a folder's files."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        if not file.name.endswith(_VERIFIED):
            content = _read(file)
            if isinstance(content, dict):
                found[file.stem] = content
    return found


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise FileProblem(f"cannot read {str(file)!r} as JSON.") from None


def _key(folder: Path, name: str, spec: WatermarkSpec) -> SecretKey | HashKey | None:
    own = folder / f"{name}.key"
    if own.exists() or spec.scheme != "pm1":
        return load_key_for(spec, own if own.exists() else None)
    ring = load_ring(folder) if any(folder.glob("*.key")) else {}
    return next(iter(tied_keys(spec, ring).values()), None)


def _tokenizer(spec: WatermarkSpec, tokenizers: Sequence[Any]) -> Any:
    """Return the first tokenizer that the spec is for."""
    for tokenizer in tokenizers:
        with suppress(SpecMismatch):
            spec.check_tokenizer(digest_of(tokenizer), len(tokenizer))
            return tokenizer
    return None


def _verification(folder: Path, name: str) -> dict[str, Any] | None:
    file = folder / f"{name}{_VERIFIED}"
    if not file.exists():
        return None
    found = _read(file)
    if not isinstance(found, dict) or not isinstance(found.get("checks"), list):
        raise FileProblem(f"{str(file)!r} is not what `powermark verify --result` writes.")
    return found


def _examples(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.glob("*.txt")):
        if file.stat().st_size <= _EXAMPLE_BYTES:
            with suppress(OSError, UnicodeDecodeError):
                found[file.stem] = file.read_text(encoding="utf-8").removesuffix("\n")
    return found
