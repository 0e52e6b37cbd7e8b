"""Do profiles predict what marks do, and do plans keep their promises? Checked on fresh texts.

Each table yields its rows; the texts behind them are kept by the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from powermark.checks import Array
from powermark.detection.scoring import score
from powermark.detection.text import token_ids_of
from powermark.generation.writing import Record, Sampling
from powermark.measuring.attacks import substitute
from powermark.measuring.estimates import (
    Estimate,
    detected,
    mean_per_token,
    spent_until,
)
from powermark.measuring.promise import enough
from powermark.paper.results import Row
from powermark.paper.workspace import Workspace
from powermark.planning.design import Design, evaluate
from powermark.planning.plan import Plan, plan
from powermark.signals.signal import PlugIn
from powermark.theory.bounds import efficiency

CORPUS = "c4"
LENGTHS, LEVELS, TEMPERATURES = (50, 100), (0.05, 0.01), (1.0, 0.7)
POWER, EDIT_RATE = 0.95, 0.1
TPR_LIMIT = 0.03  # how far a promised power may be off
PROFILED, BATCH = 192, 100
AUTHORS_POINT = (0.9463, 9.83)  # gamma and delta of the paper's best point, n = 50, alpha = .05
USUAL = ((0.25, 2.0), (0.5, 2.0))  # default gamma and delta of other tools
CORPORA = ("c4", "lfqa", "wikipedia")
SETTINGS = {
    0.25: (0.5, 2.0, 4.0),
    0.5: (1.0, 2.0, 6.0),
    0.8: (1.0, 3.0, 6.0),
    0.95: (2.0, 4.0, 8.0),
}  # gamma and three deltas
RATE_LIMIT, KL_LIMIT = 0.01, 0.05  # how far a prediction may be off


def promise_table(workspace: Workspace, *, texts: int = 200) -> Iterator[Row]:
    """Yield a row for each length, level, amount of editing and signal, at temperature 1.

    Each plan has its own texts; the unmarked texts, for the size, are shared. Edits are real
    substitutions of a tenth of the tokens.
    """
    profile = workspace.profile(
        workspace.prompts(CORPUS, 0, PROFILED), Sampling(n_tokens=LENGTHS[-1] + 10)
    )
    fresh = workspace.prompts(CORPUS, PROFILED, texts)
    for n in LENGTHS:
        sampling = Sampling(n_tokens=enough(n))
        unmarked = workspace.texts(fresh, sampling, batch=BATCH)
        for alpha in LEVELS:
            for rate in (None, EDIT_RATE):
                for signal in (profile, PlugIn()):
                    design = plan(
                        n_tokens=n, alpha=alpha, power=POWER, edit_rate=rate, signal=signal
                    )
                    marked = marked_by(design, workspace, fresh, sampling)
                    row: Row = {"signal": "profile" if signal is profile else "plug-in"}
                    row |= measured(design, [Sample(workspace, marked, unmarked)])
                    yield row | _kept(row)


def rivals_table(workspace: Workspace, *, texts: int = 200) -> Iterator[Row]:
    """Yield the profile's plan beside the authors' point and usual settings; n = 50, alpha = .05.

    Efficiency is the information limit at the TPR measured and the size that the test has, over
    the KL measured.
    """
    n, alpha = LENGTHS[0], LEVELS[0]
    for temperature in TEMPERATURES:
        sampling = Sampling(n_tokens=enough(n), temperature=temperature)
        recorded = Sampling(n_tokens=n, temperature=temperature)
        profile = workspace.profile(workspace.prompts(CORPUS, 0, PROFILED), recorded)
        fresh = workspace.prompts(CORPUS, PROFILED, texts)
        unmarked = workspace.texts(fresh, sampling, batch=BATCH)
        best = plan(n_tokens=n, alpha=alpha, power=POWER, signal=profile)
        named = {"profile plan": (best.gamma, best.delta), "authors' point": AUTHORS_POINT}
        named |= {f"gamma {g:g}, delta {d:g}": (g, d) for g, d in USUAL}
        for name, (gamma, delta) in named.items():
            design = evaluate(
                gamma,
                delta,
                n_tokens=n,
                alpha=alpha,
                signal=profile,
                test="z" if (gamma, delta) == AUTHORS_POINT else "exact",
            )
            marked = marked_by(design, workspace, fresh, sampling)
            row: Row = {"temperature": temperature, "design": name}
            row |= measured(design, [Sample(workspace, marked, unmarked)])
            yield row | efficiency_measured(row)


def marked_by(
    design: Design, workspace: Workspace, prompts: list[str], sampling: Sampling
) -> list[Record]:
    """Return a workspace's texts with a design's mark."""
    steering = design.steering if isinstance(design, Plan) else None
    deltas = design.delta if steering is None else None
    return workspace.texts(
        prompts, sampling, gamma=design.gamma, deltas=deltas, steering=steering, batch=BATCH
    )


class Sample(NamedTuple):
    """Texts of a workspace, under its key."""

    workspace: Workspace
    marked: list[Record]
    unmarked: list[Record]


def measured(
    design: Design, samples: Sequence[Sample], *, with_prompts: bool = True
) -> dict[str, Any]:
    """Return what a design promises and what its texts show.

    ``tpr`` and ``fpr`` are by copies of the texts, ``tpr_ids`` by the sampled ids, behind their
    prompts if ``with_prompts``. A steered mark leaves the first tokens alone; its KL is taken until
    the last token that the test counts.
    """
    n, k = design.n_tokens, design.critical_count
    counts: dict[str, list[Array]] = {"tpr": [], "fpr": [], "tpr_ids": []}
    places, rates = [], []
    for workspace, marked, unmarked in samples:
        scheme, tokenizer = workspace.scheme(design.gamma), workspace.model.tokenizer
        asked: dict[str, Any] = {"special_ids": tokenizer.all_special_ids}
        ids = [record["token_ids"] for record in marked]
        copies, plain = (
            [token_ids_of(tokenizer, record["text"].strip()) for record in records]
            for records in (marked, unmarked)
        )
        before = [record["prompt_ids"] for record in marked] if with_prompts else None
        skipped = 0 if with_prompts else 1
        sampled = score(scheme, ids, skip=skipped, **asked)
        places += [sampled.positions(i) for i in range(sampled.texts)]
        seen = score(scheme, copies, skip=1, **asked).first_greens(n)
        rates += [[greens / n] for greens in seen if np.isfinite(greens)]
        if design.edit_rate is not None:
            ids, copies = (
                [
                    text.tolist()
                    for text in substitute(texts, design.edit_rate, seed=workspace.seed).ids
                ]
                for texts in (ids, copies)
            )
        counts["tpr"].append(score(scheme, copies, skip=1, **asked).first_greens(n))
        counts["fpr"].append(score(scheme, plain, skip=1, **asked).first_greens(n))
        by_ids = score(scheme, ids, prompts=before, skip=skipped, **asked)
        counts["tpr_ids"].append(by_ids.first_greens(n))
    spent = [record["kl"] for sample in samples for record in sample.marked]
    kl = mean_per_token(spent) if with_prompts else spent_until(places, spent, n)
    return {
        "n_tokens": n,
        "alpha": design.alpha,
        "edit_rate": design.edit_rate,
        "gamma": design.gamma,
        "delta": design.delta,
        "size": design.size,
        "power": design.power if design.attacked_power is None else design.attacked_power,
        "kl": design.kl,
        "gamma_prime": design.gamma_prime,
        **_spread("green_rate", mean_per_token(rates)),
        **{
            name: value
            for which, found in counts.items()
            for name, value in _spread(which, detected(np.concatenate(found), k)).items()
        },
        **_spread("kl_measured", kl),
    }


def efficiency_measured(row: dict[str, Any]) -> dict[str, float]:
    """Return the information limit at the TPR measured and the size there is, over the KL."""
    level = max(row["alpha"], row["size"])
    found = efficiency(row["n_tokens"], level, row["tpr"], row["kl_measured"])
    return {"efficiency_measured": float(found)}


def _spread(name: str, found: Estimate) -> dict[str, Any]:
    return {
        name: found.value,
        f"{name}_low": found.low,
        f"{name}_high": found.high,
        f"{name}_texts": found.texts,
    }


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    """Say whether power and size came out as promised, within .03 or their intervals."""
    near = abs(row["tpr"] - row["power"]) <= TPR_LIMIT
    inside = row["tpr_low"] <= row["power"] <= row["tpr_high"]
    return {"power_holds": near or inside, "size_holds": row["fpr_low"] <= row["alpha"]}


def prediction_table(
    workspace: Workspace, *, texts: int = 32, profiled: int = 192, n_tokens: int = 50
) -> Iterator[Row]:
    """Yield a row for each corpus, temperature, gamma and delta.

    The profile is recorded on the first prompts of a corpus, the marked texts are written after
    later ones, so no text of the one is in the other.
    """
    for corpus in CORPORA:
        for temperature in TEMPERATURES:
            sampling = Sampling(n_tokens=n_tokens, temperature=temperature)
            profile = workspace.profile(workspace.prompts(corpus, 0, profiled), sampling)
            fresh = workspace.prompts(corpus, profiled, 3 * texts)
            for gamma, deltas in SETTINGS.items():
                records = workspace.texts(fresh, sampling, gamma=gamma, deltas=np.array(deltas))
                for turn, delta in enumerate(deltas):
                    mine = records[turn::3]
                    where = {"corpus": corpus, "temperature": temperature}
                    yield {
                        **where,
                        "gamma": gamma,
                        "delta": delta,
                        "texts": len(mine),
                        **_compared("rate", mine, "green_rate", profile, gamma, delta),
                        **_compared("kl", mine, "kl", profile, gamma, delta),
                    }


def _compared(
    name: str, records: list[dict[str, Any]], field: str, profile: Any, gamma: float, delta: float
) -> dict[str, Any]:
    """Return measurement, prediction and plug-in of the green rate or the KL."""
    measured = mean_per_token([record[field] for record in records])
    predicted, plain = (
        float((s.green_rate if name == "rate" else s.kl)(gamma, delta)) for s in (profile, PlugIn())
    )
    limit = RATE_LIMIT if name == "rate" else KL_LIMIT * measured.value
    return {
        f"{name}_measured": measured.value,
        f"{name}_low": measured.low,
        f"{name}_high": measured.high,
        f"{name}_profile": predicted,
        f"{name}_plug_in": plain,
        f"{name}_holds": _holds(measured, predicted, limit),
        f"{name}_plug_in_holds": _holds(measured, plain, limit),
    }


def _holds(measured: Estimate, predicted: float, limit: float) -> bool:
    """Whether a prediction is within the limit, or within the measurement's own interval."""
    return abs(measured.value - predicted) <= limit or measured.covers(predicted)
