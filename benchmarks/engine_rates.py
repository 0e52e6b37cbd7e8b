"""How often texts of a live server are found, marked and unmarked, against their plans.

    python -m benchmarks.engine_rates --url http://127.0.0.1:8000/v1 \
        --specs specs --key k.key --prompts prompts.jsonl --texts 40

The server has the marks of the folder ``specs``, planned for texts of one length, and allows
``off``. Requests for each mark and for none, as completions and chats, whole, streamed and three at
a time, are under way together in a mixed order. Of each text the planned number of tokens is
counted, from the ids that the server returns and from its text alone; shorter texts are left out.
Chats are not the plan's texts, and are kept from ending early (``min_tokens``); they are shown,
and not judged. Exit code 1 where a promise is broken by more than chance allows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import numpy as np

from powermark.detection.scoring import score
from powermark.detection.text import token_ids_of
from powermark.generation.endpoint import Endpoint
from powermark.generation.prompts import prompts_for
from powermark.measuring.estimates import Estimate, detected, green_counts, mean_per_token
from powermark.measuring.promise import enough, promise_of
from powermark.models import load_tokenizer
from powermark.planning.design import Design
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

OFF = "off"
KINDS = ("completion", "completion, streamed", "completion, n=3", "chat", "chat, streamed")
JUDGED = KINDS[:3]


class Text(NamedTuple):
    """One text: how it was asked for, and what came back."""

    mark: str
    kind: str
    ids: list[int]
    text: str


def request(
    server: Endpoint, mark: str, kind: str, prompt: str, seed: int, n_tokens: int
) -> list[Text]:
    """Ask for the texts of one request."""
    body: dict[str, Any] = {
        "model": server.model,
        "max_tokens": n_tokens,
        "temperature": 1.0,
        "seed": seed,
        "return_token_ids": True,
        "stream": kind.endswith("streamed"),
        "vllm_xargs": {"powermark": mark},
    }
    chat = kind.startswith("chat")
    if chat:
        body |= {"messages": [{"role": "user", "content": prompt}], "min_tokens": n_tokens}
    else:
        body |= {"prompt": prompt, "n": 3 if kind.endswith("n=3") else 1}
    address = f"{server.url}/{'chat/' if chat else ''}completions"
    asked = Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    found: dict[int, Text] = {}
    with urlopen(asked, timeout=server.timeout) as answer:
        for choice in _choices(answer, body["stream"]):
            old = found.get(choice["index"], Text(mark, kind, [], ""))
            said = choice.get("text") or choice.get("message") or choice.get("delta") or ""
            more = said if isinstance(said, str) else said.get("content") or ""
            ids = [*old.ids, *(choice.get("token_ids") or ())]
            found[choice["index"]] = Text(mark, kind, ids, old.text + more)
    return list(found.values())


def _choices(answer: Any, streamed: bool) -> Iterator[dict[str, Any]]:
    if not streamed:
        yield from json.load(answer)["choices"]
        return
    for line in answer:
        if line.startswith(b"data:") and b"[DONE]" not in line:
            yield from json.loads(line[5:])["choices"]


def write(
    server: Endpoint,
    marks: Sequence[str],
    prompts: Sequence[str],
    n_tokens: int,
    *,
    batch: int,
    seed: int = 0,
) -> list[Text]:
    """Return the texts of every mark and kind, asked for in a mixed order."""
    jobs = [
        (mark, kind, prompt, seed + number * len(prompts) + place)  # no text twice
        for number, (mark, kind) in enumerate(product([*marks, OFF], KINDS))
        for place, prompt in enumerate(prompts[:: 3 if kind.endswith("n=3") else 1])
    ]
    order = np.random.default_rng(seed).permutation(len(jobs))
    with ThreadPoolExecutor(batch) as pool:
        found = pool.map(lambda place: request(server, *jobs[place], n_tokens), order)
        return [text for texts in found for text in texts]


class Seeker:
    """Looks for one mark as its plan says."""

    def __init__(self, spec: WatermarkSpec, key: Path, tokenizer: Any) -> None:
        self.promise: Design = promise_of(spec)
        self._scheme = Watermark.load(spec, key).scheme
        self._tokenizer = tokenizer

    def line(self, what: str, texts: Sequence[Text], level: float = 0.95) -> Estimate:
        """Print one line of the table; return the share found by ids, with its interval."""
        n, k = self.promise.n_tokens, self.promise.critical_count
        by_ids = [self._ids(text.ids) for text in texts]
        by_text = [self._ids(token_ids_of(self._tokenizer, text.text)) for text in texts]
        scores = score(self._scheme, by_ids)
        green = mean_per_token([scores.colours(i)[:n] for i in range(scores.texts)])
        cells = []
        for ids in (by_ids, by_text):
            counts = green_counts(self._scheme, ids, n)
            found = detected(counts, k)
            hits = int(np.sum(counts[np.isfinite(counts)] >= k))
            interval = f"{max(found.low, 0.0):.3f} to {min(found.high, 1.0):.3f}"
            cells.append(f"{hits:>4} of {found.texts:<4} {interval}")
        print(f"{what:<34}{green.value:>6.3f}  {cells[0]:<28}{cells[1]}")
        return detected(green_counts(self._scheme, by_ids, n), k, level)

    def _ids(self, ids: Sequence[int]) -> np.ndarray[Any, Any]:
        special = self._tokenizer.all_special_ids
        return np.array([token for token in ids if token not in special], np.int64)


def report(seekers: dict[str, Seeker], texts: Sequence[Text]) -> bool:
    """Print the table; return whether every plan's power and size are kept."""
    level = 1.0 - 0.05 / (2 * len(seekers))  # all checks together
    kept = True
    print(f"{'':<34}{'green':>6}  {'found by ids, 95 %':<28}found by text, 95 %")
    for name, seeker in seekers.items():
        promise = seeker.promise
        print(
            f"{name}: green {promise.gamma_prime:.3f}, power {promise.power:.3f} and size "
            f"{promise.size:.4f} planned at {promise.n_tokens} tokens"
        )
        for kind in KINDS:
            some = [text for text in texts if (text.mark, text.kind) == (name, kind)]
            seeker.line(f"  {kind}", some)
        mine = [text for text in texts if text.mark == name and text.kind in JUDGED]
        kept &= seeker.line("  all completions", mine, level).high >= promise.power
        plain = [text for text in texts if text.mark == OFF]
        kept &= seeker.line("  unmarked, of every kind", plain, level).low <= promise.alpha
        others = [text for text in texts if text.mark not in (name, OFF)]
        if others:
            seeker.line("  marked otherwise", others)
    return kept


def main() -> int:
    """Ask the server and print what was found."""
    parser = argparse.ArgumentParser(description="Detection rates of a live server's texts.")
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--specs", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--skip", type=int, default=0, help="prompts to leave out")
    parser.add_argument("--texts", type=int, default=40, help="of each mark and kind")
    parser.add_argument("--batch", type=int, default=16, help="requests under way")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tokenizer = load_tokenizer()
    specs = {path.stem: WatermarkSpec.load(path) for path in sorted(options.specs.glob("*.json"))}
    seekers = {name: Seeker(spec, options.key, tokenizer) for name, spec in specs.items()}
    longest = max(seeker.promise.n_tokens for seeker in seekers.values())
    given = prompts_for(options.prompts, options.texts, options.skip)
    prompts = [prompt for prompt in given if isinstance(prompt, str)]
    server = Endpoint(options.url, timeout=3600.0)
    server = replace(server, model=server.first_model())
    texts = write(
        server, list(specs), prompts, enough(longest), batch=options.batch, seed=options.seed
    )
    print(f"{len(texts)} texts, asked for together; up to {options.batch} requests under way")
    kept = report(seekers, texts)
    print("every plan is kept" if kept else "A PROMISE IS BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
