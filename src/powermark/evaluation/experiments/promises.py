"""Do plans keep their promise? Plans with a profile and with the plug-in, on fresh texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from powermark.calibration.design import Design, evaluate
from powermark.calibration.plan import Plan, plan
from powermark.calibration.signal import PlugIn
from powermark.checks import Array
from powermark.detection.scoring import score
from powermark.evaluation.attacks import substitute
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.measure import (
    Estimate,
    detected,
    green_counts,
    mean_per_token,
    spent_until,
)
from powermark.evaluation.promise import enough
from powermark.evaluation.writing import Record, Sampling
from powermark.theory.bounds import efficiency

CORPUS = "c4"
LENGTHS, LEVELS, TEMPERATURES = (50, 100), (0.05, 0.01), (1.0, 0.7)
POWER, EDIT_RATE = 0.95, 0.1
TPR_LIMIT = 0.03  # how far a promised power may be off
PROFILED, BATCH = 192, 100
AUTHORS_POINT = (0.9463, 9.83)  # gamma and delta of the paper's best point, n = 50, alpha = .05
USUAL = ((0.25, 2.0), (0.5, 2.0))  # gamma and delta that other tools come with


def promise_table(lab: Lab, *, texts: int = 200) -> list[dict[str, Any]]:
    """Return one row for each length, level, amount of editing and signal, at temperature 1.

    Each plan's texts are its own; unmarked texts, for the size, are shared. Edits are real
    substitutions of a tenth of the tokens.
    """
    return list(_promises(lab, texts))


def _promises(lab: Lab, texts: int) -> Iterator[dict[str, Any]]:
    profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), Sampling(n_tokens=LENGTHS[-1] + 10))
    fresh = lab.prompts(CORPUS, PROFILED, texts)
    for n in LENGTHS:
        sampling = Sampling(n_tokens=enough(n))
        unmarked = lab.texts(fresh, sampling, batch=BATCH)
        for alpha in LEVELS:
            for rate in (None, EDIT_RATE):
                for signal in (profile, PlugIn()):
                    design = plan(
                        n_tokens=n, alpha=alpha, power=POWER, edit_rate=rate, signal=signal
                    )
                    marked = marked_by(design, lab, fresh, sampling)
                    row: dict[str, Any] = {"signal": "profile" if signal is profile else "plug-in"}
                    row |= measured(design, [Sample(lab, marked, unmarked)])
                    yield row | _kept(row)


def rivals_table(lab: Lab, *, texts: int = 200) -> list[dict[str, Any]]:
    """Return the profile's plan beside the authors' point and usual settings; n = 50, alpha = .05.

    Efficiency is the information limit at the TPR measured and the size that the test has, over
    the KL measured.
    """
    return list(_rivals(lab, texts))


def _rivals(lab: Lab, texts: int) -> Iterator[dict[str, Any]]:
    n, alpha = LENGTHS[0], LEVELS[0]
    for temperature in TEMPERATURES:
        sampling = Sampling(n_tokens=enough(n), temperature=temperature)
        recorded = Sampling(n_tokens=n, temperature=temperature)
        profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), recorded)
        fresh = lab.prompts(CORPUS, PROFILED, texts)
        unmarked = lab.texts(fresh, sampling, batch=BATCH)
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
            marked = marked_by(design, lab, fresh, sampling)
            row: dict[str, Any] = {"temperature": temperature, "design": name}
            row |= measured(design, [Sample(lab, marked, unmarked)])
            yield row | efficiency_measured(row)


def marked_by(design: Design, lab: Lab, prompts: list[str], sampling: Sampling) -> list[Record]:
    """Return a lab's texts with a design's mark."""
    steering = design.steering if isinstance(design, Plan) else None
    deltas = design.delta if steering is None else None
    return lab.texts(
        prompts, sampling, gamma=design.gamma, deltas=deltas, steering=steering, batch=BATCH
    )


class Sample(NamedTuple):
    """Texts of a lab, under its key."""

    lab: Lab
    marked: list[Record]
    unmarked: list[Record]


def measured(
    design: Design, samples: Sequence[Sample], *, told_prompts: bool = True
) -> dict[str, Any]:
    """Return what a design promises and what its texts show.

    A detector that is not told the prompts cannot score the first tokens, and a steered mark leaves
    them alone; its KL is then taken until the last token that the test counts.
    """
    n, k = design.n_tokens, design.critical_count
    counts: tuple[list[Array], list[Array]] = ([], [])  # marked, unmarked
    places, rates = [], []
    for lab, marked, unmarked in samples:
        scheme, special = lab.scheme(design.gamma), lab.model.tokenizer.all_special_ids
        ids = [record["token_ids"] for record in marked]
        scores = score(scheme, ids, special_ids=special)
        places += [scores.positions(i) for i in range(scores.texts)]
        rates += [[greens / n] for greens in scores.first_greens(n) if np.isfinite(greens)]
        if design.edit_rate is not None:
            ids = [text.tolist() for text in substitute(ids, design.edit_rate, seed=lab.seed).ids]
        plain = [record["token_ids"] for record in unmarked]
        for found, texts, records in zip(counts, (ids, plain), (marked, unmarked), strict=True):
            prompts = [record["prompt_ids"] for record in records] if told_prompts else None
            found.append(green_counts(scheme, texts, n, prompts, special_ids=special))
    spent = [record["kl"] for sample in samples for record in sample.marked]
    kl = mean_per_token(spent) if told_prompts else spent_until(places, spent, n)
    tpr, fpr = (detected(np.concatenate(found), k) for found in counts)
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
        **_spread("tpr", tpr),
        **_spread("fpr", fpr),
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
