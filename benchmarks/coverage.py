"""How often a scan's interval covers the truth on templated text, where no document is marked.

``python -m benchmarks.coverage --keys 200 --documents 300`` scans each corpus under so many fresh
keys: templates of every kind, halves of a kind and of prose, and all kinds together. Printed are
the scans whose interval covers 0, by ``share_low`` and ``share_at_least``, beside those that would
if every document were independent of the others (as before copies were merged), and the largest
share that was wrongly said to be marked. Promised: 95 %. Prose is read from ``--data``, a folder of
JSON lines with a "text" each; without it prose is drawn from Zipf's law.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from powermark.corpus.job import ScanJob
from powermark.corpus.scan import scan
from powermark.detection.text import flat_ids
from powermark.measuring.templates import KINDS, templated
from powermark.models import load_tokenizer
from powermark.statistics.p_values import green_rate_interval
from powermark.watermark.spec import WatermarkSpec

LEVEL = 0.95
GAMMA, DELTA = 0.5, 2.0


def prose(data: Path | None, documents: int, rng: np.random.Generator) -> list[str]:
    """Return human texts, or words drawn from Zipf's law."""
    if data is None:
        lengths = rng.integers(150, 400, documents)
        return [" ".join(f"w{word}" for word in rng.zipf(1.2, n) % 50_000) for n in lengths]
    lines = [line for file in sorted(data.glob("*.jsonl")) for line in file.open(encoding="utf-8")]
    return [json.loads(lines[i])["text"] for i in rng.permutation(len(lines))[:documents]]


def corpora(data: Path | None, documents: int) -> Iterator[tuple[str, list[str]]]:
    """Yield texts without a mark: one kind, half of a kind, all kinds; and prose alone."""
    rng = np.random.default_rng(0)
    for kind in KINDS:
        yield kind, templated(kind, documents, rng)
    yield "prose", prose(data, documents, rng)
    half = documents // 2
    for kind in KINDS:
        yield f"{kind} + prose", templated(kind, half, rng) + prose(data, half, rng)
    part = documents // (len(KINDS) + 1)
    yield (
        "all + prose",
        [t for kind in KINDS for t in templated(kind, part, rng)] + prose(data, part, rng),
    )


def write_ids(path: Path, texts: list[str], tokenizer: Any) -> None:
    """Write the token ids of texts, so that they are tokenised once for all keys."""
    ids, offsets = flat_ids(tokenizer, texts)
    column = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
    pq.write_table(pa.table({"token_ids": column}), path)


def measure(path: Path, folder: Path, keys: int, **given: Any) -> dict[str, float]:
    """Scan a corpus under fresh keys; return the shares of scans that cover 0."""
    covered = {"before": 0, "share_low": 0, "share_at_least": 0}
    largest, found = 0.0, {}
    for number in range(keys):
        key = folder / "mark.key"
        secret = np.random.default_rng([number, 11]).bytes(32)
        key.unlink(missing_ok=True)
        key.write_text(f"powermark-key-1:{secret.hex()}\n")  # no secret: equal every time
        key.chmod(0o600)
        job = ScanJob(keys=(str(key),), field="token_ids", **given)
        output = folder / f"{path.stem}-{number}"
        found = scan([str(path)], job, str(output), workers=1)["marks"][0]
        covered["share_low"] += not found["share_low"]
        covered["share_at_least"] += found["share_at_least"] == 0.0
        largest = max(largest, found["share_at_least"])
        covered["before"] += _independent(next(output.glob("part-*")), found)
    numbers = {name: count / keys for name, count in covered.items()}
    return {**numbers, "largest": largest, "distinct": found["distinct"],
            "effective": found["effective"]}  # fmt: skip


def _independent(rows: Path, found: dict[str, Any]) -> bool:
    """Whether the interval would cover 0 that takes all documents for independent."""
    size = float(np.mean(pq.read_table(rows, columns=["size"])["size"].to_numpy()))
    calls = found["verdicts"]["watermarked"]
    return bool(green_rate_interval(calls, found["documents"])[0] <= size)


def main() -> None:
    """Print the table; fail where an interval covers too seldom, as far as so few keys can tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--documents", type=int, default=140)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--widths", type=int, nargs="+", default=[2])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.05, 0.01])
    parser.add_argument("--detector", default="count")
    given = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = load_tokenizer()
    broken = []
    print(f"{'corpus':<18}{'width':>6}{'alpha':>7}{'before':>8}{'low':>7}{'at least':>10}"
          f"{'largest':>9}{'distinct':>10}{'effective':>11}")  # fmt: skip
    for name, texts in corpora(given.data, given.documents):
        for width in given.widths:
            for alpha in given.alphas:
                with tempfile.TemporaryDirectory() as place:
                    folder = Path(place)
                    write_ids(folder / "corpus.parquet", texts, tokenizer)
                    spec = WatermarkSpec(
                        gamma=GAMMA, delta=DELTA, context_width=width, vocab_size=len(tokenizer)
                    )
                    row = measure(
                        folder / "corpus.parquet", folder, given.keys,
                        specs=(spec,), alpha=alpha, detector=given.detector,
                    )  # fmt: skip
                print(f"{name:<18}{width:>6}{alpha:>7g}{row['before']:>8.3f}{row['share_low']:>7.3f}"
                      f"{row['share_at_least']:>10.3f}{row['largest']:>9.3f}{row['distinct']:>10}"
                      f"{row['effective']:>11.1f}", flush=True)  # fmt: skip
                least = min(row["share_low"], row["share_at_least"])
                if green_rate_interval(round(least * given.keys), given.keys)[1] < LEVEL:
                    broken.append(f"{name}, width {width}, alpha {alpha:g}: {least:.3f}")
    if broken:
        sys.exit("the interval covers too seldom: " + "; ".join(broken))


if __name__ == "__main__":
    main()
