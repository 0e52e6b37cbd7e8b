"""The specs, keys, profiles and example texts of a server, read once from a folder.

``NAME.json`` is a spec. Its key is ``NAME.key``, or the ``*.key`` file of the folder with the
spec's fingerprint; a spec without a key can be shown but detects nothing. ``NAME.npz`` is a
profile, ``NAME.verify.json`` the result of ``powermark verify --result``. Example texts have their
own folder, as every client gets them.
Names come from file names and are looked up in a dictionary: no request reaches the disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from powermark.detection.detector import Detector, Kind
from powermark.errors import FileProblem, SpecMismatch
from powermark.interfaces.server.examples import load_examples, own_examples
from powermark.interfaces.server.refusals import Refusal
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile
from powermark.watermark.keys import HashKey, SecretKey, load_key, load_ring
from powermark.watermark.spec import FORMAT, WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark, tied_keys

T = TypeVar("T")
_VERIFIED = ".verify.json"
_DETECTORS = 64  # cached; each alpha needs another


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMark:
    """A watermark, or the spec alone if the server has no key; its tokenizer and verification."""

    name: str
    mark: Watermark | WatermarkSpec
    tokenizer: Any = None
    verification: dict[str, Any] | None = None

    @property
    def spec(self) -> WatermarkSpec:
        """The spec."""
        return self.mark.spec if isinstance(self.mark, Watermark) else self.mark

    @property
    def watermark(self) -> Watermark:
        """The watermark; refuses if the server has no key."""
        if isinstance(self.mark, Watermark):
            return self.mark
        raise Refusal(422, "no-key", "the server has no key for this spec.")

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts: the spec as in its file, and nothing of the key."""
        reads = "texts" if self.tokenizer is not None else "token ids"
        return {
            "name": self.name,
            "detects": reads if isinstance(self.mark, Watermark) else "nothing",
            "spec": self.spec.to_dict(),
            "verification": self.verification,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Marks, profiles and examples, by name."""

    marks: Mapping[str, LoadedMark] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)

    def mark(self, name: str) -> LoadedMark:
        """Return a mark; the refusal does not repeat the name."""
        return _named(self.marks, name, "spec")

    def profile(self, name: str | None) -> Profile | None:
        """Return a profile; None if ``name`` is None."""
        return None if name is None else _named(self.profiles, name, "profile")


def _named(shelf: Mapping[str, T], name: str, kind: str) -> T:
    if name not in shelf:
        hint = f"loaded: {', '.join(shelf)}." if shelf else f"no {kind} is loaded."
        raise Refusal(404, "not-found", f"no {kind} has this name.", hint=hint)
    return shelf[name]


class Detectors:
    """Detectors of a library's marks, made on first use and cached."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.get = lru_cache(maxsize=_DETECTORS)(self._make)

    def _make(
        self,
        name: str,
        alpha: float | None,
        detector: Kind | tuple[Kind, ...] | None,
        looks: int,
        normalise: bool,
    ) -> Detector:
        mark = self._library.mark(name)
        return mark.watermark.detector(
            mark.tokenizer,
            alpha=alpha,
            detector=detector,
            looks=looks,
            normalise_text=normalise,
        )


def load_library(
    folder: Path | None, tokenizers: Sequence[Any], examples: Path | None = None
) -> Library:
    """Read a folder; malformed files raise, other files are ignored.

    Parameters
    ----------
    folder
        Folder of specs, keys and profiles.
    tokenizers
        Tokenizers that specs may be for.
    examples
        Folder of texts for every client; by default ``examples`` in ``folder``.
    """
    if folder is None:
        return Library(examples=load_examples(examples))
    if not folder.is_dir():
        raise FileProblem(
            f"the folder {str(folder)!r} does not exist.",
            hint="make one with `powermark demo -o out`.",
        )
    found = _objects(folder)
    specs = {name: WatermarkSpec.from_dict(o, f"the spec {name!r}")
             for name, o in found.items() if o.get("format") == FORMAT}  # fmt: skip
    marks = {
        name: LoadedMark(
            name=name,
            mark=_mark(folder, name, spec),
            tokenizer=_tokenizer(spec, tokenizers),
            verification=_verification(folder, name),
        )
        for name, spec in specs.items()
    }
    profiles = {file.stem: load_profile(file) for file in sorted(folder.glob("*.npz"))}
    texts = load_examples(examples or own_examples(folder), _keys(folder, marks))
    return Library(marks=marks, profiles=profiles, examples=texts)


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


def _mark(folder: Path, name: str, spec: WatermarkSpec) -> Watermark | WatermarkSpec:
    own = folder / f"{name}.key"
    if own.exists() or spec.scheme != "pm1":
        return Watermark.load(spec, own if own.exists() else None)
    ring = load_ring(folder) if any(folder.glob("*.key")) else {}
    return next((Watermark(spec, key) for key in tied_keys(spec, ring).values()), spec)


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
        raise FileProblem(f"{str(file)!r} is not a result of `powermark verify --result`.")
    return found


def _keys(folder: Path, marks: Mapping[str, LoadedMark]) -> list[SecretKey | HashKey]:
    """Return the keys of all marks, and all other keys of the folder."""
    loaded = [one.mark.key for one in marks.values() if isinstance(one.mark, Watermark)]
    others = []
    for file in folder.glob("*.key"):
        with suppress(FileProblem):  # of another kind, or damaged
            others.append(load_key(file))
    return loaded + others
