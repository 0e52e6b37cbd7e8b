"""What cog calls to put the experiments' tables into the docs; the data are beside the figures."""

from __future__ import annotations

import csv
from pathlib import Path

import cog

from powermark import Edits, evaluate, plan
from powermark.steering.goal import Goal
from powermark.steering.recursion import edited_power
from powermark.steering.schedule import Schedule
from powermark.theory.power import binomial_tail, critical_count

Row = dict[str, str]


def _rows(path: str) -> list[Row]:
    with Path(path).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _line(cells: list[str]) -> None:
    cog.outl("| " + " | ".join(cells) + " |")


def _head(names: list[str]) -> None:
    _line(names)
    _line(["---"] * len(names))


def _told(row: Row, name: str) -> list[str]:
    """Measurement, profile and plug-in of a quantity; wrong predictions in bold."""
    measured, high = float(row[f"{name}_measured"]), float(row[f"{name}_high"])
    cells = [f"{measured:.3f} ± {high - measured:.3f}"]
    for by in ("profile", "plug_in"):
        holds = row[f"{name}_holds" if by == "profile" else f"{name}_plug_in_holds"] == "True"
        value = f"{float(row[f'{name}_{by}']):.3f}"
        cells.append(value if holds else f"**{value}**")
    return cells


def prediction(path: str) -> None:
    """Predictions of green rate and KL against fresh texts, and how many of them fail."""
    rows = _rows(path)
    total = 2 * len(rows)
    for by, suffix in (("The profile", "_holds"), ("The plug-in", "_plug_in_holds")):
        missed = sum(row[name + suffix] != "True" for row in rows for name in ("rate", "kl"))
        cog.outl(f"{by} misses {missed} of {total}; perfect predictions would miss about "
                 f"{0.05 * total:.0f} of their 95 % intervals.")  # fmt: skip
    cog.outl("")
    _head(["corpus", "T", "gamma", "delta", "green rate", "profile", "plug-in", "KL", "profile",
           "plug-in"])  # fmt: skip
    for row in rows:
        where = [row[name] for name in ("corpus", "temperature", "gamma", "delta")]
        _line([*where, *_told(row, "rate"), *_told(row, "kl")])


def rivals(path: str) -> None:
    """The profile's plan beside the authors' point and usual settings."""
    _head(["T", "design", "gamma", "delta", "exact size", "TPR", "unmarked found", "KL",
           "efficiency"])  # fmt: skip
    for row in _rows(path):
        _line([
            row["temperature"], row["design"], f"{float(row['gamma']):.4f}",
            f"{float(row['delta']):.2f}", f"{float(row['size']):.3f}", _interval(row, "tpr"),
            _interval(row, "fpr"), f"{float(row['kl_measured']):.4f}",
            f"{float(row['efficiency_measured']):.2f}",
        ])  # fmt: skip


def promises(path: str) -> None:
    """What plans promised and what fresh texts showed."""
    _head(["n", "alpha", "edits", "signal", "gamma", "delta", "power promised", "TPR",
           "unmarked found", "KL promised", "KL"])  # fmt: skip
    for row in _rows(path):
        found = _interval(row, "tpr")
        _line([
            row["n_tokens"], row["alpha"], row["edit_rate"] or "-", row["signal"],
            f"{float(row['gamma']):.4f}", f"{float(row['delta']):.2f}",
            f"{float(row['power']):.3f}", found if row["power_holds"] == "True" else f"**{found}**",
            _interval(row, "fpr"), f"{float(row['kl']):.4f}", f"{float(row['kl_measured']):.4f}",
        ])  # fmt: skip


def _interval(row: Row, name: str) -> str:
    low, high = float(row[f"{name}_low"]), float(row[f"{name}_high"])
    return f"{float(row[name]):.3f} ({low:.3f} to {high:.3f})"


