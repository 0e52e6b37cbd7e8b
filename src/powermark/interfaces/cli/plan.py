"""``powermark plan``: all but one of length, level, power and KL; the missing one is solved for."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from powermark.interfaces.cli import options

EXAMPLES = """\
Examples:

  powermark plan --n-tokens 200 --alpha 1e-3 --power .95 --edit-rate .1

  powermark plan --n-tokens 50 --alpha .05 --kl .05 --json
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
    context_width: options.ContextWidth = 1,
    variance_inflation: options.VarianceInflation = 1.0,
    signal: options.Signal = "plug-in",
    vocab_size: options.VocabSize = None,
    concentration: options.Concentration = 1.0,
    mixture: options.Mixture = None,
    as_json: options.Json = False,
) -> None:
    """Choose gamma and delta. Give all but one of --n-tokens, --alpha, --power, --kl."""
    from powermark.calibration.plan import plan

    found = plan(
        n_tokens=n_tokens,
        alpha=alpha,
        power=power,
        kl=kl,
        method=method,  # type: ignore[arg-type]  # plan() checks it and says what it may be
        signal=options.signal_model(signal, vocab_size, concentration, mixture),
        gamma=gamma,
        delta=delta,
        edit_rate=edit_rate,
        survival=survival,
        removal=removal,
        attacked_power=attacked_power,
        context_width=context_width,
        variance_inflation=variance_inflation,
    )
    print(json.dumps(found.to_dict(), indent=2, allow_nan=False) if as_json else found)
