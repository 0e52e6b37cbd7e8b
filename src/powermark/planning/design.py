"""A design and what it gives: the forward direction, from (gamma, delta, n, alpha) to numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from powermark import fields
from powermark.checks import count, in_interval, logit_bias, open_unit
from powermark.errors import InvalidInput
from powermark.fields import Check, check_fields
from powermark.signals import profile_file
from powermark.signals.edits import Edits
from powermark.signals.references import described, short
from powermark.signals.signal import PlugIn, SignalModel
from powermark.signals.spread import Spread, check_spread
from powermark.signature import signature
from powermark.tables import table
from powermark.theory.bounds import efficiency, information_limit
from powermark.theory.power import (
    beta_binomial_power,
    binomial_tail,
    critical_count,
    most_inflation,
    normal_power,
    z_critical_count,
)
from powermark.theory.required_length import LONGEST

Test = Literal["exact", "z"]
_ROUNDING = 1e-3  # by which an efficiency may seem to be above 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One (gamma, delta) at one length and level, and everything that follows from it.

    ``size`` and ``power`` are those of the test that really runs: reject when at least
    ``critical_count`` of ``n_tokens`` scored tokens are green. ``normal_power`` is what the
    paper's Eq. (1) says of the same design. ``efficiency`` is measured at the level the test
    really has, where that is above ``alpha``. ``profile`` says which model, settings and sample the
    numbers are from, where they are from one, and ``standard_errors`` how far the sample's size
    lets them be off. ``spread`` says how texts of other lengths vary, as
    :class:`~powermark.signals.spread.Spread` has it; None where tokens are independent.
    """

    gamma: float
    delta: float
    n_tokens: int
    alpha: float
    gamma_prime: float
    kl: float
    critical_count: int
    size: float
    power: float
    normal_power: float | None
    information_limit: float
    efficiency: float
    edit_rate: float | None
    survival: float | None
    removal: float | None
    attacked_power: float | None
    context_width: int
    variance_inflation: float
    test: Test
    signal: str
    profile: dict[str, Any] | None
    standard_errors: dict[str, float] | None
    signature: str
    spread: list[list[float]] | None = None

    @property
    def edits(self) -> Edits:
        """The edits that ``attacked_power`` is for."""
        rate_given = self.edit_rate is not None or self.removal is not None
        return Edits(
            edit_rate=self.edit_rate,
            survival=None if rate_given else self.survival,
            removal=self.removal,
            context_width=self.context_width,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints and the web answers with."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """Return a small table."""
        return table(self.rows()) + f"\n{self.signature}"

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, remark) for people to read."""
        above = " (exceeds alpha)" if self.size > self.alpha else ""
        rows = [
            ("gamma", f"{self.gamma:.4f}", "green share of the vocabulary"),
            ("delta", f"{self.delta:.3f}", "bias on green logits"),
            ("kl", f"{self.kl:.4f}", f"nats per token; {self.efficiency:.0%} efficient"),
            ("power", f"{self.power:.4f}", _approximately(self.normal_power)),
            ("size", f"{self.size:.3g}", f"exact; alpha = {self.alpha:g}{above}"),
            ("critical_count", f"{self.critical_count}", f"green of {self.n_tokens} scored tokens"),
            ("gamma_prime", f"{self.gamma_prime:.4f}", f"green rate under the mark, {self.signal}"),
        ]
        if self.attacked_power is not None:
            survives = f"{self.survival:.1%} of positions keep their signal"
            rows.insert(4, ("attacked_power", f"{self.attacked_power:.4f}", survives))
        return rows


def evaluate(
    gamma: float,
    delta: float,
    *,
    n_tokens: int,
    alpha: float,
    signal: SignalModel | None = None,
    edits: Edits | None = None,
    variance_inflation: float = 1.0,
    test: Test = "exact",
) -> Design:
    """Return what a design gives: green rate, KL, critical count, exact size and power.

    Parameters
    ----------
    gamma, delta
        Green share and logit bias.
    n_tokens
        Tokens *scored*: after repeats, prompt and special tokens are left out.
    alpha
        Level; the exact test's size never exceeds it.
    signal
        What the mark does on your model; the plug-in by default.
    edits
        What happens to texts before they are tested; gives ``attacked_power``.
    variance_inflation
        Overdispersion c of green counts, on top of the signal's own.
    test
        ``"exact"``, or ``"z"`` for the paper's z-test, whose size may exceed alpha.

    Examples
    --------
    >>> design = evaluate(0.5, 2.0, n_tokens=50, alpha=0.05)
    >>> design.critical_count, round(design.kl, 3), round(design.efficiency, 2)
    (32, 0.328, 0.18)
    """
    gamma, delta = float(open_unit("gamma", gamma)), float(logit_bias(delta))
    n, alpha = int(count("n_tokens", n_tokens)), float(open_unit("alpha", alpha))
    in_interval("variance_inflation", variance_inflation, 1.0, max(n, 1.0 + 1e-9), closed="low")
    if test not in get_args(Test):
        raise InvalidInput(f"test must be one of {get_args(Test)}; got {test!r}.")
    signal = signal or PlugIn()
    edits = Edits() if edits is None else edits  # without edits it still has a context width
    rate, kl = float(signal.green_rate(gamma, delta)), float(signal.kl(gamma, delta))
    k = int(
        critical_count(n, gamma, alpha) if test == "exact" else z_critical_count(n, gamma, alpha)
    )
    size = float(binomial_tail(n, k, gamma))
    c = inflation(signal, gamma, delta, n, variance_inflation)
    of: dict[str, Any] = {"n_tokens": n, "critical_count": k}
    of["variance_inflation"] = variance_inflation
    power = clean_power(signal, gamma, delta, **of)
    attacked = attacked_power(signal, gamma, delta, edits, **of) if edits else None
    limit_level = max(alpha, size)
    limit = float(information_limit(n, limit_level, power))
    check_limit(limit, kl)
    return Design(
        gamma=gamma,
        delta=delta,
        n_tokens=n,
        alpha=alpha,
        gamma_prime=rate,
        kl=kl,
        critical_count=k,
        size=size,
        power=power,
        normal_power=float(normal_power(gamma, rate, n, alpha, c)),
        information_limit=limit,
        efficiency=float(efficiency(n, limit_level, power, kl)) if kl > 0.0 else 0.0,
        edit_rate=edits.edit_rate,
        survival=edits.surviving_share(n) if edits else None,
        removal=edits.removal,
        attacked_power=attacked,
        context_width=edits.context_width,
        variance_inflation=c,
        test=test,
        signal=signal.name,
        profile=signal.origin or None,
        standard_errors=signal.standard_errors(n, k, gamma, delta, edits),
        signature=signature(
            "design",
            test="binom" if test == "exact" else "z",
            signal=signal.name,
            g=gamma,
            d=delta,
            n=n,
            a=alpha,
            c=c if c != 1.0 else None,
            **edit_parts(edits),
        ),
        spread=None if signal.independent else Spread.of(signal, n, gamma, delta).to_list(),
    )


def check_limit(limit: float, kl: float) -> None:
    """Raise if a KL is below the information limit, which is a bug."""
    if limit > kl * (1.0 + _ROUNDING) + 1e-9:
        raise ArithmeticError(
            f"an efficiency of {limit / kl:.4g} is above 1: KL or power is wrong."
        )


def fields_of(design: Design) -> dict[str, Any]:
    """Return a design's fields, to make a plan of them."""
    return {field.name: getattr(design, field.name) for field in dataclasses.fields(Design)}


def _approximately(power: float | None) -> str:
    return "" if power is None else f"normal approximation: {power:.4f}"


def clean_power(
    signal: SignalModel,
    gamma: float,
    delta: float,
    *,
    n_tokens: int,
    critical_count: float,
    variance_inflation: float,
) -> float:
    """Return the count's power on untouched text.

    The user's c comes on top of the signal's own. It was measured on some design, not on this one,
    and taken literally it would find power where there is no mark (as delta -> 0 the true c -> 1).
    So it may only cost power: the lesser of the two laws, with it and without it, counts.
    """
    n, k = n_tokens, critical_count
    power = signal.power(n, k, gamma, delta)
    if variance_inflation == 1.0:
        return power
    rate = float(signal.green_rate(gamma, delta))
    c = inflation(signal, gamma, delta, n, variance_inflation)
    return min(power, float(beta_binomial_power(n, k, rate, c)))


def attacked_power(
    signal: SignalModel,
    gamma: float,
    delta: float,
    edits: Edits,
    *,
    n_tokens: int,
    critical_count: float,
    variance_inflation: float,
) -> float:
    """Return the count's power on edited text; c is that of :func:`clean_power`."""
    n, k = n_tokens, critical_count
    power = signal.attacked_power(edits, n, k, gamma, delta)
    if variance_inflation == 1.0:
        return power
    rate = float(signal.green_rate(gamma, delta))
    c = inflation(signal, gamma, delta, n, variance_inflation)
    return min(power, edits.attacked_power(n, k, gamma, rate, c))


def inflation(
    signal: SignalModel, gamma: float, delta: float, n_tokens: int, variance_inflation: float
) -> float:
    """Return the inflation c of the count's variance: the signal's own, and the user's on top."""
    own = signal.variance_inflation(n_tokens, gamma, delta)
    return min(max(own, 1.0) + variance_inflation - 1.0, most_inflation(n_tokens))


def edit_parts(edits: Edits) -> dict[str, float | None]:
    """Return the parts of a signature that name the edits; none without edits."""
    return {
        "edit": edits.edit_rate,
        "survival": edits.survival,
        "removal": edits.removal,
        "h": edits.context_width if edits and edits.survival is None else None,
    }


def notes_on(design: Design, precision: float) -> tuple[str, ...]:
    """Return warnings about what a design does not promise."""
    notes = []
    if design.profile is not None:
        notes += _doubts(design, design.profile, precision)
    if design.size > design.alpha:
        notes.append(
            f"the z-test has exact size {design.size:.4f}, which exceeds alpha = {design.alpha:g}: "
            f"it accuses more often than promised."
        )
    return tuple(notes)


def all_green_note(design: Design) -> tuple[str, ...]:
    """Return a warning where one red token undoes the mark."""
    if design.critical_count != design.n_tokens:
        return ()
    return (
        f"all {design.n_tokens} scored tokens must be green: one edited token can undo the mark, "
        f"and a shorter text cannot be detected at all. Plan with an edit rate if texts may be "
        f"edited or cut.",
    )


def _doubts(design: Design, profile: dict[str, Any], precision: float) -> list[str]:
    """Return warnings about a profile's sample: its size, and token ids in place of text."""
    texts, steps = int(profile.get("texts", 1)), int(profile.get("steps", 1))
    notes = []
    if design.standard_errors is None:
        notes.append(
            "the profile is of one text, which says nothing about others: record more of them."
        )
    else:
        error = 1.96 * max(v for name, v in design.standard_errors.items() if "power" in name)
        needed = int(np.ceil(texts * (error / precision) ** 2))
        if "reference" in profile:
            name, entropy = profile["reference"]["name"], profile["randomness"]["entropy"]
            own = "sharpened" in profile
            notes.append(
                f"planned on the reference {name} profile ({described(profile)}; "
                f"{'brought to a ' if own else ''}mean entropy {'of ' if own else ''}"
                f"{short(entropy)} nats), not on your model; its {texts} texts leave the power "
                f"uncertain by {error:.3f}. Record a profile of your model"
                f"{'' if own else ', or give its mean entropy with --entropy'}."
            )
        elif error > precision:
            notes.append(
                f"the profile's {texts} texts leave the power uncertain by {error:.3f}; for "
                f"{precision:g} record {needed} texts, about "
                f"{-(-needed * steps // texts):,} positions."
            )
    if profile.get("source") == "ids":
        known = "survival" in profile
        mend = "plan for text instead" if known else "record the profile anew to plan for text"
        notes.append(
            f"the promise is for a detector that is given the sampled token ids. A text is "
            f"tokenised again, and loses some of them: {mend}."
        )
    return notes


def _profile_fields(name: str, value: Any) -> None:
    fields.mapping(name, value)
    check_fields(value, profile_file.FIELDS, f"{name}.")


FIELDS: dict[str, Check] = {
    **dict.fromkeys(("gamma", "alpha"), fields.open_unit),
    **dict.fromkeys(("gamma_prime", "size", "power"), fields.share),
    **dict.fromkeys(("kl", "information_limit", "efficiency"), fields.not_negative),
    **dict.fromkeys(("normal_power", "attacked_power"), fields.or_none(fields.share)),
    **dict.fromkeys(("edit_rate", "survival", "removal"), fields.or_none(fields.share)),
    **dict.fromkeys(("signal", "signature"), fields.text),
    "delta": fields.number(0.0, 700.0),
    "n_tokens": fields.number(1, LONGEST, whole=True),
    "critical_count": fields.count,
    "context_width": fields.count,
    "variance_inflation": fields.positive,
    "test": fields.one_of(*get_args(Test)),
    "profile": fields.or_none(_profile_fields),
    "standard_errors": fields.or_none(fields.errors),
    "spread": fields.or_none(check_spread),
}
