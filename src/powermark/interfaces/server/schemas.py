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
# fields that several requests have
_SPEC: Any = Field(description="Name of a spec that is loaded.")
_N_TOKENS: Any = Field(None, description="Tokens scored by the detector.")
_ALPHA: Any = Field(None, description="Level: bound on the false-positive rate.")
_POWER: Any = Field(None, description="Power on untouched text.")
_KL: Any = Field(None, description="KL budget, nats per token.")
_GAMMA: Any = Field(None, description="Green share of the vocabulary.")
_DELTA: Any = Field(None, description="Bias added to green logits.")
_ATTACKED: Any = Field(
    None, description="Power to keep on edited text; the full power if left out."
)


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
    signal: Literal["plug-in", "dirichlet", "mixture"] = Field(
        "plug-in", description="Signal model, where no profile is named."
    )
    vocab_size: int | None = Field(
        None, ge=2, le=2**24, description="Number of token ids; for a spec, or signal dirichlet."
    )
    concentration: float = Field(1.0, description="Of signal dirichlet; the paper has 1.")
    mixture: str | None = Field(
        None, max_length=200, description="WEIGHT:CONCENTRATION,... of signal mixture."
    )
    profile: NAME | None = Field(None, description="Name of a profile that is loaded.")


class PlanAsked(SignalAsked):
    """All but one of n_tokens, alpha, power and kl."""

    n_tokens: LENGTH | None = _N_TOKENS
    alpha: float | None = _ALPHA
    power: float | None = _POWER
    kl: float | None = _KL
    method: Literal["exact", "paper", "authors"] = Field(
        "exact", description="exact; paper (its Eq. 1); authors (their published grid)."
    )
    gamma: float | None = _GAMMA
    delta: float | None = _DELTA
    attacked_power: float | None = _ATTACKED
    precision: float | None = Field(
        None, description="Warn where a profile leaves the power less certain than this; .03."
    )
    steer: bool = Field(False, description="Let the bias follow the count.")
    checkpoint: list[LENGTH] = Field(
        [], max_length=8, description="With steer: shorter lengths to be found at, too."
    )
    delta_cap: float | None = Field(None, description="With steer: the largest bias.")
    kl_cap: float | None = Field(
        None, description="With steer: the most KL of a step, in nats, on average over texts."
    )


class SpecAsked(PlanAsked):
    """A plan to be frozen, and whose tokenizer and key it is for."""

    like: NAME | None = Field(None, description="Name of a spec to take tokenizer and key from.")


class PowerAsked(SignalAsked):
    """A design to be looked at."""

    gamma: float = Field(description="Green share of the vocabulary.")
    delta: float = Field(description="Bias added to green logits.")
    n_tokens: LENGTH = Field(description="Tokens scored by the detector.")
    alpha: float = Field(description="Level: bound on the false-positive rate.")
    test: Literal["exact", "z"] = Field(
        "exact", description="exact, or z for the paper's z-test, whose size may exceed alpha."
    )


class CurveAsked(SignalAsked):
    """Vary one quantity."""

    over: Literal["n_tokens", "kl", "power", "delta", "gamma"] = Field(description="What varies.")
    start: float | None = Field(None, alias="from", le=100_000, description="Its first value.")
    stop: float | None = Field(None, alias="to", le=100_000, description="Its last value.")
    points: int = Field(25, ge=2, le=100, description="How many values.")
    n_tokens: LENGTH | None = _N_TOKENS
    alpha: float | None = _ALPHA
    power: float | None = _POWER
    kl: float | None = _KL
    gamma: float | None = _GAMMA
    delta: float | None = _DELTA
    attacked_power: float | None = _ATTACKED


class TextAsked(Asked):
    """A text, or its token ids, and what stood before it."""

    text: str | None = Field(None, max_length=1 << 20, description="The text; or give token_ids.")
    token_ids: list[TOKEN_ID] | None = Field(
        None, description="Its token ids; needs the scope inspect."
    )
    prompt: str | None = Field(
        None, max_length=1 << 20, description="What stood before; lets the first tokens count."
    )
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

    spec: NAME = _SPEC
    alpha: float | None = Field(
        None, description="Level; the plan's if left out. Another needs the scope inspect."
    )
    detector: Kind | None = Field(
        None,
        description="count, winmax, winmax-c or evalue; the plan's if left out. Another needs the "
        "scope inspect.",
    )
    normalise: bool = Field(False, description="Undo look-alike and invisible characters.")


class DetectAsked(TextAsked, DetectorAsked):
    """One text."""

    tokens: bool = Field(False, description="Each token's colour too; needs the scope inspect.")


class BatchAsked(DetectorAsked):
    """Many texts."""

    texts: list[TextAsked] = Field(
        min_length=1, max_length=_TEXTS, description=f"Texts to look at, {_TEXTS} at most."
    )


class GenerateAsked(Asked):
    """A prompt to continue."""

    spec: NAME = _SPEC
    prompt: str = Field(max_length=10_000, description="Text to continue.")
    n_tokens: int = Field(120, ge=1, le=512, description="Tokens to write at most.")
    temperature: float | None = Field(
        None, description="0 takes the likeliest token; the plan's, or 1, if left out."
    )
    top_k: int | None = Field(
        None,
        ge=0,
        le=2**24,
        description="Sample among the k likeliest, 0 for all; the plan's, or 0, if left out.",
    )
    top_p: float | None = Field(
        None, description="Sample within this much probability; the plan's, or 1, if left out."
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="For the same text again.")
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