def fragility() -> None:
    """Power after edits that were not planned for: constant and steered, in the flat world."""
    n, alpha, gamma = 50, 0.05, 0.5
    request = {"n_tokens": n, "alpha": alpha, "power": 0.95, "gamma": gamma}
    constant, steered = plan(**request), plan(**request, steer=True)
    schedule = Schedule.from_dict(steered.steering, gamma)
    _head(["tokens rewritten", f"constant, KL {constant.kl:.3f}", f"steered, KL {steered.kl:.3f}"])
    for rate in (0.0, 0.01, 0.02, 0.05):
        edits = Edits(edit_rate=rate)
        plain = evaluate(gamma, constant.delta, n_tokens=n, alpha=alpha, edits=edits)
        goal = Goal.of(gamma, alpha, [n], edits=edits)
        _line(
            [
                f"{rate:.0%}",
                f"{plain.attacked_power:.3f}",
                f"{edited_power(goal, schedule.state_rates[0]):.3f}",
            ]
        )


def beyond() -> None:
    """Power of texts that are a little longer than planned, in the flat world."""
    n, alpha, gamma = 50, 0.05, 0.5
    request = {"n_tokens": n, "alpha": alpha, "power": 0.95, "gamma": gamma}
    constant, steered = plan(**request), plan(**request, steer=True)
    schedule = Schedule.from_dict(steered.steering, gamma)
    _head(["tokens counted", "constant", "steered", "steered, a third of them foreign"])
    for length in (50, 55, 60, 75, 100):
        k = int(critical_count(length, gamma, alpha))
        _line([
            str(length), f"{float(binomial_tail(length, k, constant.gamma_prime)):.3f}",
            f"{schedule.power(length, k):.3f}", f"{schedule.diluted_power(length, k, 1 / 3):.3f}",
        ])  # fmt: skip


def _reach(row: Row, name: str) -> str:
    value = float(row[name])
    return f"{value:.4f} ± {float(row[name + '_high']) - value:.4f}"


def steering(path: str) -> None:
    """Constant and steered plans on fresh texts, and what steering saved."""
    _head(["T", "n", "alpha", "edits", "gamma", "bias", "power promised", "TPR", "unmarked found",
           "KL promised", "KL", "green rate promised", "green rate", "efficiency",
           "saved"])  # fmt: skip
    constant: Row = {}
    for row in _rows(path):
        saved = ""
        if row["bias"] == "constant":
            constant = row
        elif row["bias"] == "steered":
            saved = f"{1.0 - float(row['kl_measured']) / float(constant['kl_measured']):.0%}"
        _line([
            row["temperature"], row["n_tokens"], row["alpha"], row["edit_rate"] or "-",
            f"{float(row['gamma']):.4f}", row["bias"], f"{float(row['power']):.3f}",
            _interval(row, "tpr"), _interval(row, "fpr"), f"{float(row['kl']):.4f}",
            _reach(row, "kl_measured"), f"{float(row['gamma_prime']):.4f}",
            _reach(row, "green_rate"), f"{float(row['efficiency_measured']):.2f}", saved,
        ])  # fmt: skip


def pooled(path: str) -> None:
    """How many texts were found of all that were steered for one power or the other."""
    _head(["steered for power", "texts", "found", "rows that reach .95"])
    steered = [row for row in _rows(path) if row["bias"] == "steered"]
    for power in ("0.95", "0.97"):
        mine = [row for row in steered if f"{float(row['power']):.2f}" == power]
        texts = sum(int(row["tpr_texts"]) for row in mine)
        found = sum(float(row["tpr"]) * int(row["tpr_texts"]) for row in mine) / texts
        reach = sum(float(row["tpr"]) >= 0.95 for row in mine)
        _line([power, f"{texts:,}", f"{found:.3f}", f"{reach} of {len(mine)}"])


def lengths(path: str) -> None:
    """What reports say of steered texts of other lengths, and what was found."""
    _head(["also aims at", "text", "tokens counted", "power, from the report", "found"])
    for row in _rows(path):
        _line([
            row["checkpoint"] or "-", row["text"], f"{float(row['counted']):.0f}",
            f"{float(row['power']):.3f}", _interval(row, "tpr"),
        ])  # fmt: skip


