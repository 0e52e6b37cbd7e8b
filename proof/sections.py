"""The sections of ``docs/proof.md``: what each part tried, what is broken, and its text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from powermark.files import make_folder, write_file
from powermark.interfaces.cli.files import csv_bytes
from powermark.measuring.templates import KINDS
from powermark.statistics.calls import DETECTORS
from proof import figures, size
from proof.ledger import Entry
from proof.plain import DONE, LOST
from proof.scale import ALPHAS, FALSE_ALARM

_SHOWN: dict[str, Any] = {"gamma": 0.5, "n_tokens": 200}  # the cell of the table and figure of keys


class Section(NamedTuple):
    """How much was tried, what is broken, Markdown, and whether anything is known."""

    tried: str
    broken: list[str]
    text: str
    known: bool = True


def _size(entries: Sequence[Entry], folder: Path) -> Section:
    rows = size.table(entries)
    write_file(_tables(folder) / "size.csv", csv_bytes([_rounded(row) for row in rows]))
    limit = math.log(len(rows) / FALSE_ALARM)
    write_file(_pictures(folder) / "proof-sizes.svg", figures.sizes(rows, limit))
    write_file(_pictures(folder) / "proof-keys.svg", figures.keys(rows, **_SHOWN, alpha=0.01))
    bad = [
        f"{row['source']} {row['scheme']} h={row['context_width']} gamma={row['gamma']:g} "
        f"{row['detector']} n={row['n_tokens']} alpha={row['alpha']:g}: {row['size']:.2g}"
        for row in rows
        if not row["holds"]
    ]
    counted = [row for row in rows if row["detector"] == "count" and row["alpha"] == ALPHAS[0]]
    texts = sum(row["texts"] for row in counted)
    summary = [["detector", "text", *(f"alpha {alpha:g}" for alpha in ALPHAS), "texts", "evidence"]]
    for detector in DETECTORS:
        for kind in size.TEXTS:
            mine = [
                row
                for row in figures.chosen(rows, detector=detector)
                if size.text_of(row["source"]) == kind
            ]
            if mine:
                cells = [_pooled(figures.chosen(mine, alpha=alpha)) for alpha in ALPHAS]
                count = sum(row["texts"] for row in figures.chosen(mine, alpha=ALPHAS[0]))
                most = max(row["log_evidence"] for row in mine)
                summary.append([detector, kind, *cells, f"{count:,}", f"{most:.1f}"])
    spread = [["text", "context_width", "texts", "keys", "mean", "median key", "95 % of keys",
               "worst key"]]  # fmt: skip
    for name in (*size.DATASETS, *KINDS):
        wanted = {"source": name, "scheme": "pm1", "alpha": 0.01, **_SHOWN}
        for row in figures.chosen(rows, **wanted, detector="count"):
            shares = [f"{row[k]:.4f}" for k in ("size", "median_key", "p95_key", "worst_key")]
            spread.append([name, f"{row['context_width']}", f"{row['texts'] // row['keys']}",
                           f"{row['keys']}", *shares])  # fmt: skip
    text = f"""\
{len(rows):,} comparisons: every detector, scheme (pm1 at each context width, and those of other
tools), green share, length and alpha, on random tokens, on each human dataset and, under pm1,
on each kind of templated text (`powermark.measuring.templates`). A text is taken up to its first
so many tokens that count. Under every key texts are coloured anew by the real scheme; keys are
drawn from the seeds 0, 1, 2, ...{_cost(entries)}

**False alarms.** Keys, not texts, are independent. The evidence against "at most alpha" is an
e-value over keys, valid whatever the spread (`proof/size.py`); a size counts as above its alpha
where its logarithm reaches {limit:.1f} = log({len(rows):,} / {FALSE_ALARM:g}). So an honest proof
raises a false alarm with a probability of at most {FALSE_ALARM:.0%}, all comparisons together.
WinMax and WinMax-C also rest on simulated tables, each of which may be too lenient in one case in
a thousand.

Sizes pooled over all cells; *evidence* is the most that any cell has against its alpha:

{markdown(summary)}

![Size over alpha, and the evidence against it, by detector and alpha](figures/proof-sizes.svg)

