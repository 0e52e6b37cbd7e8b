"""All that a worker needs to know, and no secret: it loads the keys where it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import scrypt
from typing import Any

from powermark.corpus.batches import Wanted
from powermark.corpus.scanner import Mark, Scanner
from powermark.detection.detection import Detector, Kind
from powermark.errors import InvalidInput
from powermark.models.language_model import load_tokenizer
from powermark.watermark.embed import load_keys_for
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a corpus is scanned; can be sent to other machines, where the key files must be too.

    Parameters
    ----------
    specs
        The marks.
    keys
        A key file for each, or one for all; None for the environment's.
    key_folder
        A folder of keys to try, in place of ``keys``.
    model
        Whose tokenizer; None where only token ids are read.
    alpha, detector, normalise_text
        As for :class:`powermark.detection.detection.Detector`.
    windows_above
        Documents with more tokens are searched by ``detector``, the others counted.
    wanted
        What is read of a row.
    """

    specs: tuple[WatermarkSpec, ...]
    keys: tuple[str | None, ...] = (None,)
    key_folder: str | None = None
    model: str | None = None
    alpha: float | None = None
    detector: Kind | None = None
    windows_above: int | None = None
    normalise_text: bool = False
    wanted: Wanted = field(default_factory=Wanted)

    def scanner(self) -> Scanner:
        """Load tokenizer and keys, and return what scans a batch."""
        if len(self.keys) not in (1, len(self.specs)):
            raise InvalidInput(
                f"give one key for all specs or one for each; got {len(self.keys)} keys and "
                f"{len(self.specs)} specs."
            )
        if self.windows_above is not None and self.detector not in ("winmax", "winmax-c"):
            raise InvalidInput("windows for long documents need the detector winmax or winmax-c.")
        tokenizer = None if self.model is None else load_tokenizer(self.model)
        keys = self.keys * len(self.specs) if len(self.keys) == 1 else self.keys
        marks = [self._mark(*pair, tokenizer) for pair in zip(self.specs, keys, strict=True)]
        return Scanner(marks, tokenizer, normalise_text=self.normalise_text)

    def _mark(self, spec: WatermarkSpec, key: str | None, tokenizer: Any) -> Mark:
        ring = load_keys_for(spec, key, self.key_folder)

        def detector(kind: Kind | None) -> Detector:
            return Detector(
                spec,
                ring,
                tokenizer=tokenizer,
                alpha=self.alpha,
                detector=kind,
                normalise_text=self.normalise_text,
            )

        named = ring if isinstance(ring, dict) else {"": ring}
        keys = {name: _digest(each, spec) for name, each in named.items()}
        if self.windows_above is None:
            return Mark(detector(self.detector), keys)
        return Mark(detector("count"), keys, detector(self.detector), self.windows_above)


def _digest(key: SecretKey | HashKey, spec: WatermarkSpec) -> str:
    """Return what tells a key from another, and gives none away.

    A hash key is a small number, so its digest is slow to make, and of two bytes only: millions of
    numbers share each.
    """
    if isinstance(key, SecretKey):
        return key.fingerprint
    if key == HashKey():
        return "public"
    number, salt = str(key.value).encode(), spec.digest.encode()
    return scrypt(number, salt=salt, n=2**14, r=8, p=1, dklen=2).hex()
