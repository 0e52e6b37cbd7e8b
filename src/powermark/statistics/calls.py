"""Which texts a detector calls marked, from colours alone: many texts of one length at once."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np

from powermark.checks import Mask
from powermark.statistics.p_values import bets
from powermark.statistics.windows import Kind, Threshold, WindowTest
from powermark.theory.power import critical_count

DETECTORS = ("count", "evalue", "winmax", "winmax-c")


def calls(detector: str, colours: Mask, *, gamma: float, bet: float, alpha: float) -> Mask:
    """Return which rows of colours ``Detector`` would call marked; (texts, n) -> (texts,).

    ``bet`` is the green rate that the e-value bets on.
    """
    texts, n = colours.shape
    if n == 0:
        return np.zeros(texts, bool)
    if detector == "count":
        return np.asarray(colours.sum(axis=1) >= critical_count(n, gamma, alpha))
    if detector == "evalue":
        if bet <= gamma:
            return np.zeros(texts, bool)
        steps = np.where(colours, *bets(gamma, bet))
        return np.asarray(np.cumsum(steps, axis=1).max(axis=1) >= -np.log(alpha))
    statistics = WindowTest(cast(Kind, detector), n, gamma).statistics(colours)
    return threshold(detector, n, gamma, alpha).rejects(statistics)


@lru_cache(maxsize=4_096)
def threshold(detector: str, n: int, gamma: float, alpha: float) -> Threshold:
    """Return the threshold of winmax or winmax-c, which takes a simulation to find."""
    return WindowTest(cast(Kind, detector), n, gamma).threshold(alpha)