Each point is a cell, at the edge where it is above three alphas; the line below is {limit:.1f}. All
of them with intervals are in [size.csv](proof/size.csv).{_thin(entries)}

**Under one key** the rate differs from alpha, the more so the narrower the context: texts share
word pairs, and a key fixes their colours once and for all. Texts from one template share most of
their n-grams at any width: a key calls nearly all of them marked or nearly none. Count, gamma
{_SHOWN["gamma"]}, {_SHOWN["n_tokens"]} tokens, alpha .01:

{markdown(spread)}

![Human texts called marked, by context width: the mean key to the worst](figures/proof-keys.svg)
"""
    return Section(f"{texts:,} texts by the count, {len(rows):,} comparisons", bad, text)


def _cost(entries: Sequence[Entry]) -> str:
    """Say why other tools' schemes have fewer texts, from the times that were taken."""
    ours, theirs = (size.simulated(entries, ours=mine) for mine in (True, False))
    if ours is None or theirs is None:
        return ""
    hours = theirs.cells * ours.texts * theirs.seconds / 3600
    return f"""

**Other tools' schemes** are on a tokenizer of {size.SMALL_VOCABULARY:,} tokens and have
{theirs.texts:,} simulated texts a cell where pm1 has {ours.texts:,}: they draw a permutation of the
vocabulary for every list. A text took {1e3 * theirs.seconds:.2f} ms of one core, under pm1
{1e3 * ours.seconds:.2f} ms; as many texts as pm1's in each of their {theirs.cells} cells would take
{hours:.0f} hours of it."""


def _thin(entries: Sequence[Entry]) -> str:
    """List the cells with few texts, which prove little, and those with none."""
    shown = [["text", "n_tokens", "scheme", "context_width", "fewest texts under a key"]]
    for row in size.thin(entries):
        texts = f"{row['texts']}" if row["texts"] else "none: not compared"
        names = [f"{row[name]}" for name in ("source", "n_tokens", "scheme", "context_width")]
        shown.append([*names, texts])
    if len(shown) == 1:
        return ""
    return f"""

**Few texts.** Under some key these cells have fewer than {size.FEW} texts with so many tokens that
count, and say little about the spread over keys:

{markdown(shown)}"""


def _pooled(rows: Sequence[dict[str, Any]]) -> str:
    return f"{sum(row['rejected'] for row in rows) / sum(row['texts'] for row in rows):.3g}"


def _promise(entries: Sequence[Entry], folder: Path) -> Section:
    rows = []
    for entry in entries:
        for check in entry.found["checks"]:
            seen = check["measured"]
            rows.append(
                {"plan": entry.name, "check": check["name"], "promised": check["promised"]}
                | {"measured": seen["value"], "low": seen["low"], "high": seen["high"]}
                | {"texts": seen["texts"], "holds": check["holds"]}
            )
    write_file(_tables(folder) / "promise.csv", csv_bytes(rows))
    write_file(_pictures(folder) / "proof-promises.svg", figures.promises(rows))
    words = {True: "kept", False: "**BROKEN**", None: "unknown"}
    shown = [["plan", "check", "promised", "measured", "interval", "texts", ""]]
    for row in rows:
        numbers = ["-", "-"]
        if None not in (row["measured"], row["low"], row["high"]):
            numbers = [f"{row['measured']:.4f}", f"{row['low']:.4f} to {row['high']:.4f}"]
        start = [row["plan"], row["check"], f"{row['promised']:.4f}"]
        shown.append([*start, *numbers, f"{row['texts']}", words[row["holds"]]])
    bad = [f"{row['plan']}: {row['check']}" for row in rows if row["holds"] is False]
    settings = entries[0].settings
    text = f"""\
`verify` on {settings["model"]}: each plan is made with a profile of {settings["profiled"]} texts
and verified on {settings["texts"]} others of its own, and as many without a mark. A name says
counted tokens, alpha, edit rate, share of the text removed, temperature, and whether the bias is
constant, steered, or planned for WinMax-C, whose own powers are then compared. *Unknown* is what so
few texts cannot tell.

**False alarms.** Intervals are so wide that all plans together raise a false alarm with a
probability of at most {FALSE_ALARM:.0%}, if texts under one key are independent. At context width 2
they nearly are; how far they are not is measured under [size](#size). Each plan has a key of its
own. Prompts are the same for all plans, and plans of one length and temperature share the texts
without a mark; the bound allows for that.

{markdown(shown)}

![Power, promised and measured, whole texts and edited ones](figures/proof-promises.svg)
"""
    unknown = sum(row["holds"] is None for row in rows)
    tried = f"{len(entries)} plans, {len(rows)} checks" + (f", {unknown} unknown" * bool(unknown))
    return Section(tried, bad, text, known=unknown < len(rows))


