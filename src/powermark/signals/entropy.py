"""The entropy of recorded distributions, and the same distributions sharper or flatter.

Of the tokens beyond the recorded ones only the mass and the sum of squares are known. They are
counted as equally likely tokens, as many as have these two; so the entropy is at most the true one.
"""

from __future__ import annotations

import numpy as np

from powermark.checks import Array
from powermark.signals.green_mass import GreenMass


def entropies(of: GreenMass) -> Array:
    """Return the entropy of each step, in nats; (steps,)."""
    head = of.head * np.log(np.where(of.head > 0.0, of.head, 1.0))
    return np.asarray(np.maximum(-head.sum(axis=1) - of.tail_mass * np.log(_each(of)), 0.0))


def powered(of: GreenMass, exponent: float) -> GreenMass:
    """Return distributions proportional to ``p ** exponent``, as a temperature of 1/exponent."""
    likeliest, each = of.head[:, 0], _each(of)
    head = (of.head / likeliest[:, None]) ** exponent
    scaled = (each / likeliest) ** exponent
    mass = of.tail_mass / each * scaled
    whole = head.sum(axis=1) + mass
    return GreenMass(head / whole[:, None], mass / whole, mass * scaled / whole**2)


def _each(of: GreenMass) -> Array:
    """Return the probability of each token in the tail; 1 where there is no tail.

    A square of 0 beside a mass is rounding: the tokens are then as likely as the head's last.
    """
    mass = np.where(of.tail_mass > 0.0, of.tail_mass, 1.0)
    each = np.where(of.tail_square > 0.0, of.tail_square / mass, np.minimum(mass, of.head[:, -1]))
    return np.where((of.tail_mass > 0.0) & (each > 0.0), each, 1.0)
