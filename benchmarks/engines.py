"""What marking costs inside an engine: the same texts with and without, in turn.

    python -m benchmarks.engines transformers
    python -m benchmarks.engines endpoint --url http://127.0.0.1:8000/v1 --mark NAME
    python -m benchmarks.engines llama-cpp --gguf model.gguf

A round is one batch with the mark and one without, in an order that alternates; the loss of a round
is one minus their ratio. The median over rounds is promised to be 3 % at most; quartiles and range
beside it. Batches are of one length: a text that ends early makes all others faster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from powermark.generation.endpoint import Endpoint
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of

KEY = SecretKey(bytes(range(32)))
PROMISE = 0.03
PROMPT = "The city council met on Tuesday evening to talk about"
Write = Callable[[int, bool], float]  # from (batch, marked) to tokens per second


def spec_for(tokenizer: Any, h: int) -> WatermarkSpec:
    """Return a usual mark for a tokenizer."""
    return WatermarkSpec(
        gamma=0.25,
        delta=2.0,
        context_width=h,
        vocab_size=len(tokenizer),
        tokenizer_digest=digest_of(tokenizer),
    )


def in_transformers(options: argparse.Namespace) -> Write:
    """Batched generate(), float32 on the host."""
    from powermark.engines.transformers import WatermarkConfig
    from powermark.models import load_model

    model = load_model()
    mark = WatermarkConfig(spec_for(model.tokenizer, options.context_width), KEY, model.tokenizer)

    def write(batch: int, marked: bool) -> float:
        begun, steps = time.perf_counter(), count()
        model.complete(
            [PROMPT] * batch,
            n_tokens=options.n_tokens,
            seed=1,
            watermarking_config=mark if marked else None,
            on_step=lambda: next(steps),
        )
        return batch * next(steps) / (time.perf_counter() - begun)

    return write


def in_llama_cpp(options: argparse.Namespace) -> Write:
    """One text after another, on one thread: llama-cpp-python has no batches."""
    from llama_cpp import Llama

    from powermark.engines.llama_cpp import watermark
    from powermark.models import load_tokenizer

    tokenizer = load_tokenizer()
    both = [Llama(options.gguf, n_ctx=512, n_threads=1, verbose=False) for _ in range(2)]
    watermark(both[1], spec_for(tokenizer, options.context_width), KEY, tokenizer=tokenizer)

    def write(batch: int, marked: bool) -> float:
        begun, written = time.perf_counter(), 0
        for seed in range(batch):
            found = both[marked].create_completion(
                PROMPT, max_tokens=options.n_tokens, temperature=1.0, seed=seed
            )
            written += found["usage"]["completion_tokens"]
        return written / (time.perf_counter() - begun)

    return write


def at_endpoint(options: argparse.Namespace) -> Write:
    """A vLLM server whose requests may choose; it must allow ``off``."""
    server = Endpoint(options.url)
    body = {
        "model": server.first_model(),
        "prompt": PROMPT,
        "max_tokens": options.n_tokens,
        "temperature": 1.0,
        "ignore_eos": True,
    }

    def write(batch: int, marked: bool) -> float:
        wish = {"vllm_xargs": {"powermark": options.mark if marked else "off"}}
        requests = [
            Request(
                f"{options.url}/completions",
                json.dumps({**body, **wish, "seed": seed}).encode(),
                {"Content-Type": "application/json"},
            )
            for seed in range(batch)
        ]
        begun = time.perf_counter()
        with ThreadPoolExecutor(batch) as pool:
            found = list(pool.map(_answer, requests))
        took = time.perf_counter() - begun
        return float(sum(answer["usage"]["completion_tokens"] for answer in found) / took)

    return write


def _answer(request: Request) -> Any:
    with urlopen(request, timeout=3600) as answer:
        return json.load(answer)


ENGINES = {"transformers": in_transformers, "llama-cpp": in_llama_cpp, "endpoint": at_endpoint}


def compare(write: Write, batch: int, rounds: int) -> tuple[float, float, list[float]]:
    """Return median speeds, marked and not, and the loss of each round."""
    for marked in (False, True):  # to warm up
        write(batch, marked)
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for one in range(rounds):
        for marked in (True, False) if one % 2 else (False, True):
            speeds[marked].append(write(batch, marked))
    lost = [1.0 - a / b for a, b in zip(speeds[True], speeds[False], strict=True)]
    return float(np.median(speeds[True])), float(np.median(speeds[False])), lost


def main() -> int:
    """Print one line a batch size; exit code 1 where the promise is broken."""
    parser = argparse.ArgumentParser(description="What marking costs inside an engine.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--n-tokens", type=int, default=64)
    parser.add_argument("--context-width", type=int, default=2)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--mark", help="what the endpoint calls it")
    parser.add_argument("--gguf")
    options = parser.parse_args()
    write, kept = ENGINES[options.engine](options), True
    print(f"{options.engine}: tokens/s, {options.n_tokens} tokens a text, {options.rounds} rounds")
    print(f"{'batch':<7}{'marked':>9}{'unmarked':>10}{'lost':>8}   {'quartiles':<18}range")
    for batch in options.batch:
        marked, plain, lost = compare(write, batch, options.rounds)
        least, low, middle, high, most = np.quantile(lost, [0.0, 0.25, 0.5, 0.75, 1.0])
        print(
            f"{batch:<7}{marked:>9.1f}{plain:>10.1f}{middle:>8.1%}   "
            f"{f'{low:.1%} to {high:.1%}':<18}{least:.1%} to {most:.1%}"
        )
        kept &= bool(middle <= PROMISE)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
