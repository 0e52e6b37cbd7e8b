"""``powermark plan``: all but one of length, level, power and KL; the missing one is solved for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.designs import check_profile, plan_for, steering_of

if TYPE_CHECKING:
    from powermark.calibration.design import Design

EXAMPLES = """\
Examples:

  powermark plan --n-tokens 200 --alpha 1e-3 --power .95 --edit-rate .1

  powermark plan --n-tokens 50 --alpha .05 --kl .05 --json

  powermark plan --n-tokens 100 --alpha .01 --power .95 --model smollm2-135m -o s.json

  powermark plan --n-tokens 50 --alpha .05 --power .95 --profile p.npz --compare

  powermark plan --n-tokens 50 --alpha .05 --power .95 --profile p.npz --steer

  powermark plan --n-tokens 50 --alpha .05 --power .95 --removal .2 --detector winmax-c
"""


def plan_command(
    n_tokens: options.NTokens = None,
    alpha: options.Alpha = None,
    power: options.Power = None,
    kl: options.Kl = None,
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
    profile: options.ProfileFile = None,
    precision: Annotated[
        float | None,
        typer.Option(help="Warn where a profile leaves the power less certain than this; .03."),
    ] = None,
    steer: Annotated[
        bool, typer.Option("--steer", help="Let the bias follow the count: less KL, same detector.")
    ] = False,
    checkpoint: Annotated[
        list[int] | None,
        typer.Option(help="With --steer: a shorter length to be found at, too; repeatable."),
    ] = None,
    delta_cap: Annotated[float | None, typer.Option(help="With --steer: the largest bias.")] = None,
    kl_cap: Annotated[
        float | None,
        typer.Option(help="With --steer: the most KL of a step, in nats, on average over texts."),
    ] = None,
    detector: Annotated[
        str,
        typer.Option(
            help="Whose power counts: count, or winmax-c or winmax where --removal of a text is "
            "replaced."
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
    """Choose gamma and delta. Give all but one of --n-tokens, --alpha, --power, --kl."""
    special = method != "exact" or steer or detector != "count"
    if compare and (profile is None or output is not None or special):
        raise InvalidInput(
            "--compare needs --profile, and neither writes a spec nor takes --steer, --method or "
            "--detector.",
            hint="record a profile with `powermark profile` first.",
        )
    if output is None and (model is not None or key is not None):
        raise InvalidInput("--model and --key are for the spec: say -o FILE too.")
    size, digest = (vocab_size, None) if output is None else options.vocabulary(model, vocab_size)
    for_signal = size if output is None or signal == "dirichlet" else None
    model_signal = options.signal_model(signal, for_signal, concentration, mixture, profile)
    if output is not None:
        check_profile(model_signal, size, digest, model)
    request: dict[str, Any] = {
        "n_tokens": n_tokens,
        "alpha": alpha,
        "power": power,
        "kl": kl,
        "method": method,
        "gamma": gamma,
        "delta": delta,
        "edit_rate": edit_rate,
        "survival": survival,
        "removal": removal,
        "attacked_power": attacked_power,
        "context_width": context_width,
        "variance_inflation": variance_inflation,
        **steering_of(
            steer,
            checkpoints=checkpoint,
            delta_cap=delta_cap,
            kl_cap=kl_cap,
            precision=precision,
        ),
    }
    if compare:
        _print_comparison(model_signal, request, as_json)
        return
    found = plan_for(detector, request, model_signal)
    if output is not None:
        _write_spec(found, output, size, digest, key)
    print(json.dumps(found.to_dict(), indent=2, allow_nan=False) if as_json else found)


def _print_comparison(profile: Any, request: dict[str, Any], as_json: bool) -> None:
    from powermark.calibration.compare import compare, table

    rows = compare(profile, int(profile.about.get("vocab_size", 50_257)), **request)
    print(json.dumps([row.to_dict() for row in rows], indent=2) if as_json else table(rows))


def _write_spec(
    plan: Design, path: Path, vocab_size: int | None, digest: str | None, key: Path | None
) -> None:
    from powermark.watermark.keys import load_key
    from powermark.watermark.spec import WatermarkSpec

    assert vocab_size is not None
    spec = WatermarkSpec.from_plan(
        plan,
        vocab_size=vocab_size,
        tokenizer_digest=digest,
        key_fingerprint=None if key is None else load_key(key).fingerprint,
    )
    spec.save(path)
    typer.echo(f"spec: {path} (digest {spec.digest})", err=True)
