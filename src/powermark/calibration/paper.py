"""The paper's own calibration: Eq. (1) in place of the exact test, searched down from gamma_star.

Kept to reproduce the paper and to show what it costs. Under the normal approximation the best
gamma lies at the very bound gamma_star with an unbounded delta, so delta is capped as in the
authors' code; what comes out needs all tokens green and has an exact size above alpha.
"""

from __future__ import annotations

import numpy as np

from powermark.calibration.problem import GAMMA_MIN
from powermark.calibration.signal import SignalModel
from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.theory.bounds import gamma_star
from powermark.theory.power import normal_gamma_prime, normal_score

DELTA_CAP = 20.0  # the largest delta the authors' solver accepts
_POINTS = 65


def search_down(
    n_tokens: int,
    alpha: float,
    *,
    power: float | None = None,
    kl: float | None = None,
    signal: SignalModel,
    variance_inflation: float = 1.0,
    gamma: float | None = None,
) -> tuple[float, float]:
    """Return the paper's (gamma, delta): the least KL for ``power`` or the most power for ``kl``.

    Starts just below gamma_star and walks down to the first local optimum (Section 4): the branch
    gamma_h. With ``gamma`` given only delta is left.
    """
    star = float(gamma_star(n_tokens, alpha))
    goal = f"power {power:g}" if power is not None else f"kl {kl:g}"

    def deltas(gammas: Array) -> Array:
        if kl is not None:
            return np.array([signal.delta_for_kl(g, kl) for g in gammas])
        rates = normal_gamma_prime(gammas, n_tokens, alpha, power or 0.0, variance_inflation)
        pairs = zip(gammas, rates, strict=True)
        return np.array([signal.delta_for_rate(g, r) if g < r < 1.0 else np.inf for g, r in pairs])

    def losses(gammas: Array, biases: Array) -> Array:
        if kl is None:
            return signal.kl(gammas, biases)
        rates = signal.green_rate(gammas, biases)
        return -normal_score(gammas, rates, n_tokens, alpha, variance_inflation)

    tops = star - np.geomspace(1e-12, max(star - GAMMA_MIN, 2e-12), _POINTS)
    gammas = tops if gamma is None else np.array([gamma])
    while True:
        biases = deltas(gammas)
        allowed = np.flatnonzero(biases <= DELTA_CAP)
        if not allowed.size:
            where = "any gamma" if gamma is None else f"gamma = {gamma:g}"
            raise Infeasible(
                f"Eq. (1) does not meet {goal} at {where} with n_tokens = {n_tokens}, alpha = "
                f"{alpha:g}: gamma must be below gamma_star = {star:.4f}, delta at most "
                f"{DELTA_CAP:g}.",
                hint="ask for more tokens, a larger alpha, less power or another gamma.",
            )
        first = int(allowed[0])
        loss = losses(gammas[first:], np.minimum(biases[first:], DELTA_CAP))
        rises = np.flatnonzero(np.diff(loss) > 0.0)
        best = first + (int(rises[0]) if rises.size else loss.size - 1)
        high, low = gammas[max(best - 1, 0)], gammas[min(best + 1, gammas.size - 1)]
        if high - low <= 1e-12:
            return float(gammas[best]), float(biases[best])
        gammas = np.linspace(high, low, _POINTS)