def claims(path: str) -> None:
    """The paper's statements, and what was found."""
    _head(["statement", "the paper", "here", "verdict"])
    for row in _rows(path):
        why = f": {row['why']}" if row["why"] else ""
        cells = [row["statement"], row["paper"], row["ours"], f"**{row['verdict']}**{why}"]
        _line([cell.replace("|", "\\|") for cell in cells])


def survivors(path: str) -> None:
    """Least KL that survives the replacement of a part of a text, as -log KL, by detector."""
    rows = _rows(path)
    shares = [name.rpartition("_")[2] for name in rows[0] if name.startswith("neg_log_kl_")]
    _head(["corpus", "method", "detector", *(f"{float(share):.0%} replaced" for share in shares)])
    for row in rows:
        found = [(row[f"neg_log_kl_{share}"], row[f"kl_{share}"]) for share in shares]
        shown = [f"{float(x):.2f} (KL {float(kl):.3f})" if x else "-" for x, kl in found]
        _line([row["corpus"], row["method"], row["detector"], *shown])


def slopes(path: str) -> None:
    """Fits of green rate and KL: slope and R^2."""
    _head(["temperature", "corpus", "quantity", "predictor", "k", "R²", "R² of y = x"])
    for row in _rows(path):
        numbers = [f"{float(row[name]):.3f}" for name in ("k", "r2", "r2_identity")]
        names = [row[name] for name in ("temperature", "corpus", "quantity", "predictor")]
        _line([*names, *numbers])


def forging(path: str) -> None:
    """Forged texts that are found, by how much marked text was collected for them."""
    rows = _rows(path)
    amounts = list(dict.fromkeys(int(row["collected"]) for row in rows))
    _head(["gamma", "delta", "h", *(f"{amount:,}" for amount in amounts)])
    for first in rows[:: len(amounts)]:
        mark = [first[name] for name in ("gamma", "delta", "context_width")]
        mine = [r for r in rows if [r[n] for n in ("gamma", "delta", "context_width")] == mark]
        _line([*mark, *(_levels(row) for row in mine)])


def washing(path: str) -> None:
    """Marked texts that are still found after edits, by what the editor knows."""
    rows = _rows(path)
    edited = list(dict.fromkeys((r["knows"], r["edits"]) for r in rows if r["edits"] != "0"))
    _head(["gamma", "h", "untouched", *(f"{knows}, {edits}" for knows, edits in edited)])
    for start in range(0, len(rows), 1 + len(edited)):
        mine = rows[start : start + 1 + len(edited)]
        _line([mine[0]["gamma"], mine[0]["context_width"],
               *(f"{float(row['found_0.001']):.2f}" for row in mine)])  # fmt: skip


def asking(path: str) -> None:
    """Queries until a text is accepted, by what the server answers."""
    rows = _rows(path)
    kinds = list(dict.fromkeys(row["answers"] for row in rows))
    _head(["gamma", "h", "alpha", *kinds])
    for start in range(0, len(rows), len(kinds)):
        mine = rows[start : start + len(kinds)]
        _line([mine[0]["gamma"], mine[0]["context_width"], mine[0]["alpha"],
               *(_queries(row) for row in mine)])  # fmt: skip


def _levels(row: Row) -> str:
    return f"{float(row['found_0.01']):.2f} / {float(row['found_0.001']):.2f}"


def _queries(row: Row) -> str:
    middle, low, high = (float(row[f"queries{part}"]) for part in ("", "_low", "_high"))
    spread = "" if low == high else f" ({low:,.0f} to {high:,.0f})"
    failed = "" if row["accepted"] == "1" else f"; {float(row['accepted']):.0%} accepted"
    return f"{middle:,.0f}{spread}{failed}"
