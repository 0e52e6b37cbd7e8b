"""The e-value: evidence that may be looked at after any token, with its exact power and size.

    E_t = prod (g'/g)^I ((1 - g')/(1 - g))^(1 - I)        g = gamma, g' = the bet

is a martingale with mean 1 under H0, so ``P0(E_t >= 1/alpha for some t) <= alpha`` (Ville, 1939):
one may stop at any time. With the mark's own green rate as the bet, log E grows by the plug-in KL
per token: the nats that were spent are the nats of evidence that are gained.

Log E steps up for a green token and down for a red one, so it reaches ``log(1/alpha)`` after t
tokens if enough of them are green. The power is the probability that the number of greens meets
that line at some t <= n: a recursion over tokens and greens, without approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import Array, open_unit
from powermark.signals.edits import Edits, block_length
from powermark.statistics import evalue_kernels as kernels
from powermark.statistics.p_values import bets
from powermark.statistics.windows import Threshold

ROUNDING = 1e-10  # nats by which a running sum may be off; a line is met only with so much to spare


@dataclass(frozen=True, slots=True)
class EvalueTest:
    """Reject when E_t >= 1/alpha after any t of the first ``n_tokens`` tokens that count.

    Parameters
    ----------
    n_tokens, gamma
        Tokens that count, and the green share.
    bet
        Green rate that the evidence bets on.
    """

    n_tokens: int
    gamma: float
    bet: float

    def greens_needed(self, alpha: float) -> NDArray[np.int64]:
        """Return how many greens are enough after each number of tokens; (n+1,).

        More than the tokens where no text is found so early.
        """
        up, down = bets(self.gamma, self.bet)
        goal = ROUNDING - float(np.log(open_unit("alpha", alpha)))
        needed = np.ceil((goal - np.arange(self.n_tokens + 1) * down) / (up - down))
        return np.asarray(np.minimum(needed, self.n_tokens + 1), np.int64)

    def least_tokens(self, alpha: float) -> int:
        """Return the number of tokens, all green, with which a text can first be found."""
        up, _ = bets(self.gamma, self.bet)
        return int(np.ceil((ROUNDING - np.log(open_unit("alpha", alpha))) / up))

    def powers(self, rates: ArrayLike, alpha: float, edits: Edits | None = None) -> Array:
        """Return the power on each text, exactly.

        Parameters
        ----------
        rates
            Green rates of the tokens, (texts, n_tokens); (texts, 1) or a number where all tokens
            of a text have the same.
        edits
            What happens to the texts: an edit rate, or a block at a uniform place.
        """
        n, needed = self.n_tokens, self.greens_needed(alpha)
        each = np.atleast_2d(np.asarray(rates, np.float64))
        each = np.ascontiguousarray(np.broadcast_to(each, (each.shape[0], n)))
        edits = edits or Edits()
        if edits.removal:
            block = int(block_length(n, edits.removal))
            lost = block + edits.context_width
            found = kernels.crossing_with_block(each, needed, self.gamma, block, lost)
        else:
            rate = edits.edit_rate or 0.0
            width = edits.context_width if rate else 0
            found = kernels.crossing(each, needed, self.gamma, rate, width)
        return np.asarray(np.clip(found, 0.0, 1.0))

    def size(self, alpha: float) -> float:
        """Return the probability of rejecting unmarked text; at most alpha (Ville)."""
        return float(self.powers(self.gamma, alpha)[0])

    def statistics(self, colours: ArrayLike) -> Array:
        """Return the highest log E of each row of colours; (rows, n_tokens) -> (rows,)."""
        up, down = bets(self.gamma, self.bet)
        steps = np.where(np.asarray(colours, bool), up, down)
        return np.asarray(np.cumsum(steps, axis=1).max(axis=1))

    def threshold(self, alpha: float) -> Threshold:
        """Return the value above which the test rejects at level ``alpha``, and its size."""
        return Threshold(float(np.nextafter(-np.log(alpha), 0.0)), self.size(alpha))
