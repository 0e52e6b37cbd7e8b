"""``ScanJob``: what to scan for and how. It holds no secret: each worker loads the keys itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from powermark.detection.detection import unplanned_test
from powermark.detection.detector import Detector, Kind
from powermark.errors import InvalidInput
from powermark.models import load_tokenizer
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import load_keys_for

if TYPE_CHECKING:
    from powermark.corpus.scanner import Mark, Scanner


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which columns to read.

    Parameters
    ----------
    field
        Column of the text or its token ids.
    id_field
        Column of the document's id; without one the id is the document's place, ``file:number``.
    longest
        Documents with more characters, or token ids, are rejected.
    """

    field: str = "text"
    id_field: str | None = None
    longest: int = 1_000_000

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise InvalidInput(f"longest must be 1 or more; got {self.longest}.")

    @property
    def too_long(self) -> str:
        """Why a longer document is rejected."""
        return f"too long: more than {self.longest} characters or token ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanJob(ReadOptions):
    """How to scan a corpus; ``field``, ``id_field`` and ``longest`` are :class:`ReadOptions`'.

    A job can be sent to other machines. They need the key files at the same paths.

    Parameters
    ----------
    specs
        The marks.
    keys
        Key files: one for each spec, or one for all; None for the environment's key.
    key_folder
        A folder of keys to try, instead of ``keys``.
    model
        The model whose tokenizer to use; None if the corpus holds token ids.
    alpha, detector, normalise_text
        As for :class:`powermark.detection.detector.Detector`.
    windows_above
        Use ``detector`` for documents with more tokens than this, and count the others.
    """

    specs: tuple[WatermarkSpec, ...]
    keys: tuple[str | None, ...] = (None,)
    key_folder: str | None = None
    model: str | None = None
    alpha: float | None = None
    detector: Kind | None = None
    windows_above: int | None = None
    normalise_text: bool = False

    def scanner(self) -> Scanner:
        """Load tokenizer and keys, and return the scanner of batches."""
        from powermark.corpus.scanner import Scanner

        if len(self.keys) not in (1, len(self.specs)):
            raise InvalidInput(
                f"give one key for all specs or one for each; got {len(self.keys)} keys and "
                f"{len(self.specs)} specs."
            )
        if self.windows_above is not None and self.detector not in ("winmax", "winmax-c"):
            raise InvalidInput("`windows_above` needs the `detector` winmax or winmax-c.")
        tokenizer = None if self.model is None else load_tokenizer(self.model)
        keys = self.keys * len(self.specs) if len(self.keys) == 1 else self.keys
        marks = [self._mark(*pair, tokenizer) for pair in zip(self.specs, keys, strict=True)]
        return Scanner(marks, tokenizer, normalise_text=self.normalise_text)

    def notes(self, spec: WatermarkSpec) -> tuple[str, ...]:
        """Return a warning if the spec was planned for another test."""
        return () if self.detector is None else unplanned_test(spec, (self.detector,))

    def _mark(self, spec: WatermarkSpec, key: str | None, tokenizer: Any) -> Mark:
        from powermark.corpus.scanner import Mark

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

        if self.windows_above is None:
            return Mark(detector(self.detector))
        return Mark(detector("count"), detector(self.detector), self.windows_above)
