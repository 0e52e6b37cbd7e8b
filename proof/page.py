"""``docs/proof.md``, with its figures and tables, from the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from powermark.files import make_folder, write_file
from powermark.interfaces.cli.files import csv_bytes
from proof import figures, size
from proof.ledger import Entry, Ledger
from proof.scale import ALPHAS, FALSE_ALARM

PARTS = {
    "size": "text without a mark is called marked at most as often as alpha says",
    "promise": "plans keep what they promise on a real model",
    "faults": "nothing is lost, and what goes wrong is said in a sentence",
    "fuzz": "no input ends in a traceback",
    "concurrency": "two processes do not harm each other",
    "secrets": "the key is nowhere but in its file",
}
_SHOWN: dict[str, Any] = {"gamma": 0.5, "length": 200}  # the cell of the table and figure of keys
_INTRO = """\
# The proof

What is promised, tried at lengths that CI has no time for. Everything has a fixed seed; a run that
is killed goes on where it stopped; this page is written by the run itself.

```console
make prove                                                   # all of it
python -m proof size --data data --work work/proof      # one part
```
"""


def write_page(ledger: Ledger, folder: Path, about: dict[str, str]) -> list[str]:
    """Write the page and what it shows; return what is broken."""
    found = {part: ledger.entries(part) for part in PARTS}
    made = make_folder(folder / "proof")
    sections = {part: _SECTIONS[part](entries, made) for part, entries in found.items() if entries}
    broken = [f"{part}: {text}" for part, (_, bad, _) in sections.items() for text in bad]
    rows = [["part", "claim", "tried", "result", "minutes of work"]]
    for part, claim in PARTS.items():
        if part not in sections:
            rows.append([part, claim, "-", "not run", "-"])
            continue
        tried, bad, _ = sections[part]
        minutes = sum(entry.seconds for entry in found[part]) / 60
        result = f"**{len(bad)} broken**" if bad else "holds"
        rows.append([f"[{part}](#{part})", claim, tried, result, f"{minutes:.1f}"])
    told = "\n".join(f"- {name}: {value}" for name, value in about.items())
    texts = [_INTRO, told, _table(rows)]
    texts += [f"## {part}\n\n{text}" for part, (_, _, text) in sections.items()]
    write_file(folder / "proof.md", ("\n\n".join(text.strip() for text in texts) + "\n").encode())
    return broken


Section = tuple[str, list[str], str]  # how much was tried, what is broken, Markdown


def _size(entries: Sequence[Entry], made: Path) -> Section:
    rows = size.table(entries)
    write_file(made / "size.csv", csv_bytes([_rounded(row) for row in rows]))
    write_file(made / "sizes.svg", figures.sizes(rows))
    write_file(made / "keys.svg", figures.keys(rows, **_SHOWN, alpha=0.01))
    bad = [
        f"{row['source']} {row['scheme']} h={row['context_width']} gamma={row['gamma']:g} "
        f"{row['detector']} n={row['length']} alpha={row['alpha']:g}: {row['size']:.2g}"
        for row in rows
        if not row["holds"]
    ]
    limit = math.log(len(rows) / FALSE_ALARM)
    counted = [row for row in rows if row["detector"] == "count" and row["alpha"] == ALPHAS[0]]
    texts = sum(row["texts"] for row in counted)
    summary = [["detector", "text", *(f"alpha {alpha:g}" for alpha in ALPHAS), "texts", "evidence"]]
    for detector in size.DETECTORS:
        for kind in (size.SIMULATED, "human"):
            mine = [
                row
                for row in figures.chosen(rows, detector=detector)
                if (row["source"] == size.SIMULATED) == (kind == size.SIMULATED)
            ]
            if mine:
                cells = [_pooled(figures.chosen(mine, alpha=alpha)) for alpha in ALPHAS]
                count = sum(row["texts"] for row in figures.chosen(mine, alpha=ALPHAS[0]))
                most = max(row["log_evidence"] for row in mine)
                summary.append([detector, kind, *cells, f"{count:,}", f"{most:.1f}"])
    spread = [["dataset", "context_width", "texts", "keys", "mean", "median key", "95 % of keys",
               "worst key"]]  # fmt: skip
    for name in size.DATASETS:
        wanted = {"source": name, "scheme": "pm1", "alpha": 0.01, **_SHOWN}
        for row in figures.chosen(rows, **wanted, detector="count"):
            shares = [f"{row[k]:.4f}" for k in ("size", "median_key", "p95_key", "worst_key")]
            spread.append([name, f"{row['context_width']}", f"{row['texts'] // row['keys']}",
                           f"{row['keys']}", *shares])  # fmt: skip
    text = f"""\
{len(rows):,} comparisons: every detector, scheme (pm1 at each context width, and those of other
tools), green share, length and alpha, on random tokens and on each human dataset. A text is taken
up to its first so many tokens that count. Under every key texts are coloured anew by the real
scheme; keys are drawn from the seeds 0, 1, 2, ... Other tools' schemes are on a tokenizer of
{size.SMALL_VOCABULARY:,} tokens and on fewer texts: they draw a permutation for every list.

