"""How wrong one key can be: the largest share of unmarked texts that any of some keys calls marked.

``python -m benchmarks.keys --data DATA`` audits prose, a folder of JSON lines with a "text" each,
and every kind of template, with every detector and several context widths, and prints a Markdown
table. Without ``--data`` it audits templates alone. It takes some minutes.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

import numpy as np

from powermark.measuring.audit import ALL, AuditRow, audit
from powermark.measuring.templates import KINDS, templated
from powermark.models import load_tokenizer
from powermark.statistics.calls import DETECTORS
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

ALPHAS = (0.05, 0.01)
GAMMA, DELTA = 0.5, 2.0


def texts_by_kind(data: Path | None, texts: int) -> dict[str, list[str]]:
    """Return human texts by file, and templates by kind."""
    found: dict[str, list[str]] = {}
    for file in sorted(data.glob("*.jsonl")) if data else ():
        with file.open(encoding="utf-8") as lines:
            found[file.stem] = [json.loads(line)["text"] for line in islice(lines, texts)]
    rng = np.random.default_rng(0)
    return found | {kind: templated(kind, texts, rng) for kind in KINDS}


def table(rows: dict[int, tuple[AuditRow, ...]]) -> str:
    """Return the worst keys by kind and detector, from the rows of each context width."""
    cells = {
        (row.kind, row.detector, row.alpha, width): row
        for width, mine in rows.items()
        for row in mine
        if row.kind != ALL
    }
    columns = [(alpha, width) for alpha in ALPHAS for width in rows]
    lines = [
        ["text", "detector", *(f"alpha {alpha:g}, width {width}" for alpha, width in columns)],
        ["---"] * (2 + len(columns)),
    ]
    for kind, detector in dict.fromkeys(cell[:2] for cell in cells):
        worst = [cells[kind, detector, *column].worst_rate for column in columns]
        lines.append([kind, detector, *(f"{share:.3f}" for share in worst)])
    count = next(cell[:2] for cell in cells)
    chance = [cells[*count, *column].chance_worst_rate for column in columns]
    lines.append(["if texts shared nothing", "count", *(f"{share:.3f}" for share in chance)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--length", type=int, default=150)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    tokenizer = load_tokenizer()
    texts = texts_by_kind(given.data, given.texts)
    ids = [tokenizer.encode(text) for some in texts.values() for text in some]
    kinds = [kind for kind, some in texts.items() for _ in some]
    rows = {}
    for width in given.widths:
        rng = np.random.default_rng(1)
        spec = WatermarkSpec(
            gamma=GAMMA, delta=DELTA, context_width=width, vocab_size=len(tokenizer)
        )
        rows[width] = audit(
            Watermark(spec, SecretKey(rng.bytes(32))), ids, rng=rng, lengths=[given.length],
            alphas=ALPHAS, fresh_keys=given.keys - 1, kinds=kinds, detectors=DETECTORS,
        ).rows  # fmt: skip
    print(table(rows))


if __name__ == "__main__":
    main()
