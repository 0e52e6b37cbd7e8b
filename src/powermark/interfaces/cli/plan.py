"""``powermark plan``: all but one of length, level, power and KL; the missing one is solved for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import progress
from powermark.interfaces.signal_options import tokens_of

if TYPE_CHECKING:
    from powermark.planning.lengths import Lengths
    from powermark.planning.plan import Plan
    from powermark.planning.request import Request
    from powermark.signals.signal import SignalModel

_LONGEST = 100_000  # tokens of an answer
EXAMPLES = """\
Examples:

  powermark plan --n-tokens 200 --alpha 1e-3 --power .95 --edit-rate .1

  powermark plan --n-tokens 50 --alpha .05 --kl .05 --json

  powermark plan --n-tokens 100 --alpha .01 --power .95 --model smollm2-135m -o s.json

  powermark plan --n-tokens 50 --alpha .05 --power .95 --profile p.npz --compare

  powermark plan --n-tokens 50 --alpha .05 --power .95 --profile p.npz --steer -o s.json

  powermark plan --alpha .01 --coverage .9 --edit-rate .05 --profile p.npz -o s.json

  powermark plan --n-tokens 200 --alpha .01 --power .9 --edit-rate .05 --like chat --entropy .4

  powermark plan --n-tokens 50 --alpha .05 --power .95 --removal .2 --detector winmax-c

  powermark plan --n-tokens 200 --alpha .01 --power .95 --edit-rate .05 --detector evalue
"""


def plan_command(
    n_tokens: options.NTokens = None,
    alpha: options.Alpha = None,
    power: options.Power = None,
    kl: options.Kl = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Share of all answers to find, each at its own length; in place of --n-tokens and "
            "--power."
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            help="Generated tokens of answers: 150..400, or a file of numbers or texts, one a "
            "line. Default with --coverage: those of the profile's texts."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="exact; paper (its Eq. 1); authors (their published grid).")
    ] = "exact",
    gamma: options.Gamma = None,
    delta: options.Delta = None,
    edit_rate: options.EditRate = None,
    survival: options.Survival = None,
    removal: options.Removal = None,
    attacked_power: options.AttackedPower = None,
    context_width: options.ContextWidth = options.CONTEXT_WIDTH,
    variance_inflation: options.VarianceInflation = 1.0,
    signal: options.Signal = "plug-in",
    vocab_size: options.VocabSize = None,
    concentration: options.Concentration = 1.0,
    mixture: options.Mixture = None,
    topics: options.Topics = None,
    profile: options.ProfileFile = None,
    like: options.Like = None,
    entropy: options.Entropy = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="What the detector is given: text (with a profile: the default), or ids as they "
            "were sampled.",
        ),
    ] = None,
    precision: Annotated[
        float, typer.Option(help="Warn where a profile leaves the power less certain than this.")
    ] = options.PRECISION,
    steer: Annotated[
        bool, typer.Option("--steer", help="Let the bias follow the count: less KL, same detector.")
    ] = False,
    checkpoints: Annotated[
        list[int] | None,
        typer.Option(
            "--checkpoint", help="With --steer: a shorter length to be found at, too; repeatable."
        ),
    ] = None,
    delta_cap: Annotated[float | None, typer.Option(help="With --steer: the largest bias.")] = None,
    kl_cap: Annotated[
        float | None,
        typer.Option(help="With --steer: the most KL of any step, in nats; 2, or inf for no cap."),
    ] = None,
    detector: Annotated[
        str,
        typer.Option(
            help="Whose power counts: count; winmax-c or winmax where --removal of a text is "
            "replaced; evalue for texts looked at after every token."
        ),
    ] = "count",
    compare: Annotated[
        bool, typer.Option("--compare", help="Say what every signal model promises.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a watermark spec to this file.")
    ] = None,
    model: options.Model = None,
    key: Annotated[
        Path | None, typer.Option(help="Tie the spec to this key file, by its fingerprint.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Choose gamma and delta. Give all but one of --n-tokens, --alpha, --power, --kl.

    For answers of any length give --alpha and --coverage.
    """
    from powermark.planning.assumption import with_assumption
    from powermark.planning.plan import plan_for
    from powermark.planning.request import Request

    special = method != "exact" or steer or detector != "count"
    if compare and ((profile or like) is None or output is not None or special):
        raise InvalidInput(
            "--compare needs --profile or --like, and neither writes a spec nor takes --steer, "
            "--method or --detector.",
            hint="record a profile with `powermark profile` first.",
        )
    if output is None and (model is not None or key is not None):
        raise InvalidInput("--model and --key are for the spec: say -o FILE too.")
    size, digest = (vocab_size, None) if model is None else options.vocabulary(model, vocab_size)
    known = options.signal_model(
        signal,
        profile=profile,
        vocab_size=size if output is None or signal == "dirichlet" else None,
        concentration=concentration,
        mixture=mixture,
        topics=topics,
        like=like,
        entropy=entropy,
        source=source,
    )
    if output is not None:
        size, digest = tokens_of(
            known, size, digest, model=model, hint=f"give --profile; or {options.VOCABULARY}"
        )
    request = Request.of(
        n_tokens=n_tokens,
        alpha=alpha,
        power=power,
        kl=kl,
        detector=detector,
        method=method,
        signal=known,
        gamma=gamma,
        delta=delta,
        edit_rate=edit_rate,
        survival=survival,
        removal=removal,
        context_width=context_width,
        attacked_power=attacked_power,
        variance_inflation=variance_inflation,
        precision=precision,
        steer=steer,
        checkpoints=checkpoints or (),
        delta_cap=delta_cap,
        kl_cap=kl_cap,
        coverage=coverage,
        lengths=None if lengths is None else _lengths(lengths, known, model),
    )
    if compare:
        _print_comparison(request, as_json)
        return
    with progress("planning", after=2.0):
        found = with_assumption(plan_for(request), request)
    if output is not None:
        _write_spec(found, output, size, digest, key)
    print(json.dumps(found.to_dict(), indent=2, allow_nan=False) if as_json else found)


