"""Record a profile of the model behind a live server, from the likeliest tokens that it reports.

Only the model's tokenizer is needed here. A server like vLLM reports the probabilities of the K
likeliest tokens before temperature and mark, hence also the mass m of all others. These are assumed
to fall off like a power of their rank, ``p_K (rank / K)^-a``, with the a that gives mass m:

    a = 1 + K p_K / m,    sum of their powers s:  p_K^s K / (a s - 1).

Temperature and the variance of the green mass need no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from powermark.checks import Array, count
from powermark.engines.settings import OFF
from powermark.errors import EngineProblem, InvalidInput
from powermark.generation.endpoint import Endpoint, body_of, without_end
from powermark.generation.prompts import style_of
from powermark.generation.writing import Sampling, batch_seed, digest_of_prompts
from powermark.measuring.record_profile import Mark, Part, gather, part_of
from powermark.models.chat import Prompt, Thoughts
from powermark.signals.profile import Profile
from powermark.version import __version__
from powermark.watermark.spec import WatermarkSpec, digest_of

HEAD = 20  # likeliest tokens to request: vLLM's default limit
_LEAST = 1e-12  # a negligible probability
_PLAIN = 2  # unmarked texts per marked text


def profile_endpoint(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
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
    """Let a server write, and keep a sample of its distributions.

    Parameters
    ----------
    model
        Name of the model in the profile, and in specs planned with it.
    marks
        Marks of the server, by name: a third of the texts is written under them, so that the
        profile knows how marked text continues. The others request no mark; without marks the
        server's default is used, which must be no mark.
    head
        Likeliest tokens to request at each step.
    so_far
        As in :func:`~powermark.measuring.record_profile.record_profile`.
    """
    count("batch", batch)
    _check(sampling, head, marks or {})
    turns = _turns(marks or {})
    about = {
        "model": model,
        "tokenizer_digest": digest_of(tokenizer),
        "vocab_size": len(tokenizer),
        **sampling.to_dict(),
        **style_of(prompts),
        "seed": seed,
        "batch": batch,
        "prompts": digest_of_prompts(prompts),
        "marks": {name: spec.digest for name, spec in (marks or {}).items()},
        "made_by": f"powermark {__version__}, of a server's {head} likeliest tokens",
    }
    chats, thoughts = bool(style_of(prompts)), Thoughts(tokenizer)
    settings = {
        "model": endpoint.first_model(),
        **({"logprobs": True, "top_logprobs": head} if chats else {"logprobs": head}),
        "return_tokens_as_token_ids": True,
    }

    def one(number: int, prompt: Prompt) -> Part:
        mark = turns[number % len(turns)][0]
        asked = body_of(prompt, sampling, batch_seed(seed, number), mark if marks else None)
        asked |= settings
        ids, raw = _steps(endpoint, asked, head)
        on_text()
        ids = without_end(tokenizer, ids)
        start = thoughts.answer_start(ids)
        return part_of(number, as_sampled(raw[start:], sampling), ids[start:])

    def write(first: int, some: Sequence[Prompt]) -> list[Part]:
        return list(pool.map(one, range(first, first + len(some)), some))

    def mark_of(text: int) -> Mark:
        return turns[text % len(turns)][1]

    with ThreadPoolExecutor(batch) as pool:
        return gather(
            write,
            prompts,
            tokenizer=tokenizer,
            batch=batch,
            about=about,
            so_far=so_far,
            mark_of=mark_of,
        )


def as_sampled(raw: Array, sampling: Sampling) -> Part:
    """Return head, tail mass and tail square of the distributions sampled from.

    Parameters
    ----------
    raw
        (steps, K) the largest probabilities of the model itself, descending. Temperature, top-k,
        top-p and min-p act on them in this order. If top-p ends among the others, the same share of
        their squares is kept as of their mass. min-p drops all of the others where it drops any of
        the head.
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
    cut = head < sampling.min_p * head[:, :1]
    head, kept = np.where(cut, 0.0, head), np.where(cut[:, -1:], 0.0, kept)
    square = np.where(cut[:, -1:], 0.0, square)
    whole = head.sum(axis=1, keepdims=True) + kept
    found = head / whole, (kept / whole)[:, 0], (square / whole**2)[:, 0]
    return tuple(part.astype(np.float32) for part in found)


def _check(sampling: Sampling, head: int, marks: dict[str, WatermarkSpec]) -> None:
    count("head", head)
    if sampling.temperature > 1.0:
        raise InvalidInput(
            "a server's likeliest tokens are not enough above temperature 1.",
            hint="profile the model itself, without --endpoint.",
        )
    if sampling.repetition_penalty != 1.0:
        raise InvalidInput(
            "a server reports probabilities before its repetition penalty.",
            hint="profile the model itself, without --endpoint.",
        )
    if sampling.top_k > head:
        raise InvalidInput(f"top_k must be at most the {head} tokens requested.")
    for name, spec in marks.items():
        if spec.schedule is not None:
            raise InvalidInput(f"the spec {name!r} is steered; its bias must be constant.")


def _turns(marks: dict[str, WatermarkSpec]) -> list[tuple[str, Mark]]:
    """Return the marks that texts take in turn, by name, with gamma and delta."""
    plain = [(OFF, (0.5, 0.0))]
    found = [[*plain * _PLAIN, (name, (spec.gamma, spec.delta))] for name, spec in marks.items()]
    return [one for three in found for one in three] or plain


def _steps(endpoint: Endpoint, body: dict[str, Any], head: int) -> tuple[list[int], Array]:
    """Return the ids of a text, and the probabilities of each step's likeliest tokens."""
    ids, rows = list[int](), list[list[float]]()
    for piece in endpoint.stream(body):
        reported = piece.get("logprobs") or {}
        try:
            tokens, steps = _reported(reported)
            ids += [int(token.removeprefix("token_id:")) for token in tokens]
            rows += [sorted(map(float, step), reverse=True)[:head] for step in steps]
        except (ValueError, TypeError, AttributeError, KeyError):
            ids = []
            break
    if not ids or len(ids) != len(rows) or {len(row) for row in rows} != {head}:
        raise EngineProblem(
            f"{endpoint.url} does not report the ids of its {head} likeliest tokens.",
            hint="use vLLM, or profile the model itself, without --endpoint.",
        )
    return ids, np.exp(np.array(rows))


def _reported(logprobs: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the tokens of a chunk and the logarithms of each step's likeliest tokens.

    A completion has parallel lists, a chat one object for each token.
    """
    if "content" not in logprobs:
        steps = logprobs.get("top_logprobs", ())
        return list(logprobs.get("tokens", ())), [step.values() for step in steps]
    content = logprobs["content"] or ()
    likeliest = [[each["logprob"] for each in token["top_logprobs"]] for token in content]
    return [token["token"] for token in content], likeliest
