"""Designs as one quantity varies: the power-KL frontier, and any other curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from powermark.errors import Infeasible, InvalidInput
from powermark.planning.design import Design, evaluate
from powermark.planning.plan import Plan, plan
from powermark.planning.request import named, require
from powermark.signals.edits import Edits
from powermark.signals.signal import PlugIn, SignalModel

POWERS = tuple(np.round(np.concatenate([np.arange(0.1, 0.95, 0.05), [0.95, 0.97, 0.99, 0.999]]), 3))
# the default range of each quantity; for kl: what these powers cost
_RANGES = {
    "n_tokens": (20.0, 500.0),
    "power": (0.1, 0.999),
    "kl": (0.1, 0.999),
    "delta": (0.25, 8.0),
    "gamma": (0.05, 0.95),
}


def frontier(
    *, n_tokens: int, alpha: float, powers: Sequence[float] = POWERS, **options: Any
) -> list[Design]:
    """Return the cheapest design for each power: the power-KL curve of a method.

    Parameters
    ----------
    n_tokens, alpha
        Length and level.
    powers
        Powers to reach; those that cannot be are left out.
    **options
        Whatever :func:`~powermark.planning.plan.plan` takes: method, signal, edits, gamma, ...
    """
    designs: list[Design] = []
    for power in powers:
        try:
            designs.append(plan(n_tokens=n_tokens, alpha=alpha, power=power, **options))
        except Infeasible:
            continue
    return designs


class Curve(NamedTuple):
    """Designs as one quantity varies, the design of the power asked, and what was left out."""

    over: str
    designs: list[Design]
    chosen: Plan | None
    note: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints and the web answers with."""
        return {"over": self.over, "points": [design.to_dict() for design in self.designs]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRequest:
    """A quantity to vary. With gamma and delta known each point is evaluated, else planned.

    Parameters
    ----------
    over
        ``"n_tokens"``, ``"kl"``, ``"power"``, ``"delta"`` or ``"gamma"``.
    start, stop, points
        Its first and last value, by default a usual range, and how many values.
    n_tokens, alpha, power, kl, gamma, delta, signal, edits, attacked_power, variance_inflation
        As :func:`powermark.plan` takes them.
    """

    over: str
    start: float | None = None
    stop: float | None = None
    points: int = 25
    n_tokens: int | None = None
    alpha: float | None = None
    power: float | None = None
    kl: float | None = None
    gamma: float | None = None
    delta: float | None = None
    signal: SignalModel = field(default_factory=PlugIn)
    edits: Edits = field(default_factory=Edits)
    attacked_power: float | None = None
    variance_inflation: float = 1.0

    def __post_init__(self) -> None:
        if self.over not in _RANGES:
            raise InvalidInput(
                f"over must be n_tokens, kl, power, delta or gamma; got {self.over!r}."
            )
        if self.over != "power" and getattr(self, self.over) is not None:
            raise InvalidInput(
                f"`over` {self.over} varies it: leave {named([self.over])} out, or use `start` and "
                f"`stop`."
            )
        if self.over == "power" and self.kl is not None:
            raise InvalidInput("`over` power finds the KL of each: leave `kl` out.")
        if self.points < 2:
            raise InvalidInput(f"points must be at least 2; got {self.points}.")
        if self._known:
            self._check_known()
        else:
            self._check_free()

    @property
    def _known(self) -> bool:
        """Whether gamma and delta are known at every point."""
        given = {name for name in ("gamma", "delta") if getattr(self, name) is not None}
        return given | {self.over} >= {"gamma", "delta"}

    def _check_known(self) -> None:
        if (self.power, self.kl, self.attacked_power) != (None, None, None):
            raise InvalidInput(
                "with gamma and delta both known there is nothing left for `power`, `kl` or "
                "`attacked_power` to choose."
            )
        needed = ("gamma", "delta", "n_tokens", "alpha")
        require({name: getattr(self, name) for name in needed if name != self.over})
        if self.over not in needed:
            raise InvalidInput(
                f"`over` {self.over} needs gamma or delta free; both were given.",
                hint="leave one out, or vary n_tokens.",
            )

    def _check_free(self) -> None:
        needed = ("n_tokens", "alpha")
        require({name: getattr(self, name) for name in needed if name != self.over})
        if self.over not in ("kl", "power") and self.power is None and self.kl is None:
            raise InvalidInput(
                f"`over` {self.over} needs `power` or `kl`, or both `gamma` and `delta`."
            )

    def curve(self) -> Curve:
        """Compute the designs; values that no design reaches are left out."""
        chosen = None
        if self.over in ("kl", "power") and self.power is not None:
            chosen = self._plan(power=self.power)
        at = self._evaluate if self._known else self._plan
        designs, note = _walk(lambda value: at(**{self.over: value}), self._values())
        return Curve(self.over, designs, chosen, note)

    def _evaluate(self, **varied: Any) -> Design:
        names = ("gamma", "delta", "n_tokens", "alpha", "signal", "edits", "variance_inflation")
        return evaluate(**{name: getattr(self, name) for name in names} | varied)

    def _plan(self, **varied: Any) -> Plan:
        names = ["n_tokens", "alpha", "gamma", "delta", "signal", "edits", "variance_inflation"]
        names += [] if self.over in ("kl", "power") else ["power", "kl"]
        given = {name: getattr(self, name) for name in [*names, "attacked_power"]}
        return plan(**given | varied)

    def _values(self) -> list[float]:
        """Return the values to look at; whole numbers for n_tokens."""
        low, high = _RANGES[self.over]
        if self.over == "kl" and (self.start is None or self.stop is None):
            low, high = (self._plan(power=p, attacked_power=None).kl for p in (low, high))
        low, high = (
            low if self.start is None else self.start,
            high if self.stop is None else self.stop,
        )
        if not 0.0 < low < high < np.inf:
            raise InvalidInput(
                f"`start` must be above 0 and below `stop`; got {low:g} and {high:g}."
            )
        if self.over == "n_tokens":
            return [int(v) for v in np.unique(np.round(np.geomspace(low, high, self.points)))]
        spaced = np.geomspace if self.over == "kl" else np.linspace
        return [float(v) for v in spaced(low, high, self.points)]


def _walk(at: Callable[[float], Design], values: list[float]) -> tuple[list[Design], str | None]:
    """Evaluate where a design exists; where none does, say so and go on."""
    curve, refused = [], None
    for value in values:
        try:
            curve.append(at(value))
        except Infeasible as error:
            refused = error
    if not curve and refused is not None:
        raise refused
    if refused is None:
        return curve, None
    return curve, f"{len(values) - len(curve)} of {len(values)} values left out: {refused}"
