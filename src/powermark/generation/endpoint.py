"""A client of OpenAI-compatible servers: texts from a live server, marked and unmarked in turn.

A request is one streamed call: ``/completions`` for a text to continue, ``/chat/completions`` for a
chat. vLLM returns the exact token ids; for a server that does not, the text is tokenised again, as
any detector has to. Thoughts of a model that thinks first are left out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from statistics import median
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from powermark.checks import count
from powermark.detection.text import lost_in_round_trip, token_ids_of
from powermark.engines.settings import FIELD, OFF
from powermark.errors import EngineProblem, InvalidInput
from powermark.generation.writing import Record, Sampling, batch_seed
from powermark.models.chat import ANSWER, Prompt, Thoughts

KEY_ENVIRONMENT = "OPENAI_API_KEY"  # sent if it is set, never shown
NOTHING = "\n"  # replaces an empty prompt, which servers refuse


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, the model to ask for, and a timeout in seconds.

    ``url`` is the base of ``/completions`` and ``/chat/completions``, usually ending in ``/v1``.
    If the environment variable OPENAI_API_KEY is set, it is sent as the API key.
    """

    url: str
    model: str | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if "@" in self.url:  # a name and password would be shown in messages
            raise InvalidInput(
                "an endpoint's address must not contain a name or password.",
                hint=f"put the API key into {KEY_ENVIRONMENT}.",
            )
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and parts.port != 0
        except ValueError:  # an invalid host or port
            good = False
        if not good or " " in self.url or not self.url.isprintable():
            raise InvalidInput(f"an endpoint must be an http or https address; got {self.url!r}.")

    def first_model(self) -> str:
        """Return the model to ask for: the given one, or the server's first."""
        if self.model is not None:
            return self.model
        with self._open("models", None) as answer:
            try:
                return str(json.load(answer)["data"][0]["id"])
            except (ValueError, KeyError, IndexError, TypeError):
                raise EngineProblem(
                    f"{self.url}/models names no model.", hint="name it with --served-model."
                ) from None

    def stream(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the first choice of each chunk of a streamed completion or chat."""
        path = "chat/completions" if "messages" in body else "completions"
        with self._open(path, {**body, "stream": True}) as answer:
            try:
                for line in answer:
                    data = line.decode().removeprefix("data:").strip()
                    if not line.startswith(b"data:") or data == "[DONE]":
                        continue
                    piece = json.loads(data)
                    if "error" in piece:
                        raise EngineProblem(f"the server stopped: {_message(piece)}")
                    if piece["choices"]:
                        yield piece["choices"][0]
            except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
                raise EngineProblem(
                    f"{self.url} broke off in the middle of a response ({error!r})."
                ) from None

    def _open(self, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if secret := os.environ.get(KEY_ENVIRONMENT, "").strip():
            if not (secret.isascii() and secret.isprintable()):
                raise InvalidInput(f"{KEY_ENVIRONMENT} has characters that HTTP does not allow.")
            headers["Authorization"] = f"Bearer {secret}"
        data = None if body is None else json.dumps(body).encode()
        address = f"{self.url.rstrip('/')}/{path}"
        try:
            opener = build_opener(_SameOrigin)
            return opener.open(Request(address, data, headers), timeout=self.timeout)
        except HTTPError as error:
            try:
                said = _message(json.load(error))
            except ValueError:
                said = error.reason
            raise EngineProblem(f"{address} answers {error.code}: {said}") from None
        except (OSError, HTTPException, UnicodeError) as error:  # URLError, too
            reason = getattr(error, "reason", error)
            raise EngineProblem(
                f"cannot reach {address}: {reason}.", hint="is the server running there?"
            ) from None


class _SameOrigin(HTTPRedirectHandler):
    """Follows redirects within a server only; urllib would send the API key anywhere."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """Refuse a redirect to another scheme, host or port."""
        if urlsplit(req.full_url)[:2] != urlsplit(newurl)[:2]:
            raise EngineProblem(
                f"{req.full_url} redirects to another server, {_message(newurl)}.",
                hint="name that server with --endpoint, if you trust it with your prompts and key.",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _message(answer: Any) -> str:
    """Return what a server says went wrong, in whichever of the usual shapes."""
    said = answer.get("error", answer) if isinstance(answer, dict) else answer
    said = said.get("message", said) if isinstance(said, dict) else said
    return str(said).strip()


@dataclass(slots=True)
class Answers:
    """A server's texts, as records of :mod:`powermark.generation.writing`, and its speed.

    Speeds are tokens per second of each round of concurrent requests, in order.
    """

    marked: list[Record] = field(default_factory=list)
    unmarked: list[Record] = field(default_factory=list)
    speeds: dict[str, list[float]] = field(default_factory=lambda: {"marked": [], "unmarked": []})
    exact: bool = True  # whether the server sent all ids

    def speed(self) -> dict[str, float]:
        """Return median speeds, and the share lost to marking: the median over pairs of rounds."""
        found = {name: median(speeds) for name, speeds in self.speeds.items() if speeds}
        rounds = zip(self.speeds["marked"], self.speeds["unmarked"], strict=False)
        pairs = [(marked, plain) for marked, plain in rounds if plain > 0.0]
        if pairs:
            found["lost"] = median(1.0 - marked / plain for marked, plain in pairs)
        return found


def ask(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    tokenizer: Any,
    *,
    mark: str | None,
    batch: int,
    seed: int = 0,
    compare: bool = True,
    on_text: Callable[[], object] = lambda: None,
) -> Answers:
    """Let a server continue each text, or answer each chat, with the mark and, to compare, without.

    Parameters
    ----------
    endpoint, prompts, sampling
        The server, what to continue or answer, and the sampling settings.
    tokenizer
        The model's tokenizer, for texts of a server that sends no ids.
    mark
        Name of the mark to request; None for the server's default.
    batch
        Concurrent requests; rounds of marked and of unmarked ones alternate.
    compare
        Whether to request unmarked texts too; the server must allow it.
    seed
        Repeats the same texts, if the server can.
    on_text
        Called after each text.
    """
    count("batch", batch)
    model, answers = endpoint.first_model(), Answers()
    with ThreadPoolExecutor(batch) as pool:
        for first in range(0, len(prompts), batch):
            part = prompts[first : first + batch]
            for kind, name in (("marked", mark), ("unmarked", OFF))[: 2 if compare else 1]:
                bodies = [
                    {
                        **body_of(prompt, sampling, batch_seed(seed, first + i), name),
                        "model": model,
                        "return_token_ids": True,
                    }
                    for i, prompt in enumerate(part)
                ]
                begun = time.perf_counter()
                found = list(pool.map(lambda one: _text(endpoint, one, on_text), bodies))
                took = time.perf_counter() - begun
                both = zip(part, found, strict=True)
                records = [_record(tokenizer, prompt, *one) for prompt, one in both]
                getattr(answers, kind).extend(records)
                written = sum(len(record["token_ids"]) for record in records)
                answers.speeds[kind].append(written / took)
                answers.exact &= all(ids is not None for _, ids in found)
    return answers


def body_of(prompt: Prompt, sampling: Sampling, seed: int, mark: str | None) -> dict[str, Any]:
    """Return the body of a request; a mark of None leaves it to the server."""
    return {
        **({"prompt": prompt or NOTHING} if isinstance(prompt, str) else {"messages": prompt}),
        "max_tokens": sampling.n_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        **({"top_k": sampling.top_k} if sampling.top_k else {}),
        **({"min_p": sampling.min_p} if sampling.min_p else {}),
        **(
            {"repetition_penalty": sampling.repetition_penalty}
            if sampling.repetition_penalty != 1.0
            else {}
        ),
        "seed": seed % 2**31,
        **({} if mark is None else {"vllm_xargs": {FIELD: mark}}),
    }


def _text(
    endpoint: Endpoint, body: dict[str, Any], on_text: Callable[[], object]
) -> tuple[str, list[int] | None]:
    """Return the text of a response and, if the server sends them, its ids."""
    text = ""
    ids: list[int] = []
    for piece in endpoint.stream(body):
        text += piece.get("text") or (piece.get("delta") or {}).get("content") or ""
        ids += piece.get("token_ids") or []
    on_text()
    return text, ids or None


def without_end(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """Return ids without trailing special ones."""
    found = list(ids)
    while found and found[-1] in tokenizer.all_special_ids:
        found.pop()
    return found


def _record(tokenizer: Any, prompt: Prompt, text: str, ids: list[int] | None) -> Record:
    text = text.rpartition(ANSWER)[2]  # without a thought
    exact = without_end(tokenizer, token_ids_of(tokenizer, text) if ids is None else ids)
    if ids is not None:
        exact = exact[Thoughts(tokenizer).answer_start(exact) :]
    return {
        "prompt": prompt,
        "text": text,
        "token_ids": exact,
        "lost_ids": 0 if ids is None else lost_in_round_trip(tokenizer, exact),
    }