def _lengths(given: str, signal: SignalModel, model: str | None) -> Lengths:
    """Return the lengths of answers: ``LOW..HIGH`` tokens, or those of a file's numbers or texts.

    Tokens that do not count are left out, by the profile's share.
    """
    from powermark.generation.prompts import read_texts
    from powermark.planning.coverage import scored_share
    from powermark.planning.lengths import Lengths

    low, dots, high = given.partition("..")
    if dots and low.isdecimal() and high.isdecimal() and int(low) <= int(high) <= _LONGEST:
        tokens = list(range(int(low), int(high) + 1))
    else:
        texts = read_texts(given, whole=True)
        if all(text.strip().isdecimal() for text in texts):
            tokens = [min(int(text), _LONGEST) for text in texts]
        else:
            tokenizer = options.named_tokenizer(model or signal.origin.get("model"))
            tokens = [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    share = scored_share(signal)
    how = "by the profile" if signal.origin else "assumed, without a profile"
    typer.echo(
        f"lengths: {len(tokens)} answers of {sum(tokens) / len(tokens):.0f} tokens on average, of "
        f"which {share:.0%} count ({how}).",
        err=True,
    )
    return Lengths.of_generated(tokens, share)


def _print_comparison(request: Request, as_json: bool) -> None:
    from powermark.planning.compare import compare, table

    with progress("planning", after=2.0):
        rows = compare(request, int(request.signal.origin.get("vocab_size", 50_257)))
    print(json.dumps([row.to_dict() for row in rows], indent=2) if as_json else table(rows))


def _write_spec(
    plan: Plan, path: Path, vocab_size: int | None, digest: str | None, key: Path | None
) -> None:
    from powermark.watermark.keys import load_key
    from powermark.watermark.spec import WatermarkSpec

    spec = WatermarkSpec.from_plan(
        plan,
        vocab_size=vocab_size,
        tokenizer_digest=digest,
        key_fingerprint=None if key is None else load_key(key).fingerprint,
    )
    spec.save(path)
    typer.echo(f"spec: {path} (digest {spec.digest})", err=True)
