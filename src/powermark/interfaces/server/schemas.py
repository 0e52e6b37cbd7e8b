"""What may be asked: the command line's options as JSON fields, each with a bound."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from powermark.calibration.edits import CONTEXT_WIDTH
from powermark.detection.detection import Kind
from powermark.errors import InvalidInput

NAME = Annotated[str, Field(min_length=1, max_length=100)]
LENGTH = Annotated[int, Field(ge=1, le=100_000)]
TOKEN_ID = Annotated[int, Field(ge=0, lt=2**24)]
LONGEST_STEERED = 1_000  # tokens; longer schedules take minutes to solve
_TEXTS = 256


class Asked(BaseModel):
    """A request: no field but those named, no number written as a string, no infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class SignalAsked(Asked):
    """What the mark does on the model, and what happens to texts."""

    edit_rate: float | None = Field(None, description="Probability that a token is rewritten.")
    survival: float | None = Field(None, description="Share of positions that keep their signal.")
    removal: float | None = Field(None, description="Contiguous share of the text replaced.")
    context_width: int = Field(CONTEXT_WIDTH, ge=0, le=64, description="Tokens that seed a list.")
    variance_inflation: float = Field(1.0, description="Overdispersion c of green counts.")
    signal: Literal["plug-in", "dirichlet", "mixture"] = "plug-in"
    vocab_size: int | None = Field(None, ge=2, le=2**24)
    concentration: float = 1.0
    mixture: str | None = Field(None, max_length=200)
    profile: NAME | None = Field(None, description="Name of a profile that is loaded.")


class PlanAsked(SignalAsked):
    """All but one of n_tokens, alpha, power and kl."""

    n_tokens: LENGTH | None = None
    alpha: float | None = None
    power: float | None = None
    kl: float | None = None
    method: Literal["exact", "paper", "authors"] = "exact"
    gamma: float | None = None
    delta: float | None = None
    attacked_power: float | None = None
    precision: float | None = None
    steer: bool = False
    checkpoint: list[LENGTH] = Field([], max_length=8)
    delta_cap: float | None = None
    kl_cap: float | None = None


class SpecAsked(PlanAsked):
    """A plan to be frozen, and whose tokenizer and key it is for."""

    like: NAME | None = Field(None, description="Name of a spec to take tokenizer and key from.")


class PowerAsked(SignalAsked):
    """A design to be looked at."""

    gamma: float
    delta: float
    n_tokens: LENGTH
    alpha: float
    test: Literal["exact", "z"] = "exact"


class CurveAsked(SignalAsked):
    """Vary one quantity."""

    over: Literal["n_tokens", "kl", "power", "delta", "gamma"]
    start: float | None = Field(None, alias="from", le=100_000)
    stop: float | None = Field(None, alias="to", le=100_000)
    points: int = Field(25, ge=2, le=100)
    n_tokens: LENGTH | None = None
    alpha: float | None = None
    power: float | None = None
    kl: float | None = None
    gamma: float | None = None
    delta: float | None = None
    attacked_power: float | None = None


class TextAsked(Asked):
    """A text, or its token ids, and what stood before it."""

    text: str | None = Field(None, max_length=1 << 20)
    token_ids: list[TOKEN_ID] | None = None
    prompt: str | None = Field(None, max_length=1 << 20)
    source: str = Field("-", max_length=200, description="Comes back with the answer.")

    @model_validator(mode="after")
    def _one_of_two(self) -> TextAsked:
        if (self.text is None) == (self.token_ids is None):
            raise ValueError("give either text or token_ids")
        return self

    @property
    def content(self) -> str | list[int]:
        """The text or its ids."""
        return self.text if self.text is not None else self.token_ids or []


class DetectorAsked(Asked):
    """Which mark to look for, and how."""

    spec: NAME
    alpha: float | None = None
    detector: Kind = Field("count", description="count, winmax, winmax-c or evalue.")
    normalise: bool = False


class DetectAsked(TextAsked, DetectorAsked):
    """One text."""

    tokens: bool = Field(False, description="Each token's colour too; needs the scope inspect.")


class BatchAsked(DetectorAsked):
    """Many texts."""

    texts: list[TextAsked] = Field(min_length=1, max_length=_TEXTS)


class GenerateAsked(Asked):
    """A prompt to continue."""

    spec: NAME
    prompt: str = Field(max_length=10_000)
    n_tokens: int = Field(120, ge=1, le=512)
    temperature: float | None = None
    top_k: int | None = Field(None, ge=0, le=2**24)
    top_p: float | None = None
    seed: int | None = Field(None, ge=0, lt=2**31)
    compare: bool = Field(False, description="Write a second text without the mark beside it.")


class Verdict(BaseModel):
    """What the scope ``detect`` is told: p rounded up to a power of ten, and no counts."""

    source: str
    verdict: Literal["watermarked", "no watermark found", "inconclusive"]
    p: float
    alpha: float
    detector: Kind
    tokens: int
    power: float
    tokens_needed: int | None
    signature: str


class Batch(BaseModel):
    """One result for each text, in order."""

    results: list[dict[str, Any]]


class Curve(BaseModel):
    """Designs as one quantity varies."""

    over: str
    points: list[dict[str, Any]]


def check_steering(asked: PlanAsked) -> None:
    """Refuse a schedule that would keep a thread for minutes."""
    if asked.steer and (asked.n_tokens is None or asked.n_tokens > LONGEST_STEERED):
        raise InvalidInput(
            f"steer needs n_tokens of at most {LONGEST_STEERED} here.",
            hint="longer schedules are for the command line, `powermark plan --steer`.",
        )
