"""A profile of the model behind a live server, from the likeliest tokens that it reports.

Nothing of the model is needed here but its tokenizer. A server like vLLM reports the probabilities
of the K likeliest tokens before temperature and mark, hence the mass m of all others too. These are
taken to fall off like a power of their rank, ``p_K (rank / K)^-a``, with the a that has mass m:

    a = 1 + K p_K / m,    sum of their powers s:  p_K^s K / (a s - 1).

It is all that temperature and the variance of the green mass ask of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from powermark.calibration.profile import Profile
from powermark.checks import Array, count
from powermark.errors import EngineProblem, InvalidInput
from powermark.evaluation.endpoint import Endpoint, body_of, without_end
from powermark.evaluation.profile import Mark, Part, gather, part_of
from powermark.evaluation.writing import Sampling, batch_seed, digest_of_prompts
from powermark.integrations.settings import OFF
from powermark.version import __version__
from powermark.watermark.spec import WatermarkSpec, digest_of

HEAD = 20  # likeliest tokens asked for: what vLLM allows unless told otherwise
_LEAST = 1e-12  # probability that is as good as none
_PLAIN = 2  # unmarked texts to each text under a mark


def profile_endpoint(
    endpoint: Endpoint,
    prompts: Sequence[str],
    sampling: Sampling,
    tokenizer: Any,
    *,
    model: str,
    marks: dict[str, WatermarkSpec] | None = None,
    head: int = HEAD,
    seed: int = 0,
    batch: int = 16,
    so_far: Path | None = None,
    on_text: Callable[[], object] = lambda: None,
) -> Profile:
    """Let a server write, and keep a sample of what it chose from.

    Parameters
    ----------
    model
        What the profile is to call the model; specs are planned for it by this name.
    marks
        Marks that the server has, by name: a third of the texts is written under them, so that the
        profile knows how marked text goes on. The others ask for none; without marks the server's
        own choice is taken, which must be none.
    head
        How many of the likeliest tokens to ask for at each step.
    so_far
        As in :func:`~powermark.evaluation.profile.record_profile`.
    """
    count("batch", batch)
    _check(sampling, head, marks or {})
    dealt = _dealt(marks or {})
    about = {
        "model": model,
        "tokenizer_digest": digest_of(tokenizer),
        "vocab_size": len(tokenizer),
        **dataclasses.asdict(sampling),
        "seed": seed,
        "batch": batch,
        "prompts": digest_of_prompts(prompts),
        "marks": {name: spec.digest for name, spec in (marks or {}).items()},
        "made_by": f"powermark {__version__}, of a server's {head} likeliest tokens",
    }
    settings = {
        "model": endpoint.first_model(),
        "logprobs": head,
        "return_tokens_as_token_ids": True,
    }

    def one(number: int, prompt: str) -> Part:
        mark = dealt[number % len(dealt)][0]
        asked = body_of(prompt, sampling, batch_seed(seed, number), mark if marks else None)
        asked |= settings
        ids, raw = _steps(endpoint, asked, head)
        on_text()
        return part_of(number, as_sampled(raw, sampling), without_end(tokenizer, ids))

    def write(first: int, some: Sequence[str]) -> list[Part]:
        return list(pool.map(one, range(first, first + len(some)), some))

    def mark_of(text: int) -> Mark:
        return dealt[text % len(dealt)][1]

    with ThreadPoolExecutor(batch) as pool:
        return gather(write, prompts, batch=batch, about=about, so_far=so_far, mark_of=mark_of)


def as_sampled(raw: Array, sampling: Sampling) -> Part:
    """Return head, tail mass and tail square of what is sampled from.

    Parameters
    ----------
    raw
        (steps, K) the largest probabilities of the model itself, descending. Temperature, top-k and
        top-p act on them in this order. Where top-p ends among the others, of their squares the
        same share is kept as of their mass.
    """
    s, k = 1.0 / sampling.temperature, raw.shape[1]
    least = np.maximum(raw[:, -1:], _LEAST)
    mass = np.maximum(1.0 - raw.sum(axis=1, keepdims=True), _LEAST)
    fall = 1.0 + k * least / mass
    head = raw**s
    rest, square = (least**power * k / (fall * power - 1.0) for power in (s, 2.0 * s))
    if sampling.top_k:
        head, rest, square = head[:, : sampling.top_k], 0.0 * rest, 0.0 * square
    whole = head.sum(axis=1, keepdims=True) + rest
    head, rest, square = head / whole, rest / whole, square / whole**2
    before = np.cumsum(head, axis=1) - head
    head = np.where(before < sampling.top_p, head, 0.0)
    kept = np.clip(sampling.top_p - head.sum(axis=1, keepdims=True), 0.0, rest)
    square = np.where(kept < rest, square * kept / np.maximum(rest, _LEAST), square)
    whole = head.sum(axis=1, keepdims=True) + kept
    found = head / whole, (kept / whole)[:, 0], (square / whole**2)[:, 0]
    return tuple(part.astype(np.float32) for part in found)


def _check(sampling: Sampling, head: int, marks: dict[str, WatermarkSpec]) -> None:
    count("head", head)
    if sampling.temperature > 1.0:
        raise InvalidInput(
            "a server's likeliest tokens tell too little above temperature 1.",
            hint="profile the model itself: leave --endpoint out.",
        )
    if sampling.top_k > head:
        raise InvalidInput(f"top_k must be at most the {head} tokens asked for.")
    for name, spec in marks.items():
        if spec.schedule is not None:
            raise InvalidInput(f"the spec {name!r} is steered and has no one strength.")


def _dealt(marks: dict[str, WatermarkSpec]) -> list[tuple[str, Mark]]:
    """Return the marks that texts take in turn, by name, with gamma and delta."""
    plain = [(OFF, (0.5, 0.0))]
    found = [[*plain * _PLAIN, (name, (spec.gamma, spec.delta))] for name, spec in marks.items()]
    return [one for three in found for one in three] or plain


def _steps(endpoint: Endpoint, body: dict[str, Any], head: int) -> tuple[list[int], Array]:
    """Return the ids of a text, and the probabilities of each step's likeliest tokens."""
    ids, rows = list[int](), list[list[float]]()
    for piece in endpoint.stream(body):
        told = piece.get("logprobs") or {}
        try:
            ids += [int(token.removeprefix("token_id:")) for token in told.get("tokens", ())]
            rows += [
                sorted(map(float, step.values()), reverse=True)[:head]
                for step in told.get("top_logprobs", ())
            ]
        except (ValueError, TypeError, AttributeError):
            ids = []
            break
    if not ids or len(ids) != len(rows) or {len(row) for row in rows} != {head}:
        raise EngineProblem(
            f"{endpoint.url} does not report the ids of its {head} likeliest tokens.",
            hint="vLLM does; or profile the model itself: leave --endpoint out.",
        )
    return ids, np.exp(np.array(rows))