def _faults(entries: Sequence[Entry], folder: Path) -> Section:
    del folder
    return _scenarios(entries, LOST["faults"])


def _concurrency(entries: Sequence[Entry], folder: Path) -> Section:
    del folder
    return _scenarios(entries, LOST["concurrency"])


def _scenarios(entries: Sequence[Entry], lost: str) -> Section:
    """Return what happened in each scenario, below what it means to lose something."""
    shown = [["scenario", "what is done", "trials", "lost", "tracebacks", "last words"]]
    bad, trials = [], 0
    for entry in entries:
        found = entry.found
        numbers = [f"{found[name]}" for name in ("trials", "lost", "tracebacks")]
        said = found["said"].replace("|", "\\|")
        shown.append([entry.name, DONE.get(entry.name, "-"), *numbers, said])
        trials += found["trials"]
        if found["lost"] or found["tracebacks"]:
            bad.append(entry.name)
    tried = f"{len(entries)} scenarios, {trials:,} trials"
    return Section(tried, bad, f"{lost}\n\n{markdown(shown)}")


def _fuzz(entries: Sequence[Entry], folder: Path) -> Section:
    del folder
    sums: dict[str, list[int]] = {}
    bad = []
    for entry in entries:
        numbers = [entry.found[name] for name in ("tried", "accepted", "tracebacks")]
        old = sums.get(entry.settings["target"], [0, 0, 0])
        sums[entry.settings["target"]] = [a + b for a, b in zip(old, numbers, strict=True)]
        bad += [f"{entry.name}: {one['input']}" for one in entry.found["broken"]]
    shown = [["inputs", "tried", "accepted", "refused in a sentence", "tracebacks"]]
    for target, (tried, accepted, tracebacks) in sums.items():
        refused = tried - accepted - tracebacks
        shown.append([target, *(f"{n:,}" for n in (tried, accepted, refused, tracebacks))])
    total = sum(numbers[0] for numbers in sums.values())
    text = (
        "Files, arguments, requests, token ids and texts: most are almost right, some nonsense. "
        "Each must be accepted, or refused in a sentence. Drawn by Hypothesis, seeds 0, 1000, "
        "2000, ..., one for each block of 1,000.\n\n"
    )
    return Section(f"{total:,} inputs", bad, text + markdown(shown))


def _secrets(entries: Sequence[Entry], folder: Path) -> Section:
    del folder
    found = entries[-1].found
    bad = list(found["where"])
    if found["found"] < found["planted"]:
        bad.append("the search misses what is there")
    text = (
        f"A canary key was in the environment of every child and in the key file of every command "
        f"above. It was searched in {found['forms']} forms (bytes, hexadecimal, base64, base32, "
        f"numbers, in parts, and the SipHash key that follows from it) in {found['files']:,} "
        f"files, {found['bytes']:,} bytes, compressed ones opened: {found['hits']} hits. Planted "
        f"in logs, archives, tables, reports and JSON, it is found in {found['found']} of "
        f"{found['planted']} cases."
    )
    return Section(f"{found['files']:,} files", bad, text)


def _tables(folder: Path) -> Path:
    return make_folder(folder / "proof")


def _pictures(folder: Path) -> Path:
    """Return where the gallery looks."""
    return make_folder(folder / "figures")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def markdown(rows: Sequence[Iterable[str]]) -> str:
    """Return rows as a table, the first as its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * lines[0].count(" | ") + " --- |", *lines[1:]])


SECTIONS = {
    "size": _size,
    "promise": _promise,
    "faults": _faults,
    "fuzz": _fuzz,
    "concurrency": _concurrency,
    "secrets": _secrets,
}
