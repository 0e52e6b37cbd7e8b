"""Does a profile foretell what a mark does? Fresh texts against it, and against the plug-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from powermark.calibration.signal import PlugIn
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.measure import Estimate, mean_per_token
from powermark.evaluation.writing import Sampling

CORPORA = ("c4", "lfqa", "wikipedia")
TEMPERATURES = (1.0, 0.7)
SETTINGS = {
    0.25: (0.5, 2.0, 4.0),
    0.5: (1.0, 2.0, 6.0),
    0.8: (1.0, 3.0, 6.0),
    0.95: (2.0, 4.0, 8.0),
}  # gamma and three deltas
RATE_LIMIT, KL_LIMIT = 0.01, 0.05  # how far a prediction may be off


def prediction_table(
    lab: Lab, *, texts: int = 32, profiled: int = 192, n_tokens: int = 50
) -> list[dict[str, Any]]:
    """Return one row for each corpus, temperature, gamma and delta.

    The profile is recorded on the first prompts of a corpus, the marked texts are written after
    later ones, so no text of the one is in the other.
    """
    return list(_rows(lab, texts, profiled, n_tokens))


def _rows(lab: Lab, texts: int, profiled: int, n_tokens: int) -> Iterator[dict[str, Any]]:
    for corpus in CORPORA:
        for temperature in TEMPERATURES:
            sampling = Sampling(n_tokens=n_tokens, temperature=temperature)
            profile = lab.profile(lab.prompts(corpus, 0, profiled), sampling)
            fresh = lab.prompts(corpus, profiled, 3 * texts)
            for gamma, deltas in SETTINGS.items():
                records = lab.texts(fresh, sampling, gamma=gamma, deltas=np.array(deltas))
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
