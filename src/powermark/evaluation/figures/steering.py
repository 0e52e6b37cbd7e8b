"""KL that a power costs at each gamma: a constant bias, a steered one, and the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from powermark.calibration.plan import plan
from powermark.calibration.problem import rate_for
from powermark.calibration.signal import PlugIn, SignalModel
from powermark.evaluation.figures.canvas import BLUE, GREY, ORANGE, new_figure
from powermark.theory.bounds import information_limit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_TOKENS, ALPHA, POWER = 50, 0.05, 0.95
COUNTS = (3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 44, 47, 49, 50)  # critical; each has its gamma


def steering_curves(profile: SignalModel | None = None) -> list[dict[str, Any]]:
    """Return a row for each critical count and signal: the plug-in, and a profile if given."""
    signals = [("plug-in", PlugIn()), *([] if profile is None else [("profile", profile)])]
    rows = []
    for name, signal in signals:
        for k in COUNTS:
            gamma = float(rate_for(N_TOKENS, k, ALPHA)) * (1.0 - 1e-9)
            found = plan(
                n_tokens=N_TOKENS, alpha=ALPHA, power=POWER, gamma=gamma, signal=signal, steer=True
            )
            assert found.constant is not None
            rows.append(
                {
                    "signal": name,
                    "gamma": gamma,
                    "constant": found.constant["kl"],
                    "steered": found.kl,
                    "limit": float(information_limit(N_TOKENS, ALPHA, POWER)),
                }
            )
    return rows


def draw_steering(rows: list[dict[str, Any]]) -> Figure:
    """Draw KL against gamma; the plug-in dashed where a profile is there."""
    figure = new_figure(7.2, 4.0)
    axes = figure.subplots()
    signals = list(dict.fromkeys(row["signal"] for row in rows))
    for signal in signals:
        mine = [row for row in rows if row["signal"] == signal]
        gammas = [row["gamma"] for row in mine]
        line = "-" if signal == signals[-1] else "--"
        for kind, colour in (("constant", ORANGE), ("steered", BLUE)):
            label = f"{kind} bias, {signal}"
            axes.plot(gammas, [row[kind] for row in mine], line, color=colour, label=label)
    axes.axhline(rows[0]["limit"], color=GREY, lw=1, ls=":", label="information limit")
    axes.set_xlabel("green share γ")
    axes.set_ylabel("KL per token (nats)")
    axes.set_ylim(0.0, None)
    axes.set_title(f"power {POWER:g} at α = {ALPHA:g}, n = {N_TOKENS}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure
