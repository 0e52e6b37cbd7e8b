"""The picture of the README: the KL of a power, for the best designs and for common defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from powermark.errors import Infeasible
from powermark.planning.design import Design, evaluate
from powermark.planning.plan import Plan, plan
from powermark.plotting.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure
from powermark.theory.bounds import information_limit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMON_DEFAULTS = ((0.25, 2.0), (0.5, 2.0))  # of lm-watermarking, transformers and others


def draw_tradeoff(curve: Sequence[Design], chosen: Plan | None) -> Figure:
    """Draw power against KL: the frontier, the information limit, defaults, paper, choice."""
    n, alpha = curve[0].n_tokens, curve[0].alpha
    figure = new_figure(7.2, 4.2)
    axes = figure.subplots()
    powers = np.linspace(max(alpha * 1.5, 0.05), 0.9995, 400)
    limit = information_limit(n, alpha, powers)
    axes.fill_betweenx(powers, 1e-9, limit, color=GREY, alpha=0.15, lw=0)
    axes.plot(limit, powers, color=GREY, ls="--", label="information limit: no mark can cost less")
    axes.plot(
        [d.kl for d in curve],
        [d.power for d in curve],
        color=BLUE,
        lw=2,
        label="powermark frontier",
    )
    for (gamma, delta), marker in zip(COMMON_DEFAULTS, "sD", strict=True):
        usual = evaluate(gamma, delta, n_tokens=n, alpha=alpha)
        label = f"usual default: γ={gamma:g}, δ={delta:g} (efficiency {usual.efficiency:.0%})"
        axes.plot(usual.kl, usual.power, marker, color=ORANGE, ms=7, label=label)
    try:
        paper = plan(n_tokens=n, alpha=alpha, method="authors")
    except Infeasible:
        paper = None
    if paper is not None:
        label = (
            f"paper's point: γ={paper.gamma:.3f}, δ={paper.delta:.2f} (true size {paper.size:.1%})"
        )
        axes.plot(paper.kl, paper.power, "^", color=PURPLE, ms=8, label=label)
    if chosen is not None:
        label = f"chosen: γ={chosen.gamma:.3f}, δ={chosen.delta:.2f} "
        label += f"(efficiency {chosen.efficiency:.0%})"
        axes.plot(chosen.kl, chosen.power, "o", color=GREEN, ms=9, label=label)
    axes.set_xscale("log")
    axes.set_xlim(min(d.kl for d in curve) * 0.8, 1.0)
    axes.set_ylim(0.0, 1.03)
    axes.set_xlabel("quality cost: KL per token (nats)")
    axes.set_ylabel(f"power at α = {alpha:g}, n = {n}")
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    return figure


def draw_curve(curve: Sequence[Design], over: str) -> Figure:
    """Draw power and KL of designs against the quantity that varies."""
    x = [getattr(design, over) for design in curve]
    figure = new_figure(7.2, 3.4)
    left, right = figure.subplots(1, 2)
    left.plot(x, [d.power for d in curve], color=BLUE, label="power")
    if all(d.attacked_power is not None for d in curve):
        left.plot(x, [d.attacked_power for d in curve], color=ORANGE, ls="--", label="after edits")
        left.legend(frameon=False, fontsize=8)
    left.set_ylabel("power")
    left.set_ylim(0.0, 1.03)
    right.plot(x, [d.kl for d in curve], color=GREEN)
    right.set_ylabel("KL per token (nats)")
    for axes in (left, right):
        axes.set_xlabel(over)
    return figure
