"""The bodies of requests: the command line's options as JSON fields, each with a bound."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from powermark.detection.detector import Kind
from powermark.errors import InvalidInput
from powermark.planning.request import PRECISION
from powermark.signals.edits import CONTEXT_WIDTH

NAME = Annotated[str, Field(min_length=1, max_length=100)]
LENGTH = Annotated[int, Field(ge=1, le=100_000)]
TOKEN_ID = Annotated[int, Field(ge=0, lt=2**24)]
TOKEN_IDS = Annotated[list[TOKEN_ID], Field(fail_fast=True)]  # not an error for each of a million
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


class RequestModel(BaseModel):
    """The base of all bodies: no unknown fields, no numbers as strings, no infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        """Refuse many unknown fields with one error, not one error each."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields):
            raise ValueError("there are too many fields")
        return given


class SignalFields(RequestModel):
    """What the mark does on the model, and what happens to texts."""

    edit_rate: float | None = Field(None, description="Probability that a token is rewritten.")
    survival: float | None = Field(None, description="Share of positions that keep their signal.")
    removal: float | None = Field(None, description="Contiguous share of the text replaced.")
    context_width: int = Field(CONTEXT_WIDTH, ge=0, le=64, description="Tokens that seed a list.")
    variance_inflation: float = Field(1.0, description="Overdispersion c of green counts.")
    signal: Literal["plug-in", "dirichlet", "mixture", "topics"] = Field(
        "plug-in", description="Signal model, where no profile is named."
    )
    vocab_size: int | None = Field(
        None, ge=2, le=2**24, description="Number of token ids; for a spec, or signal dirichlet."
    )
    concentration: float = Field(1.0, description="Of signal dirichlet; the paper has 1.")
    mixture: str | None = Field(
        None, max_length=200, description="WEIGHT:CONCENTRATION,... of signal mixture."
    )
    topics: str | None = Field(
        None, max_length=200, description="CONCENTRATION=MIXTURE/... of signal topics."
    )
    profile: NAME | None = Field(None, description="Name of a profile that is loaded.")
    like: Literal["chat", "prose", "code"] | None = Field(
        None, description="Without a profile of your model: a reference profile."
    )
    entropy: float | None = Field(
        None, description="With like: mean entropy of your model's distributions, nats."
    )
    source: Literal["text", "ids"] | None = Field(
        None, description="What the detector is given; with a profile, text by default."
    )


class PlanRequest(SignalFields):
    """All but one of n_tokens, alpha, power and kl; or alpha and coverage."""

    n_tokens: LENGTH | None = _N_TOKENS
    alpha: float | None = _ALPHA
    power: float | None = _POWER
    kl: float | None = _KL
    coverage: float | None = Field(
        None, description="Share of all answers to find, each at its own length."
    )
    lengths: list[Annotated[int, Field(ge=0, le=2_000)]] | None = Field(
        None,
        min_length=1,
        max_length=10_000,
        description="Generated tokens of answers; those of the profile's texts if left out.",
    )
    method: Literal["exact", "paper", "authors"] = Field(
        "exact", description="exact; paper (its Eq. 1); authors (their published grid)."
    )
    gamma: float | None = _GAMMA
    delta: float | None = _DELTA
    attacked_power: float | None = _ATTACKED
    precision: float = Field(
        PRECISION, description="Warn where a profile leaves the power less certain than this."
    )
    detector: Literal["count", "evalue"] = Field(
        "count", description="Whose power counts: count, or evalue for texts looked at any time."
    )
    steer: bool = Field(False, description="Let the bias follow the count.")
    checkpoint: list[LENGTH] = Field(
        [], max_length=8, description="With steer: shorter lengths to be found at, too."
    )
    delta_cap: float | None = Field(None, description="With steer: the largest bias.")
    kl_cap: float | None = Field(
        None, description="With steer: the most KL of a step, in nats (default 2; 100 lifts it)."
    )


class SpecRequest(PlanRequest):
    """A plan to be frozen, and whose tokenizer and key it is for."""

    spec: NAME | None = Field(None, description="Name of a spec to take tokenizer and key from.")


class PowerRequest(SignalFields):
    """A design to be looked at."""

    gamma: float = Field(description="Green share of the vocabulary.")
    delta: float = Field(description="Bias added to green logits.")
    n_tokens: LENGTH = Field(description="Tokens scored by the detector.")
    alpha: float = Field(description="Level: bound on the false-positive rate.")
    test: Literal["exact", "z"] = Field(
        "exact", description="exact, or z for the paper's z-test, whose size may exceed alpha."
    )


class CurveRequest(SignalFields):
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


class TextInput(RequestModel):
    """A text or its token ids, and the prompt before it."""

    text: str | None = Field(None, max_length=1 << 20, description="The text; or give token_ids.")
    token_ids: TOKEN_IDS | None = Field(None, description="Its token ids; needs the scope inspect.")
    prompt: str | None = Field(
        None, max_length=1 << 20, description="Text before it; lets the first tokens count."
    )
    source: str = Field(
        "-", max_length=200, description="Name of the text, repeated in the answer."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> TextInput:
        if (self.text is None) == (self.token_ids is None):
            raise ValueError("give either text or token_ids")
        return self

    @property
    def content(self) -> str | list[int]:
        """The text or its ids."""
        return self.text if self.text is not None else self.token_ids or []


class DetectorOptions(RequestModel):
    """The mark to look for, and the test."""

    spec: NAME = _SPEC
    alpha: float | None = Field(
        None, description="Level; the plan's if left out. Another needs the scope inspect."
    )
    detector: Kind | Annotated[list[Kind], Field(max_length=4)] | None = Field(
        None,
        description="count, winmax, winmax-c or evalue, or a list of some: p is multiplied by "
        "their number. The plan's if left out; others need the scope inspect.",
    )
    looks: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="Number of tests of each text, with other specs, parts of it or settings: p is "
        "multiplied by it. Needs the scope inspect.",
    )
    normalise: bool = Field(False, description="Undo look-alike and invisible characters.")


class DetectRequest(TextInput, DetectorOptions):
    """A text to look for a mark in."""

    tokens: bool = Field(False, description="Each token's colour too; needs the scope inspect.")


class BatchRequest(DetectorOptions):
    """Texts to look for a mark in."""

    texts: list[TextInput] = Field(
        min_length=1, max_length=_TEXTS, description=f"Texts, {_TEXTS} at most."
    )


class ChatMessage(RequestModel):
    """A message of a chat."""

    role: str = Field(max_length=32, description="system, user or assistant.")
    content: str = Field(max_length=10_000, description="Text of the message.")


class GenerateRequest(RequestModel):
    """A question or a chat to answer, or a text to continue."""

    spec: NAME = _SPEC
    prompt: str | None = Field(
        None, max_length=10_000, description="Question, or with raw a text to continue."
    )
    messages: list[ChatMessage] | None = Field(
        None, min_length=1, max_length=64, description="A chat, in place of a prompt."
    )
    system: str | None = Field(None, max_length=10_000, description="System message of the chat.")
    raw: bool | None = Field(
        None,
        description="Continue the prompt, or answer it through the chat template; as in the plan's "
        "profile, or a chat if the model has a template, if left out.",
    )
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
    min_p: float | None = Field(
        None, description="Least share of the likeliest; the plan's, or 0, if left out."
    )
    repetition_penalty: float | None = Field(
        None, description="Penalty on earlier tokens; the plan's, or 1, if left out."
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="Seed, to get the same text again.")
    compare: bool = Field(False, description="Write a second text without the mark beside it.")


class Verdict(BaseModel):
    """The answer for the scope ``detect``: p rounded up to a power of ten, and no counts."""

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


def check_steering(request: PlanRequest) -> None:
    """Refuse a schedule that would keep a thread for minutes."""
    if request.steer and (request.n_tokens is None or request.n_tokens > LONGEST_STEERED):
        raise InvalidInput(
            f"`steer` needs `n_tokens` of at most {LONGEST_STEERED} here.",
            hint="longer schedules are for the command line, `powermark plan --steer`.",
        )
