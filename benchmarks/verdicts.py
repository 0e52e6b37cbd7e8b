"""How often does ``verify`` say what it should? Deployments whose true power is known.

    python -m benchmarks.verdicts

A plan promises a power of .95 (n = 50, alpha = .05). Texts are drawn whose tokens are green at a
rate that gives a true power of .95, .92, .90 or .86; ``verify`` judges as many of them as it asks
for by default, again and again. Printed: how often each outcome comes, over all checks and for the
power alone.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from scipy import optimize

from powermark import plan
from powermark.generation.writing import Record
from powermark.measuring.promise import promise_of
from powermark.measuring.verify import texts_for, verify
from powermark.tables import table
from powermark.theory.power import binomial_tail
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Scheme
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

POWERS = (0.95, 0.92, 0.90, 0.86)
OUTCOMES = ("kept", "not enough texts", "broken")
VOCAB, POOL, CANDIDATES = 50_000, 20_000, 128
KEY = SecretKey(bytes(range(32)))


def drawn(scheme: Scheme, rate: float, length: int, rng: np.random.Generator) -> np.ndarray:
    """Return texts whose tokens are green at a rate; (POOL, length)."""
    texts = rng.integers(0, VOCAB, (POOL, length))
    h = scheme.context_width
    for t in range(h, length):
        offered = rng.integers(0, VOCAB, (POOL, CANDIDATES)).astype(np.uint32)
        contexts = np.repeat(texts[:, t - h : t], CANDIDATES, axis=0)
        green = scheme.colours(contexts, offered.ravel())[1].reshape(offered.shape)
        wanted = green == (rng.random((POOL, 1)) < rate)
        texts[:, t] = offered[np.arange(POOL), wanted.argmax(axis=1)]
    return texts


def main() -> None:
    """Draw, verify and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    design = plan(n_tokens=50, alpha=0.05, power=0.95)
    spec = WatermarkSpec.from_plan(design, vocab_size=VOCAB)
    promise, n, k = promise_of(spec), design.n_tokens, design.critical_count
    scheme, texts = Watermark(spec, KEY).scheme, texts_for(design)
    rng = np.random.default_rng(given.seed)
    length = n + scheme.context_width
    plain = drawn(scheme, spec.gamma, length, rng)
    rows = [["true power", *OUTCOMES, *(f"power: {outcome}" for outcome in OUTCOMES)]]
    for power in POWERS:
        rate = optimize.brentq(
            lambda r, p=power: float(binomial_tail(n, k, r)) - p, spec.gamma, 1.0 - 1e-9
        )
        marked, seen, alone = drawn(scheme, rate, length, rng), Counter[str](), Counter[str]()
        for _ in range(given.runs):
            some, others = rng.choice(POOL, (2, texts), replace=True)
            records: list[Record] = [
                {"token_ids": ids, "kl": [0.9 * design.kl] * length} for ids in marked[some]
            ]
            unmarked: list[Record] = [{"token_ids": ids} for ids in plain[others]]
            found = verify(Watermark(spec, KEY), promise, records, unmarked)
            check = next(check for check in found.checks if check.name == "power")
            seen[found.outcome] += 1
            alone[check.verdict.lower()] += 1
        shown = [f"{each[name] / given.runs:.2f}" for each in (seen, alone) for name in OUTCOMES]
        rows.append([f"{power:.2f}", *shown])
    print(f"{texts} marked and as many unmarked texts a run, {given.runs} runs")
    print(table(rows, "<"))


if __name__ == "__main__":
    main()
