"""What marking one row of logits costs, beside what sampling it costs anyway.

Run with ``make bench`` or ``python -m benchmarks.embed``. Promised: one row at V = 50,257 on one
thread costs at most half its softmax, a batch of 8 is at least 25 times faster than transformers'
lefthash, and the cost does not grow with the text. Everything is timed in turn in one run, in
rounds, and the fastest round of each counts: other work on the machine only ever adds time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers.generation.logits_process import WatermarkLogitsProcessor

from powermark.engines import torch as tensors
from powermark.engines.transformers import WatermarkProcessor
from powermark.watermark import hashing, threads
from powermark.watermark.compat import Compat
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.scheme import Pm1
from powermark.watermark.spec import WatermarkSpec

KEY, GAMMA, DELTA = SecretKey(bytes(32)), 0.25, 2.0
ROUNDS, ROUND_SECONDS = 7, 0.05
SOFTMAX_PROMISE, LEFTHASH_PROMISE, HISTORY_PROMISE = 0.5, 25.0, 1.5


class _Ids:
    """Stands for a tokenizer: only its size is asked for here."""

    pad_token_id = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def get_vocab(self) -> dict[str, int]:
        return {}

    def encode(self, *_: object, **__: object) -> list[int]:
        return []


def fastest(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each work's fastest round; the works take turns."""
    best = dict.fromkeys(works, np.inf)
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            times: list[float] = []
            end = time.perf_counter() + ROUND_SECONDS
            while not times or time.perf_counter() < end:
                start = time.perf_counter()
                work()
                times.append(time.perf_counter() - start)
            best[name] = min(best[name], float(np.median(times)))
    return best


def works(vocab_size: int, batch: int, history: int = 64) -> dict[str, Callable[[], object]]:
    """One call marks (or samples) a whole batch."""
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.standard_normal((batch, vocab_size)).astype(np.float32))
    ids = torch.from_numpy(rng.integers(1, vocab_size, (batch, history)))
    contexts, context = ids[:, -1:].numpy(), ids[:, -1:]
    spec = WatermarkSpec(gamma=GAMMA, delta=DELTA, context_width=1, vocab_size=vocab_size)
    scheme = Pm1(KEY, gamma=GAMMA, vocab_size=vocab_size, context_width=1)
    out = np.empty((batch, vocab_size), np.float32)
    mask = torch.from_numpy(scheme.green_masks(contexts))
    tokens = np.arange(vocab_size, dtype=np.uint32)
    hash_key = HashKey()
    compat = Compat("hf-lefthash", hash_key, gamma=GAMMA, vocab_size=vocab_size)

    def reference() -> object:
        seeds = hashing.siphash(KEY.siphash_key, contexts)[:, None]
        green = hashing.mix(seeds, tokens) < scheme.threshold
        return logits.numpy() + np.where(green, np.float32(DELTA), np.float32(0.0))

    def on_tensors() -> object:
        green = tensors.green_masks(scheme, context)
        return logits + torch.where(green, DELTA, 0.0)

    def randperm() -> object:
        generator = torch.Generator()
        return [
            torch.randperm(vocab_size, generator=generator.manual_seed(row)) for row in range(batch)
        ]

    processor = WatermarkProcessor(spec, KEY, _Ids(vocab_size), temperature=1.0)
    theirs = {
        kind: WatermarkLogitsProcessor(
            vocab_size, "cpu", greenlist_ratio=GAMMA, bias=DELTA, seeding_scheme=kind
        )
        for kind in ("lefthash", "selfhash")
    }
    return {
        "softmax of the logits": lambda: torch.softmax(logits, dim=-1),
        "adding a ready mask": lambda: logits + DELTA * mask,
        "torch.randperm per row": randperm,
        "powermark, compiled": lambda: scheme.add_bias(logits.numpy(), contexts, DELTA, out=out),
        "powermark, in generate()": lambda: processor(ids, logits),
        "powermark, tensors on a CPU": on_tensors,
        "powermark, NumPy reference": reference,
        "powermark, hf-lefthash": lambda: compat.add_bias(logits.numpy(), contexts, DELTA, out=out),
        "transformers, lefthash": lambda: theirs["lefthash"](ids, logits),
        "transformers, selfhash": lambda: theirs["selfhash"](ids, logits),
    }


def main() -> None:
    """Print the tables; fail where a promise is broken."""
    broken = []
    for cores in (1, 2):
        torch.set_num_threads(cores)
        threads.THREADS = cores
        for vocab_size in (50_257, 151_936):
            columns = {batch: fastest(works(vocab_size, batch)) for batch in (1, 8, 64)}
            print(f"\n{cores} thread{'s' * (cores > 1)}, V = {vocab_size:,}: µs per row "
                  f"(times the softmax)")  # fmt: skip
            print(f"{'batch':<30}{''.join(f'{batch:>18}' for batch in columns)}")
            for name in columns[1]:
                cells = [
                    f"{1e6 * times[name] / batch:10.1f} "
                    f"({times[name] / times['softmax of the logits']:5.2f})"
                    for batch, times in columns.items()
                ]
                print(f"{name:<30}{''.join(f'{cell:>18}' for cell in cells)}")
            if (cores, vocab_size) == (1, 50_257):
                broken += _promises(columns)
    broken += _history()
    if broken:
        sys.exit("\n".join(broken))


def _promises(columns: dict[int, dict[str, float]]) -> list[str]:
    one, eight = columns[1], columns[8]
    share = one["powermark, compiled"] / one["softmax of the logits"]
    gain = eight["transformers, lefthash"] / eight["powermark, in generate()"]
    print(f"one row over its softmax: {share:.2f} (promised at most {SOFTMAX_PROMISE})")
    print(f"batch 8, times faster than lefthash: {gain:.0f} (at least {LEFTHASH_PROMISE:.0f})")
    return [
        text
        for text, kept in (
            (f"a row costs {share:.2f} of its softmax", share <= SOFTMAX_PROMISE),
            (f"only {gain:.1f} times faster than lefthash", gain >= LEFTHASH_PROMISE),
        )
        if not kept
    ]


def _history() -> list[str]:
    """Compare a short and a long history, in generate()'s processor."""
    lengths = (16, 1_000, 30_000)
    runs = {str(length): works(50_257, 8, length)["powermark, in generate()"] for length in lengths}
    times = fastest(runs)
    growth = times["30000"] / times["16"]
    shown = ", ".join(f"{length} tokens {1e6 * times[length] / 8:.1f}" for length in times)
    print(f"\nhistory, µs per row: {shown}; growth {growth:.2f} (at most {HISTORY_PROMISE})")
    return [] if growth <= HISTORY_PROMISE else [f"cost grows {growth:.2f} times with history"]


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
