"""Table 1 of the paper: the exact hypergeometric value against its large-vocabulary limit."""

from __future__ import annotations

import itertools

import numpy as np

from powermark.theory.green_rate import gamma_prime, gamma_prime_finite


def hypergeometric_table() -> list[dict[str, float]]:
    """Return the paper's 24 rows: ``2F1 = gamma_prime / (gamma exp(delta))``, limit, error."""
    rows = []
    for vocab_size, gamma, delta in itertools.product(
        (500, 1000), (0.2, 0.3, 0.5, 0.7), (0.5, 1.0, 2.0)
    ):
        scale = gamma * float(np.exp(delta))
        exact = float(gamma_prime_finite(gamma, delta, vocab_size)) / scale
        limit = float(gamma_prime(gamma, delta)) / scale
        rows.append(
            {
                "gamma": gamma,
                "delta": delta,
                "vocab_size": vocab_size,
                "hyp2f1": exact,
                "limit": limit,
                "error": limit - exact,
            }
        )
    return rows