**False alarms.** Keys, not texts, are independent. The evidence against "at most alpha" is an
e-value over keys, valid whatever the spread (`proof/size.py`); a size counts as above its alpha
where its logarithm reaches {limit:.1f} = log({len(rows):,} / {FALSE_ALARM:g}). So an honest proof
raises a false alarm with a probability of at most {FALSE_ALARM:.0%}, all comparisons together.
WinMax and WinMax-C also rest on simulated tables, each of which may be too lenient in one case in
a thousand.

Sizes pooled over all cells; *evidence* is the most that any cell has against its alpha:

{_table(summary)}

![sizes over their alpha](proof/sizes.svg)

Each point is a cell; all of them with intervals are in [size.csv](proof/size.csv).

**Under one key** the rate differs from alpha, the more so the narrower the context: texts share
word pairs, and a key fixes their colours once and for all. Count, gamma {_SHOWN["gamma"]},
{_SHOWN["length"]} tokens, alpha .01:

{_table(spread)}

![spread over keys](proof/keys.svg)
"""
    return f"{texts:,} texts by the count, {len(rows):,} comparisons", bad, text


def _pooled(rows: Sequence[dict[str, Any]]) -> str:
    return f"{sum(row['rejected'] for row in rows) / sum(row['texts'] for row in rows):.3g}"


def _promise(entries: Sequence[Entry], made: Path) -> Section:
    rows = []
    for entry in entries:
        for check in entry.found["checks"]:
            seen = check["measured"]
            rows.append(
                {"plan": entry.name, "check": check["name"], "promised": check["promised"]}
                | {"measured": seen["value"], "low": seen["low"], "high": seen["high"]}
                | {"texts": seen["texts"], "holds": check["holds"]}
            )
    write_file(made / "promise.csv", csv_bytes(rows))
    write_file(made / "promises.svg", figures.promises(rows))
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
counted tokens, alpha, edit rate, temperature and kind of bias. Intervals are so wide that all
plans together raise a false alarm with a probability of at most {FALSE_ALARM:.0%}; *unknown* is
what so few texts cannot tell.

{_table(shown)}

![power, promised and measured](proof/promises.svg)
"""
    return f"{len(entries)} plans, {len(rows)} checks", bad, text


def _scenarios(entries: Sequence[Entry], made: Path) -> Section:
    """Faults and concurrency."""
    del made
    shown = [["scenario", "trials", "lost", "tracebacks", "last words"]]
    bad, trials = [], 0
    for entry in entries:
        found = entry.found
        numbers = [f"{found[name]}" for name in ("trials", "lost", "tracebacks")]
        shown.append([entry.name, *numbers, found["said"].replace("|", "\\|")])
        trials += found["trials"]
        if found["lost"] or found["tracebacks"]:
            bad.append(entry.name)
    return f"{len(entries)} scenarios, {trials:,} trials", bad, _table(shown)


def _fuzz(entries: Sequence[Entry], made: Path) -> Section:
    del made
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
    text = "Drawn by Hypothesis, seeds 0, 1000, 2000, ..., one for each block of 1,000.\n\n"
    return f"{total:,} inputs", bad, text + _table(shown)


def _secrets(entries: Sequence[Entry], made: Path) -> Section:
    del made
    found = entries[-1].found
    bad = list(found["where"])
    if found["found"] < found["planted"]:
        bad.append("the search misses what is there")
    text = (
        f"A canary key was in the environment of every child and in the key file of every command "
        f"above. It was searched in {found['forms']} forms (bytes, hexadecimal, base64, base32, "
        f"numbers, in parts, and the SipHash key that follows from it) in {found['files']:,} "
        f"files, {found['bytes']:,} bytes, compressed ones opened: {found['hits']} hits. Planted, "
        f"{found['found']} of {found['planted']} forms are found."
    )
    return f"{found['files']:,} files", bad, text


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def _table(rows: Sequence[Iterable[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * lines[0].count(" | ") + " --- |", *lines[1:]])


_SECTIONS = {
    "size": _size,
    "promise": _promise,
    "faults": _scenarios,
    "fuzz": _fuzz,
    "concurrency": _scenarios,
    "secrets": _secrets,
}
