"""How much marked text, or how many queries, it takes to forge a mark or to wash it out.

``python -m benchmarks.stealing --data DIR`` reads the ``*.jsonl`` of a folder (records with a
``text``) and writes ``stealing-collect.csv``, ``stealing-wash.csv``, ``stealing-ask.csv`` and
``stealing.svg``. Counts of tokens and queries depend on the seed alone, not on the machine.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.stealing.collector import Row, forging, washing
from benchmarks.stealing.figure import draw_forging
from benchmarks.stealing.language import Language, read_language
from benchmarks.stealing.marks import ALPHAS, LENGTH, make_mark, planned_delta
from benchmarks.stealing.oracle import asking
from powermark.files import write_file
from powermark.interfaces.cli.files import csv_bytes
from powermark.models import load_tokenizer
from powermark.plotting.canvas import render
from powermark.watermark.keys import SecretKey

WIDTHS, GAMMAS = (1, 2, 4), (0.5, 0.9)
AMOUNTS = [1_000, 10_000, 100_000, 1_000_000, 4_000_000]
STRONG = (0.5, 4.0)  # gamma and delta of a mark twice as strong as it need be


def collected_and_washed(
    language: Language, amounts: list[int], texts: int, seed: int
) -> tuple[list[Row], list[Row]]:
    """Return what forgers and washers reach who collect marked text."""
    rng = np.random.default_rng([seed, 0])
    planned = [(gamma, planned_delta(language, gamma, rng)) for gamma in GAMMAS]
    forged: list[Row] = []
    washed: list[Row] = []
    for gamma, delta in (*planned, STRONG):
        for h in WIDTHS:
            mark = make_mark(language, SecretKey(rng.bytes(32)), gamma, delta, h)
            collected = language.write(max(amounts) // LENGTH, LENGTH, mark.parts, rng)
            forged += forging(language, mark, collected, amounts, texts, rng)
            if (gamma, delta) != STRONG:
                washed += washing(language, mark, collected, texts, rng)
            print(f"gamma {gamma:g}, delta {delta:g}, h {h}: {forged[-1]}", flush=True)
    return forged, washed


def asked(language: Language, runs: int, seed: int) -> list[Row]:
    """Return what the server's answers are worth."""
    rows: list[Row] = []
    for part, (gamma, h, alpha) in enumerate(product(GAMMAS, WIDTHS, ALPHAS), 1):
        rng = np.random.default_rng([seed, part])
        rows += asking(language, gamma, alpha, h, runs, rng)
        print(f"gamma {gamma:g}, h {h}, alpha {alpha:g}: asked", flush=True)
    return rows


def main() -> None:
    """Measure, and write tables and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/figures"))
    parser.add_argument("--amounts", type=int, nargs="+", default=AMOUNTS, help="marked tokens")
    parser.add_argument("--texts", type=int, default=100, help="of 200 tokens, for each row")
    parser.add_argument("--runs", type=int, default=5, help="of each attack on the server")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    language = read_language(given.data, load_tokenizer())
    forged, washed = collected_and_washed(language, given.amounts, given.texts, given.seed)
    picture = given.output / "stealing.svg"
    write_file(picture, render(draw_forging(forged, min(ALPHAS)), picture))
    for name, rows in (("collect", forged), ("wash", washed)):
        write_file(given.output / f"stealing-{name}.csv", csv_bytes(rows))
    rows = asked(language, given.runs, given.seed)
    write_file(given.output / "stealing-ask.csv", csv_bytes(rows))
    print(f"{time.process_time():.0f} s of processor time")


if __name__ == "__main__":
    main()
