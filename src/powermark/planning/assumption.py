"""What a plan without a profile assumes, and what its design gives on the reference chat profile.

:func:`powermark.plan` leaves this out, as it takes longer than the plan; the command line and the
server add it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from powermark.planning.design import attacked_power, clean_power
from powermark.planning.for_evalue import evalue_powers
from powermark.planning.plan import Plan
from powermark.planning.request import Request
from powermark.signals.profile import Profile
from powermark.signals.references import described, reference_profile, short
from powermark.signals.signal import PlugIn
from powermark.signals.spread import Spread
from powermark.statistics.evalue import EvalueTest
from powermark.theory.power import critical_count

_REFERENCE = "chat"
_LONG = 20_000  # tokens; longer texts are judged by the moments of shorter ones


def with_assumption(found: Plan, request: Request) -> Plan:
    """Return a plan whose first warning says what it assumes; a plan with a profile as it is."""
    if found.profile is not None:
        return found
    law = f"next-token distributions are those of {request.signal.name}"
    if isinstance(request.signal, PlugIn):
        law = "every next-token distribution is very flat (plug-in)"
    profile = reference_profile(_REFERENCE)
    clean, edited = _powers_on(profile, found, request)
    design = "this design" if found.draws is None else "the count with this design"
    design = design if found.constant is None else "its constant design"
    gives = f"power {short(clean)}" + (f", after edits {short(edited)}" if request.edits else "")
    note = (
        f"assumes that {law}; on the reference {_REFERENCE} profile ({described(profile.about)}) "
        f"{design} has {gives}. Plan with a profile of your model, or with --like {_REFERENCE}."
    )
    return replace(found, warnings=(note, *found.warnings))


def _powers_on(profile: Profile, found: Plan, request: Request) -> tuple[float, float]:
    """Return the powers of a plan's design on a profile, on untouched and on edited text.

    Of a steered plan those of its constant design; of a plan for windows those of the count.
    """
    n, alpha, edits = found.n_tokens, found.alpha, request.edits
    gamma, delta, k = found.gamma, found.delta, found.critical_count
    if found.constant is not None:
        gamma, delta = found.constant["gamma"], found.constant["delta"]
        k = int(critical_count(n, gamma, alpha))
    if found.bet is not None:
        test = EvalueTest(n, gamma, found.bet)
        whole, attacked, _ = evalue_powers(test, alpha, profile, delta, edits)
        return whole, attacked
    if n > _LONG:
        spread = Spread.of(profile, _LONG // 4, gamma, delta)
        return spread.power(n, k), edits.attacked_power(n, k, gamma, *spread.moments(n))
    of: dict[str, Any] = {"n_tokens": n, "critical_count": k}
    of["variance_inflation"] = request.variance_inflation
    clean = clean_power(profile, gamma, delta, **of)
    return clean, attacked_power(profile, gamma, delta, edits, **of) if edits else clean
