"""The marks of a server: specs and keys by name, a default, and whether requests may opt out.

They are configured in the environment, or in a TOML file that ``POWERMARK_CONFIG`` names:

| variable | in the file | |
|---|---|---|
| ``POWERMARK_SPECS`` | ``specs`` | a spec, or a folder of specs ``NAME.json`` |
| ``POWERMARK_KEYS`` | ``keys`` | a key file, or a folder of ``*.key``; else ``POWERMARK_KEY`` |
| ``POWERMARK_DEFAULT`` | ``default`` | name of the spec for requests that name none, or ``off`` |
| ``POWERMARK_OPT_OUT`` | ``opt_out`` | ``yes`` lets a request ask for no mark; ``no`` by default |

A request says ``powermark: NAME`` or ``powermark: off``, or nothing. An unknown name is an error:
no text goes out unmarked because of a typing error.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from powermark.engines.settings import CONFIG, FIELD, OFF, SETTINGS
from powermark.errors import FileProblem, InvalidInput, SpecMismatch
from powermark.signals import sampling
from powermark.watermark.keys import SecretKey, load_key, load_ring
from powermark.watermark.spec import WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark, tied_keys

_ALL = 2**24  # a larger top_k stands for the whole vocabulary
_log = logging.getLogger(__name__)
_YES_NO = {"yes": True, "no": False, True: True, False: False, None: False}


@dataclass(frozen=True, eq=False)
class ServedMark(Watermark):
    """A watermark with the name that requests choose it by, and the model's special tokens."""

    name: str = "spec"
    special_ids: Collection[int] = ()

    def scale(self, temperature: float | None) -> float:
        """Return the factor for a bias that is added before temperature.

        At temperature 0 nothing is sampled: the bias is added as it is.
        """
        return self.delta_scale("before_temperature", temperature or 1.0)

    def check_sampling(self, given: Mapping[str, Any]) -> None:
        """Log a warning, once, if a request is sampled otherwise than the plan's profile was."""
        plan = self.spec.plan
        about = (None if plan is None else plan.profile) or {}
        for name, (planned, value) in sampling.unplanned(about, given).items():
            _warn_once(
                f"the spec {self.name!r} is planned for {name} {planned:g}; at {value:g} its power "
                "and quality are not those of the plan"
            )

    def check_width(self, width: int) -> None:
        """Refuse a model whose logits are not the spec's."""
        self.spec.check_width(width, f"the spec {self.name!r}")


def sampling_of(params: object) -> dict[str, Any]:
    """Return an engine's sampling parameters of a request by our names; engines may lack some."""
    found = {name: getattr(params, name, None) for name in sampling.SETTINGS}
    if (top_k := found["top_k"]) is not None and not 0 < top_k < _ALL:
        found["top_k"] = 0
    return found


@lru_cache(maxsize=64)
def _warn_once(words: str) -> None:
    _log.warning("%s", words)


