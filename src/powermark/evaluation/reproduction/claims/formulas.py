"""Statements that need no text: they follow from formulas."""

from __future__ import annotations

from itertools import pairwise

from powermark.calibration.authors import largest_budget, published_pair
from powermark.evaluation.figures.hypergeometric import hypergeometric_table
from powermark.evaluation.figures.long_form import needed_kl
from powermark.evaluation.figures.roots import DELTAS_B, panel_b
from powermark.evaluation.reproduction.claims.claim import Claim
from powermark.evaluation.reproduction.scales import ALPHA, N_TOKENS
from powermark.theory.bounds import gamma_star
from powermark.theory.distortion import kl_bound
from powermark.theory.power import binomial_tail, z_critical_count

PAPER_HYPERGEOMETRIC = 0.884438
PAPER_BUDGET = 0.025  # above -log(gamma_star), by the paper's table of settings


def hypergeometric() -> Claim:
    """Theorem 3.5's table."""
    first = hypergeometric_table()[0]
    return Claim(
        "gamma_prime by a hypergeometric function of |V|, and its table (gamma .2, delta .5, 500)",
        f"{PAPER_HYPERGEOMETRIC}",
        f"{first['hyp2f1']:.6f}; the whole table is a test",
        "reproduced" if abs(first["hyp2f1"] - PAPER_HYPERGEOMETRIC) < 1e-6 else "differs",
    )


def roots() -> Claim:
    """Figure 1(b)."""
    found = panel_b()
    most = max(row["power"] for row in found)
    falling = all(b["power"] < a["power"] for a, b in pairwise(found))
    from_delta = min(row["delta"] for row in found)
    return Claim(
        "for each delta in (.5, 8) the two roots of the KL budget are equally good at one power, "
        "which falls with delta and is below .8",
        "one intersection for each delta; below .8",
        f"at most {most:.3f}{', falling' if falling else ''}; none below delta {from_delta:g}",
        "corrected" if most < 0.8 and falling and from_delta > DELTAS_B[0] else "differs",
        "for small deltas the lower root is ahead at every budget, and there is no intersection",
    )


def budget() -> Claim:
    """The KL budget of the paper's table of settings."""
    star = float(gamma_star(N_TOKENS, ALPHA))
    asked = float(kl_bound(star)) + PAPER_BUDGET
    most = largest_budget(N_TOKENS, ALPHA)
    return Claim(
        f"the calibrated point is solved at a KL budget of -log(gamma_star) + {PAPER_BUDGET}",
        f"{asked:.4f}",
        f"no gamma of the authors' grid below gamma_star = {star:.4f} can cost more than "
        f"{most:.4f}; their program searches 0 to .0075 above -log(gamma_star) and takes .0025",
        "corrected" if asked > most else "differs",
        "a slip of the decimal point",
    )


def size() -> Claim:
    """The level of the paper's own test at its own point."""
    gamma, delta = published_pair(N_TOKENS, ALPHA)
    found = float(binomial_tail(N_TOKENS, float(z_critical_count(N_TOKENS, gamma, ALPHA)), gamma))
    return Claim(
        "the z-test keeps alpha = .05 at the calibrated point",
        "5 %",
        f"{found:.1%} at gamma {gamma:.4f}, delta {delta:.2f}",
        "corrected",
        "the normal approximation fails where all 50 tokens must be green; our plans have exact "
        "sizes",
    )


def long_form() -> Claim:
    """The dual form: longer texts need less KL per token."""
    found = needed_kl()
    first, last = found[0], found[-1]
    falls = all(b["exact"] < a["exact"] for a, b in pairwise(found))
    return Claim(
        "a longer text keeps its power with less KL per token",
        "argued, without numbers",
        f"power .95: {first['exact']:.3f} nats at {first['n_tokens']} tokens, {last['exact']:.4f} "
        f"at {last['n_tokens']}; at most {max(r['exact'] / r['limit'] for r in found):.2f} times "
        "the information limit",
        "reproduced" if falls else "differs",
    )
