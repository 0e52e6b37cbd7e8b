"""``powermark power``: forward, from gamma, delta, n and alpha to what they give."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from powermark.interfaces.cli import options
from powermark.interfaces.cli.files import read_plan

EXAMPLES = """\
Examples:

  powermark power --gamma .25 --delta 2 --n-tokens 50 --alpha .01

  powermark power --plan plan.json --n-tokens 80 --edit-rate .1
"""


def power_command(
    gamma: options.Gamma = None,
    delta: options.Delta = None,
    n_tokens: options.NTokens = None,
    alpha: options.Alpha = None,
    test: Annotated[str, typer.Option(help="exact, or z for the paper's z-test.")] = "exact",
    edit_rate: options.EditRate = None,
    survival: options.Survival = None,
    removal: options.Removal = None,
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
    plan: options.PlanFile = None,
    as_json: options.Json = False,
) -> None:
    """Say what a given gamma and delta will do: power, exact size, KL, efficiency."""
    from powermark.planning.design import evaluate
    from powermark.planning.request import require
    from powermark.signals.edits import Edits

    given: dict[str, Any] = {"gamma": gamma, "delta": delta, "n_tokens": n_tokens, "alpha": alpha}
    if plan is not None:
        saved = read_plan(plan)
        given = {name: saved[name] if value is None else value for name, value in given.items()}
    require(given, hint="give them, or --plan FILE to take them from.")
    design = evaluate(
        given["gamma"],
        given["delta"],
        n_tokens=given["n_tokens"],
        alpha=given["alpha"],
        signal=options.signal_model(
            signal,
            profile=profile,
            vocab_size=vocab_size,
            concentration=concentration,
            mixture=mixture,
            topics=topics,
            like=like,
            entropy=entropy,
        ),
        edits=Edits(
            edit_rate=edit_rate, survival=survival, removal=removal, context_width=context_width
        ),
        variance_inflation=variance_inflation,
        test=test,  # type: ignore[arg-type]  # evaluate() checks it
    )
    print(json.dumps(design.to_dict(), indent=2, allow_nan=False) if as_json else design)
