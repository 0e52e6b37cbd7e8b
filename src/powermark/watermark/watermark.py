"""``Watermark``: a spec with its key, all that marking and detecting need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from powermark.checks import positive
from powermark.errors import InvalidInput
from powermark.steering.schedule import Schedule
from powermark.watermark.compat import Compat
from powermark.watermark.keys import HashKey, SecretKey, load_hash_key, load_key, load_ring
from powermark.watermark.scheme import Pm1, Scheme
from powermark.watermark.spec import Place, WatermarkSpec

if TYPE_CHECKING:
    from powermark.detection.detector import Detection, Detector


@dataclass(frozen=True, eq=False)
class Watermark:
    """A spec and its key; a key that does not fit the spec is refused.

    Parameters
    ----------
    spec
        The mark.
    key
        Its key: secret for scheme ``pm1``, a hash key for the schemes of other tools.
    """

    spec: WatermarkSpec
    key: SecretKey | HashKey

    def __post_init__(self) -> None:
        self.spec.check_key(self.key)

    @classmethod
    def load(cls, spec: WatermarkSpec | str | Path, key: str | Path | None = None) -> Self:
        """Read a spec, unless it is given, and its key.

        The key comes from a file or, without one, from the environment. Schemes of other tools
        fall back to their public default.
        """
        if not isinstance(spec, WatermarkSpec):
            spec = WatermarkSpec.load(spec)
        return cls(spec, load_key(key) if spec.scheme == "pm1" else load_hash_key(key))

    @cached_property
    def scheme(self) -> Scheme:
        """The green lists."""
        sizes: dict[str, Any] = {
            name: getattr(self.spec, name) for name in ("gamma", "vocab_size", "context_width")
        }
        if isinstance(self.key, SecretKey):
            return Pm1(self.key, **sizes)
        return Compat(self.spec.scheme, self.key, **sizes)

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of biases; None where the bias is constant."""
        return self.spec.schedule

    @property
    def fingerprint(self) -> str | None:
        """The key's fingerprint; None for a hash key, whose digest would give it away."""
        return self.key.fingerprint if isinstance(self.key, SecretKey) else None

    @property
    def has_private_hash_key(self) -> bool:
        """Whether the key is a hash key other than the public default: no record can name it."""
        return isinstance(self.key, HashKey) and self.key != HashKey()

    def delta_scale(self, place: Place, temperature: float | None) -> float:
        """Return the factor with which the spec's delta, added at ``place``, acts as meant.

        A bias added before the logits are divided by T acts as ``delta / T``. Where spec and
        engine add at the same place the temperature does not matter; else it must be known.
        """
        meant = self.spec.delta_place
        if meant == place:
            return 1.0
        if temperature is None:
            raise InvalidInput(
                f"the spec means delta {_words(meant)}, and it is added {_words(place)} here: "
                f"the temperature must be given.",
                hint="pass temperature=, the value that sampling uses.",
            )
        t = float(positive("temperature", temperature))
        return t if place == "before_temperature" else 1.0 / t

    def detector(self, tokenizer: Any = None, **options: Any) -> Detector:
        """Return a detector of this mark; ``options`` are those of :class:`powermark.Detector`."""
        from powermark.detection.detector import Detector

        return Detector(self.spec, self.key, tokenizer=tokenizer, **options)

    def detect(
        self, text: str | ArrayLike, *, tokenizer: Any = None, prompt: Any = None, **options: Any
    ) -> Detection:
        """Look for the mark in one text, or in its token ids.

        To look at many texts, make a :meth:`detector` once.
        """
        return self.detector(tokenizer, **options).detect(text, prompt=prompt)


def _words(place: Place) -> str:
    return place.replace("_", " ")


def load_keys_for(
    spec: WatermarkSpec, key: str | Path | None = None, keys: str | Path | None = None
) -> SecretKey | HashKey | dict[str, SecretKey]:
    """Return the key in a file; from a folder ``keys``, the key the spec is tied to, or else all.

    Without either, the key of the environment.
    """
    if keys is None:
        return Watermark.load(spec, key).key
    if key is not None:
        raise InvalidInput("give either `key` or `keys`.")
    ring = load_ring(keys)
    return tied_keys(spec, ring) or ring


def tied_keys(spec: WatermarkSpec, ring: Mapping[str, SecretKey]) -> dict[str, SecretKey]:
    """Return the keys of a ring that have the spec's fingerprint."""
    return {n: k for n, k in ring.items() if k.fingerprint == spec.key_fingerprint}
