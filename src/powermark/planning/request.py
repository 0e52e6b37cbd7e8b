"""A request for a plan: the arguments of ``plan``, checked when the request is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np

from powermark.checks import count, in_interval, open_unit, positive
from powermark.errors import Infeasible, InvalidInput
from powermark.planning.lengths import Lengths
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.steering.schedule import LONGEST as LONGEST_STEERED
from powermark.theory.required_length import LONGEST

Method = Literal["exact", "paper", "authors"]
Detector = Literal["count", "winmax", "winmax-c", "evalue"]

GAMMA_MIN = 0.01  # below it "green" leaves a model one token in a hundred to choose from
ALPHA_FLOOR = 1e-240  # below about 1e-250 scipy's incomplete Beta function may return 0
PRECISION = 0.03
LONGEST_WINDOWED = 400  # tokens; a search takes time in the square of a text's length, here minutes
LONGEST_BET = 2_000  # tokens of a plan for the e-value; as for steered plans
MOST_WINDOWED = 0.999  # power that a few thousand simulated texts can show

_QUANTITIES = ("n_tokens", "alpha", "power", "kl")
_ASKED = (*_QUANTITIES, "coverage", "gamma", "delta", "attacked_power")


class Target(NamedTuple):
    """A length, a level and a power to reach."""

    n_tokens: int
    alpha: float
    power: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The design that a solver chose; ``points`` are the pairs of the authors' table."""

    gamma: float
    delta: float
    n_tokens: int
    alpha: float
    notes: tuple[str, ...] = ()
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """Options of a steered plan.

    Parameters
    ----------
    checkpoints
        Shorter lengths at which texts should be found as well.
    delta_cap
        The largest bias.
    kl_cap
        The most KL that any step can cost, whatever its next-token distribution and green list.
        By default 2 nats; with ``gamma`` given, what the constant plan's bias can cost if that is
        more. ``inf`` lifts the cap.
    """

    checkpoints: tuple[int, ...] = ()
    delta_cap: float = MAX_DELTA
    kl_cap: float | None = None

    def __post_init__(self) -> None:
        shorter = sorted(int(c) for c in count("checkpoints", self.checkpoints))
        object.__setattr__(self, "checkpoints", tuple(shorter))
        in_interval("delta_cap", self.delta_cap, 0.0, MAX_DELTA, closed="high")
        if self.kl_cap is not None:
            in_interval("kl_cap", self.kl_cap, 0.0, inf, closed="high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of :func:`powermark.plan`; an invalid combination raises InvalidInput."""

    n_tokens: int | None = None
    alpha: float | None = None
    power: float | None = None
    kl: float | None = None
    detector: Detector = "count"
    method: Method = "exact"
    signal: SignalModel = field(default_factory=PlugIn)
    gamma: float | None = None
    delta: float | None = None
    edits: Edits = field(default_factory=Edits)
    attacked_power: float | None = None
    variance_inflation: float = 1.0
    precision: float = PRECISION
    steer: Steering | None = None
    coverage: float | None = None
    lengths: Lengths | None = None

    @classmethod
    def of(
        cls,
        *,
        signal: SignalModel | None = None,
        edits: Edits | None = None,
        edit_rate: float | None = None,
        survival: float | None = None,
        removal: float | None = None,
        context_width: int | None = None,
        steer: Steering | bool = False,
        checkpoints: Sequence[int] = (),
        delta_cap: float | None = None,
        kl_cap: float | None = None,
        lengths: Lengths | Sequence[int] | None = None,
        **given: Any,
    ) -> Self:
        """Return a request from the keywords of ``plan``, shorthands included."""
        rates = {"edit_rate": edit_rate, "survival": survival, "removal": removal}
        flat = _given(rates | {"context_width": context_width})
        if edits is not None and flat:
            raise InvalidInput(f"give either `edits` or {named(flat)}.")
        caps = _given({"checkpoints": checkpoints or None, "delta_cap": delta_cap})
        caps |= _given({"kl_cap": kl_cap})
        if caps and steer is not True:
            wrong = "need `steer`" if steer is False else "are given in `steer`"
            raise InvalidInput(f"`checkpoints`, `delta_cap` and `kl_cap` {wrong}.")
        if steer is True:
            steer = Steering(**caps)
        if lengths is not None and not isinstance(lengths, Lengths):
            lengths = Lengths.of(lengths)
        return cls(
            **given,
            signal=signal or PlugIn(),
            edits=Edits(**flat) if edits is None else edits,
            steer=steer or None,
            lengths=lengths,
        )

    def __post_init__(self) -> None:
        self._check_quantities()
        self._check_contradictions()
        if self.method == "authors":
            self._check_authors()
        elif self.detector != "count":
            self._check_detector()
        if self.steer is not None:
            self._check_steering(self.steer)
        if self.coverage is not None:
            self._check_coverage(self.coverage)
        else:
            self._check_missing()
        self._check_budget()
        for name in _ASKED:  # 1 and 1.0 are the same kl
            if (value := getattr(self, name)) is not None:
                kind = int if name == "n_tokens" else float
                object.__setattr__(self, name, kind(value))

    @property
    def missing(self) -> list[str]:
        """The quantities that were left out."""
        return [name for name in _QUANTITIES if getattr(self, name) is None]

    @property
    def solved_for(self) -> str:
        """The quantity to solve for; the authors' grid always chooses kl."""
        if self.method == "authors" or self.coverage is not None:
            return "kl"
        return self.missing[0]

    @property
    def asked(self) -> dict[str, float]:
        """The quantities that were given."""
        return _given({name: getattr(self, name) for name in _ASKED})

    @property
    def longest(self) -> int:
        """The most tokens that the detector's plan can have."""
        if self.detector in ("winmax", "winmax-c"):
            return LONGEST_WINDOWED
        return LONGEST_BET if self.detector == "evalue" else LONGEST

    def _check_quantities(self) -> None:
        """Check each argument by itself."""
        for name, kinds in (("method", Method), ("detector", Detector)):
            if (value := getattr(self, name)) not in get_args(kinds):
                allowed = ", ".join(get_args(kinds))
                raise InvalidInput(f"{name} must be one of {allowed}; got {value!r}.")
        if self.n_tokens is not None:
            count("n_tokens", self.n_tokens)
            in_interval("n_tokens", self.n_tokens, 1, self.longest, closed="both")
        if self.alpha is not None:
            highest = 1.0 if self.method == "exact" else 0.5  # Eq. (1) is for z above 0
            in_interval("alpha", self.alpha, ALPHA_FLOOR, highest, closed="low")
        for name in ("power", "gamma", "attacked_power", "coverage"):
            if getattr(self, name) is not None:
                open_unit(name, getattr(self, name))
        for name in ("kl", "delta"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.delta is not None:
            in_interval("delta", self.delta, 0.0, MAX_DELTA, closed="high")
        most = self.n_tokens if self.n_tokens is not None and self.n_tokens > 1 else np.inf
        in_interval("variance_inflation", self.variance_inflation, 1.0, most, closed="low")
        positive("precision", self.precision)

    def _check_contradictions(self) -> None:
        """Check arguments against each other."""
        if self.gamma is not None and self.delta is not None:
            raise InvalidInput(
                "fix `gamma` or `delta`, not both: together they leave nothing to plan.",
                hint="`powermark power` says what a given gamma and delta will do.",
            )
        if self.attacked_power is not None and not self.edits:
            raise InvalidInput(
                "`attacked_power` needs to know the attack.",
                hint="give `edit_rate`, `survival` or `removal` too.",
            )
        if self.method != "exact" and (self.edits or self.delta is not None):
            raise InvalidInput(
                f"`method` {self.method} takes neither edits nor a fixed delta.",
                hint="use `method` exact.",
            )
        if self.alpha is not None and self.power is not None and self.power <= self.alpha:
            raise InvalidInput(
                f"power must exceed alpha = {self.alpha:g}, which guessing reaches; "
                f"got {self.power:g}."
            )

    def _check_authors(self) -> None:
        if self.n_tokens is None or self.alpha is None or self.kl is not None:
            raise InvalidInput(
                "`method` authors needs `n_tokens` and `alpha`, and chooses kl and power itself.",
                hint="use `method` exact or paper to solve for another quantity.",
            )
        if not isinstance(self.signal, PlugIn) or self.gamma is not None:
            raise InvalidInput("`method` authors takes neither a signal model nor a fixed gamma.")
        if self.detector != "count":
            raise InvalidInput("`method` authors is for the count: leave `detector` out.")

    def _check_detector(self) -> None:
        """Check what a plan for windows or the e-value cannot take."""
        windows = self.detector != "evalue"
        refused = {
            "method": self.method != "exact",
            "kl": windows and self.kl is not None,
            "gamma": windows and self.gamma is not None,
            "delta": self.delta is not None,
            "edit_rate": windows and self.edits.edit_rate is not None,
            "survival": self.edits.survival is not None,
            "variance_inflation": self.variance_inflation != 1.0,
            "steer": self.steer is not None,
            "lengths": self.lengths is not None,
        }
        if any(refused.values()):
            raise InvalidInput(
                f"`detector` {self.detector} takes no {named(k for k, v in refused.items() if v)}.",
                hint="such a plan chooses a constant delta for the detector's own power.",
            )
        if windows:
            needed = {"n_tokens": self.n_tokens, "alpha": self.alpha, "power": self.power}
            require(needed | {"removal": self.edits.removal})
            open_unit("removal", self.edits.removal or 0.0)
            for name in ("power", "attacked_power"):
                if (value := getattr(self, name)) is not None:
                    in_interval(name, value, self.alpha or 0.0, MOST_WINDOWED, closed="high")

    def _check_steering(self, steer: Steering) -> None:
        if self.method != "exact" or self.delta is not None or self.variance_inflation != 1.0:
            raise InvalidInput(
                "steering chooses delta itself, for the exact test: it takes no other `method`, no "
                "fixed `delta` and no `variance_inflation`."
            )
        if self.n_tokens is None:
            return
        if self.n_tokens <= max(steer.checkpoints, default=0):
            raise InvalidInput(f"checkpoints must be below n_tokens, {self.n_tokens}.")
        if self.n_tokens > LONGEST_STEERED:
            raise InvalidInput(
                f"n_tokens must be at most {LONGEST_STEERED:,} for a steered plan; got "
                f"{self.n_tokens:,}.",
                hint="plan for a shorter block: a longer text has several.",
            )

    def _check_coverage(self, coverage: float) -> None:
        """Check what a plan for answers of any length cannot take."""
        require({"alpha": self.alpha})
        refused = {
            **{name: getattr(self, name) is not None for name in ("n_tokens", "power", "kl")},
            **{name: getattr(self, name) is not None for name in ("delta", "attacked_power")},
            "detector": self.detector != "count",
            "method": self.method != "exact",
            "checkpoints": self.steer is not None and bool(self.steer.checkpoints),
            "variance_inflation": self.variance_inflation != 1.0,
            **{name: getattr(self.edits, name) is not None for name in ("survival", "removal")},
        }
        if any(refused.values()):
            raise InvalidInput(
                f"`coverage` takes no {named(k for k, v in refused.items() if v)}.",
                hint="such a plan needs `alpha`, and lengths of answers or a profile.",
            )
        in_interval("coverage", coverage, self.alpha or 0.0, 1.0, closed="neither")

    def _check_missing(self) -> None:
        """Require that one quantity is left out, and only one."""
        if self.method != "authors" and len(self.missing) != 1:
            what = f"missing: {named(self.missing)}" if self.missing else "all were given"
            raise InvalidInput(
                f"give all but one of {named(_QUANTITIES)}; {what}.",
                hint="the one left out is solved for, for example give `n_tokens`, `alpha` and "
                "`power` for the least kl.",
            )

    def _check_budget(self) -> None:
        """Refuse a KL above -log(gamma), which bounds the plug-in; spiky models can spend more."""
        smallest = GAMMA_MIN if self.gamma is None else self.gamma
        bound = -np.log(smallest)
        if isinstance(self.signal, PlugIn) and self.kl is not None and self.kl >= bound:
            which = "the smallest gamma allowed" if self.gamma is None else "this gamma"
            raise Infeasible(
                f"kl must be below -log(gamma) = {bound:.4g} for {which}, {smallest:g}, because no "
                f"delta costs more; got {self.kl:g}.",
                hint="choose a smaller kl" + ("." if self.gamma is None else " or gamma."),
            )


def named(names: Iterable[str]) -> str:
    """Return argument names as errors write them: in backquotes, for interfaces to render."""
    return ", ".join(f"`{name}`" for name in names)


def require(given: dict[str, Any], hint: str | None = None) -> None:
    """Refuse arguments that are None."""
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InvalidInput(f"missing: {named(missing)}.", hint=hint)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}