@dataclass(frozen=True, slots=True)
class Marks:
    """All marks of a server.

    Parameters
    ----------
    by_name
        The marks.
    default
        Name of the one for requests that name none; ``off`` for none.
    opt_out
        Whether a request may ask for no mark where there is a default.
    """

    by_name: Mapping[str, ServedMark]
    default: str
    opt_out: bool = False

    def __post_init__(self) -> None:
        if OFF in self.by_name:
            raise InvalidInput(f"a spec cannot be named {OFF!r}: that asks for no mark.")
        if self.default != OFF and self.default not in self.by_name:
            raise InvalidInput(f"the default must be {OFF} or a spec's name; got {self.default!r}.")

    def choose(self, asked: Mapping[str, Any] | None) -> ServedMark | None:
        """Return the mark that a request gets, from the fields it was sent with."""
        fields = {name: value for name, value in (asked or {}).items() if name.startswith(FIELD)}
        name = fields.pop(FIELD, self.default)
        if fields:
            raise InvalidInput(
                f"a request has no field {sorted(fields)[0]!r}; the mark is chosen by {FIELD!r}."
            )
        if name == OFF:
            if self.default != OFF and not self.opt_out:
                raise InvalidInput("this server marks every text; a request cannot opt out.")
            return None
        if not isinstance(name, str) or name not in self.by_name:
            known = ", ".join([*self.by_name, *([OFF] if self.opt_out else [])]) or "none"
            raise InvalidInput(f"no mark named {name!r} here; this server has: {known}.")
        return self.by_name[name]

    def fitted(self, tokenizer: Any, width: int | None = None) -> Self:
        """Return the marks for a model; refuses one with another tokenizer or too few logits."""
        digest = digest_of(tokenizer)
        for mark in self.by_name.values():
            mark.spec.check_tokenizer(digest, len(tokenizer))
            if width is not None:
                mark.check_width(width)
        return self.with_special(frozenset(tokenizer.all_special_ids))

    def with_special(self, ids: Collection[int]) -> Self:
        """Return the marks for a model with these special tokens, which are not counted."""
        fit = {name: replace(mark, special_ids=ids) for name, mark in self.by_name.items()}
        return replace(self, by_name=fit)

    @classmethod
    def none(cls) -> Self:
        """Return the marks of a server without any: a request that names one is an error."""
        return cls({}, OFF)

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the marks that the environment configures; None if it configures none."""
        settings: dict[str, Any] = {}
        if (path := os.environ.get(CONFIG)) is not None:
            settings = _read_config(Path(path))
        given = {name: os.environ.get(variable) for name, variable in SETTINGS.items()}
        settings |= {name: value for name, value in given.items() if value is not None}
        if not settings:
            return None
        if "specs" not in settings:
            raise InvalidInput(
                f"the server's specs are not named, only {', '.join(sorted(settings))}.",
                hint=f"set {SETTINGS['specs']}, or specs in the file of {CONFIG}.",
            )
        opt_out = settings.get("opt_out")
        if opt_out not in _YES_NO:
            raise InvalidInput(f"opt_out must be yes or no; got {opt_out!r}.")
        return cls.load(
            settings["specs"],
            settings.get("keys"),
            default=settings.get("default"),
            opt_out=_YES_NO[opt_out],
        )

    @classmethod
    def load(
        cls,
        specs: str | Path,
        keys: str | Path | None = None,
        *,
        default: str | None = None,
        opt_out: bool = False,
    ) -> Self:
        """Return the marks of a spec or a folder of them, with a key file or a folder of keys."""
        path = Path(specs)
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise FileProblem(f"no file named *.json in {str(path)!r}.")
        found = {file.stem: WatermarkSpec.load(file) for file in files}
        if default is None:
            if len(found) > 1:
                raise InvalidInput(
                    f"there are {len(found)} specs: say which is the default, or {OFF}.",
                    hint=f"set {SETTINGS['default']} to one of {', '.join(found)}, {OFF}.",
                )
            default = next(iter(found))
        ring = None if keys is None else _ring(Path(keys))
        marks = {
            name: ServedMark(spec, _key(name, spec, ring), name) for name, spec in found.items()
        }
        return cls(marks, default, opt_out)


def _ring(path: Path) -> dict[str, SecretKey]:
    return load_ring(path) if path.is_dir() else {path.stem: load_key(path)}


def _key(name: str, spec: WatermarkSpec, ring: Mapping[str, SecretKey] | None) -> Any:
    """Return a spec's key: the one it names, or the only one there is."""
    if ring is None or spec.scheme != "pm1":
        return Watermark.load(spec).key
    fits = ring if spec.key_fingerprint is None else tied_keys(spec, ring)
    if len(fits) != 1:
        what = "names no key, and there are" if fits else f"is for {spec.key_fingerprint}, not for"
        have = ", ".join(f"{label} ({key.fingerprint})" for label, key in ring.items())
        raise SpecMismatch(
            f"the spec {name!r} {what}: {have}.",
            hint="make the spec with --key, or add its key to the folder.",
        )
    return next(iter(fits.values()))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileProblem(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except ValueError:
        raise FileProblem(f"{str(path)!r} is not TOML.") from None
    if unknown := found.keys() - SETTINGS.keys():
        raise FileProblem(
            f"{str(path)!r} has unknown settings: {', '.join(sorted(unknown))}.",
            hint=f"settings are {', '.join(SETTINGS)}.",
        )
    for name, value in found.items():
        if not isinstance(value, str | bool) or (name != "opt_out" and value in (True, False)):
            raise FileProblem(f"{name} in {str(path)!r} must be text; got {value!r}.")
    return {
        name: path.parent / value if name in ("specs", "keys") else value
        for name, value in found.items()
    }
