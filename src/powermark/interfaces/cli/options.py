"""Options that several subcommands share, each declared once, and what they mean together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput
from powermark.interfaces import signal_options

if TYPE_CHECKING:
    from powermark.signals.signal import SignalModel

NTokens = Annotated[int | None, typer.Option(help="Tokens scored by the detector.")]
Alpha = Annotated[float | None, typer.Option(help="Level: bound on the false-positive rate.")]
Power = Annotated[float | None, typer.Option(help="Power on untouched text.")]
Kl = Annotated[float | None, typer.Option(help="KL budget, nats per token.")]
Gamma = Annotated[float | None, typer.Option(help="Green share of the vocabulary.")]
Delta = Annotated[float | None, typer.Option(help="Bias added to green logits.")]
EditRate = Annotated[float | None, typer.Option(help="Probability that a token is rewritten.")]
Survival = Annotated[float | None, typer.Option(help="Share of positions that keep their signal.")]
Removal = Annotated[float | None, typer.Option(help="Contiguous share of the text replaced.")]
AttackedPower = Annotated[
    float | None, typer.Option(help="Power to keep on edited text; the full power if left out.")
]
CONTEXT_WIDTH, PRECISION = 2, 0.03  # of plan(); not imported, so that --help stays fast
ContextWidth = Annotated[int, typer.Option(help="Tokens before one that choose its green list.")]
VarianceInflation = Annotated[float, typer.Option(help="Overdispersion c of green counts.")]
Signal = Annotated[str, typer.Option(help="Signal model: plug-in, dirichlet, mixture or topics.")]
VocabSize = Annotated[
    int | None, typer.Option(help="Number of token ids, for --signal dirichlet or a spec.")
]
TokenIds = Annotated[int | None, typer.Option("--vocab-size", help="Number of token ids.")]
Model = Annotated[
    str | None,
    typer.Option(help="Model: smollm2-135m, gemma3-270m, a folder, or a Hugging Face id."),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        help="Model whose tokenizer to use: smollm2-135m, gemma3-270m, a folder, a tokenizer.json, "
        "or a Hugging Face id."
    ),
]
Key = Annotated[Path | None, typer.Option(help="Key file; the variable POWERMARK_KEY if left out.")]
Spec = Annotated[Path | None, typer.Option(help="Watermark spec, from plan -o or spec new.")]
Concentration = Annotated[float, typer.Option(help="Dirichlet concentration; the paper has 1.")]
Mixture = Annotated[
    str | None,
    typer.Option(help="WEIGHT:CONCENTRATION,... for --signal mixture, for example .3:1,.7:90"),
]
Topics = Annotated[
    str | None,
    typer.Option(
        help="CONCENTRATION=MIXTURE/... for --signal topics, one a topic, for example "
        ".4=1:5/.6=.3:1,.7:90"
    ),
]
ProfileFile = Annotated[
    Path | None, typer.Option(help="Signal of a real model, from `powermark profile`.")
]
Like = Annotated[
    str | None,
    typer.Option(
        help="Without a profile of your model: a reference profile of this package, chat, prose or "
        "code."
    ),
]
Entropy = Annotated[
    float | None,
    typer.Option(help="With --like: mean entropy of your model's distributions, nats."),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        help='File of prompts: one a line, or JSONL with "prompt", "messages" or "text"; or '
        "questions, python, wikitext-2, openwebtext, hf:DATASET; the model writes what it likes if "
        "left out."
    ),
]
Raw = Annotated[
    bool | None,
    typer.Option(
        "--raw/--chat",
        help="Continue the prompts, or answer them through the chat template. Default: as in the "
        "plan's profile, or chat if the model has a template.",
    ),
]
System = Annotated[str | None, typer.Option(help="System message of each chat.")]
TopP = Annotated[
    float | None,
    typer.Option(help="Sample within this much probability. Default: the plan's, or 1."),
]
TopK = Annotated[
    int | None,
    typer.Option(help="Sample from the k likeliest, 0 for all. Default: the plan's, or 0."),
]
MinP = Annotated[
    float | None,
    typer.Option(
        help="Drop tokens below this share of the likeliest one's probability. Default: the "
        "plan's, or 0."
    ),
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(help="Penalty on tokens that occurred before. Default: the plan's, or 1."),
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="Take what is not given from a plan's JSON.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

VOCABULARY = "name a --model, or give --vocab-size."


def signal_model(signal: str, *, profile: Path | None, **options: Any) -> SignalModel:
    """Return the signal model that the options name; others are those of ``signal_options``."""
    from powermark.signals.profile_file import load_profile

    known = None if profile is None else load_profile(profile)
    return signal_options.signal_model(signal, profile=known, **options)


def named_model(model: str | None) -> str:
    """Return the model's name, of the embedded one by default."""
    from powermark.models.catalog import DEFAULT_MODEL

    return model or DEFAULT_MODEL


def named_tokenizer(model: str | None) -> Any:
    """Return the model's tokenizer, of the embedded one by default."""
    from powermark.models import load_tokenizer

    return load_tokenizer(named_model(model))


def vocabulary(
    model: str | None, vocab_size: int | None, *, exact: bool = True
) -> tuple[int, str | None]:
    """Return the number of token ids and, where a model is named, its tokenizer's digest."""
    if model is None:
        if vocab_size is None:
            raise InvalidInput("a spec needs to know the vocabulary.", hint=VOCABULARY)
        return vocab_size, None
    from powermark.models import load_tokenizer
    from powermark.watermark.spec import digest_of

    tokenizer = load_tokenizer(model)
    size = len(tokenizer)
    if vocab_size is not None and (vocab_size < size or (exact and vocab_size != size)):
        least = "" if exact else "at least "
        raise InvalidInput(f"--vocab-size must be {least}{size} for {model}; got {vocab_size}.")
    return vocab_size or size, digest_of(tokenizer)
