"""The same request under every signal model: what each promises, and what a profile says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from powermark.errors import Infeasible, InvalidInput
from powermark.planning.design import Design, evaluate
from powermark.planning.plan import Plan, plan_for
from powermark.planning.request import Request
from powermark.signals.fit import fit_concentration, fit_mixture
from powermark.signals.priors import Dirichlet
from powermark.signals.profile import Profile
from powermark.signals.signal import PlugIn, SignalModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One signal model's plan, and what it would really give by the profile; None if impossible."""

    model: str
    promised: Plan | None
    on_profile: Design | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, as the command line prints them."""
        names = ("gamma", "delta", "n_tokens", "alpha", "kl", "power", "attacked_power")
        return {
            "model": self.model,
            "promised": _some(self.promised, names),
            "on_profile": _some(self.on_profile, ("gamma_prime", "kl", "power", "attacked_power")),
        }


def compare(request: Request, vocab_size: int) -> list[Compared]:
    """Plan with the plug-in, the paper's prior, priors fitted to the profile, and the profile.

    The request's signal is a profile. ``vocab_size`` is for the paper's prior.
    """
    profile = request.signal
    if not isinstance(profile, Profile):
        raise InvalidInput("a comparison needs a profile.")
    best = plan_for(request)
    signals: dict[str, SignalModel] = {
        "plug-in": PlugIn(),
        "Dirichlet, concentration 1": Dirichlet(vocab_size),
        "Dirichlet, fitted": fit_concentration(profile, best.gamma, vocab_size),
        "Beta mixture, fitted": fit_mixture(profile, best.gamma),
    }
    rows = [_row(name, signal, request) for name, signal in signals.items()]
    return [*rows, Compared(model="profile", promised=best, on_profile=best)]


def _row(name: str, signal: SignalModel, request: Request) -> Compared:
    try:
        found = plan_for(replace(request, signal=signal))
    except Infeasible:
        return Compared(model=name, promised=None, on_profile=None)
    really = evaluate(
        found.gamma,
        found.delta,
        n_tokens=found.n_tokens,
        alpha=found.alpha,
        signal=request.signal,
        edits=request.edits,
        variance_inflation=request.variance_inflation,
        test=found.test,
    )
    return Compared(model=name, promised=found, on_profile=really)


def table(rows: list[Compared]) -> str:
    """Return the comparison as plain text."""
    edited = any(row.promised and row.promised.attacked_power is not None for row in rows)
    head = (
        f"{'':<28}{'n':>6}{'alpha':>9}{'gamma':>8}{'delta':>8}   {'promised: kl':>12}{'power':>8}"
    )
    head += f"{'edited':>8}" if edited else ""
    head += f"   {'on the profile: kl':>18}{'power':>8}" + (f"{'edited':>8}" if edited else "")
    lines = [head]
    for row in rows:
        if row.promised is None or row.on_profile is None:
            lines.append(f"{row.model:<28}reaches it with no design")
            continue
        line = f"{row.model:<28}{row.promised.n_tokens:6d}{row.promised.alpha:9.3g}"
        line += f"{row.promised.gamma:8.4f}{row.promised.delta:8.3f}   "
        for width, design in ((12, row.promised), (18, row.on_profile)):
            line += f"{design.kl:>{width}.4f}{design.power:8.4f}"
            line += f"{design.attacked_power:8.4f}" if edited else ""
            line += "   "
        lines.append(line.rstrip())
    return "\n".join(lines)


def _some(design: Design | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if design is None else {name: getattr(design, name) for name in names}
