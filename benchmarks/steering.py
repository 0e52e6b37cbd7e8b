"""What steering costs in time: the same texts with a constant and a steered bias, in turn.

Run with ``python -m benchmarks.steering``. A round writes one batch each way, in an order that
alternates; the loss of a round is one minus the ratio of their speeds. Promised: none, within what
the rounds themselves differ by. Then what keeping the count takes in texts of some lengths.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

from powermark import PlugIn, plan
from powermark.engines.transformers import WatermarkConfig
from powermark.models import LanguageModel, load_model
from powermark.steering.goal import Goal
from powermark.steering.recursion import steer
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.tracker import Tracker

PROMPT = "The city council met on Tuesday evening to talk about"


def config_of(model: LanguageModel, n_tokens: int, *, steered: bool) -> WatermarkConfig:
    """Return the mark of a plan for texts of this length."""
    found = plan(n_tokens=n_tokens, alpha=0.05, power=0.95, gamma=0.5, steer=steered)
    spec = WatermarkSpec(
        gamma=found.gamma,
        delta=found.delta,
        context_width=2,
        vocab_size=model.vocab_size,
        tokenizer_digest=model.tokenizer_digest,
        steering=found.steering,
    )
    return WatermarkConfig(spec, SecretKey(bytes(range(32))), model.tokenizer)


def speed(model: LanguageModel, config: Any, batch: int, n_tokens: int) -> float:
    """Return tokens per second of one batch."""
    begun = time.perf_counter()
    found = model.complete([PROMPT] * batch, n_tokens=n_tokens, seed=1, watermarking_config=config)
    return sum(len(text.token_ids) for text in found) / (time.perf_counter() - begun)


def counting(rows: int, n_tokens: int, steps: int = 50) -> float:
    """Return seconds a step that following so many texts takes, from so many tokens on."""
    schedule, _ = steer(Goal.of(0.5, 0.05, [200]), PlugIn(), 0.95)
    scheme = Pm1(SecretKey(bytes(range(32))), gamma=0.5, vocab_size=50_257, context_width=2)
    texts = np.random.default_rng(0).integers(0, 50_257, (rows, n_tokens + steps + 1))
    tracker, took = Tracker(scheme, schedule), []
    for length in (0, *range(n_tokens, n_tokens + steps + 1)):
        ids = np.array(texts[:, :length])  # a new array at every step, as generate() makes
        begun = time.perf_counter()
        tracker.deltas(ids)
        took.append(time.perf_counter() - begun)
    return float(np.median(took[2:]))


def main() -> None:
    """Print the loss of each batch size; fail where it is more than chance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--n-tokens", type=int, default=50)
    given = parser.parse_args()
    model, slower = load_model(), False
    for batch in (1, 16):
        configs = [config_of(model, given.n_tokens, steered=steered) for steered in (False, True)]
        losses = []
        for turn in range(given.rounds + 1):
            order = (0, 1) if turn % 2 else (1, 0)
            speeds = {i: speed(model, configs[i], batch, given.n_tokens) for i in order}
            losses.append(1.0 - speeds[1] / speeds[0])
        low, median, high = np.quantile(losses[1:], [0.25, 0.5, 0.75])  # the first warms up
        print(
            f"batch {batch:2}: steered against constant, loss {median:+.1%} "
            f"(quartiles {low:+.1%} to {high:+.1%}, {given.rounds} rounds)"
        )
        slower |= low > 0.0 and median > 0.01
    for rows in (1, 16, 64):
        times = (f"{n:,} tokens {1e6 * counting(rows, n):.0f}" for n in (100, 1_000, 4_000))
        print(f"the count of {rows:2} texts, µs a step: {', '.join(times)}")
    if slower:
        sys.exit("steering is slower than a constant bias by more than chance")


if __name__ == "__main__":
    main()
