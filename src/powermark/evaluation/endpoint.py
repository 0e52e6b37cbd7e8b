"""Texts from a live OpenAI-compatible server, marked and unmarked in turn, as records to verify.

A request is one streamed ``/completions`` call. vLLM returns the exact token ids; of a server that
does not, the text is tokenised again, as any detector of its texts has to.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from statistics import median
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from powermark.calibration.design import Design
from powermark.calibration.profile import Profile
from powermark.checks import count
from powermark.detection.detection import Detector
from powermark.detection.text import lost_in_round_trip, token_ids_of
from powermark.errors import EngineProblem, InvalidInput
from powermark.evaluation.verification import Verification
from powermark.evaluation.verify import verify
from powermark.evaluation.writing import Record, Sampling, batch_seed
from powermark.integrations.settings import FIELD, OFF
from powermark.watermark.keys import HashKey, SecretKey

KEY_ENVIRONMENT = "OPENAI_API_KEY"  # sent if it is set, never shown
NOTHING = "\n"  # stands for an empty prompt, which servers refuse


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, the model it is asked for, and how long an answer may take.

    ``url`` is the base that holds ``/completions``, usually ending in ``/v1``. A server that wants
    a key is sent the one in the environment variable OPENAI_API_KEY.
    """

    url: str
    model: str | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if "@" in self.url:  # a name and password would stand in messages
            raise InvalidInput(
                "an endpoint's address holds no name or password.",
                hint=f"put what the server wants to know into {KEY_ENVIRONMENT}.",
            )
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and parts.port != 0
        except ValueError:  # a host or port that is none
            good = False
        if not good or " " in self.url or not self.url.isprintable():
            raise InvalidInput(f"an endpoint is an http or https address; got {self.url!r}.")

    def first_model(self) -> str:
        """Return the name of the model to ask for: the one given, or the server's first."""
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
        """Yield the first choice of each piece of a streamed completion."""
        with self._open("completions", {**body, "stream": True}) as answer:
            try:
                for line in answer:
                    data = line.decode().removeprefix("data:").strip()
                    if not line.startswith(b"data:") or data == "[DONE]":
                        continue
                    piece = json.loads(data)
                    if "error" in piece:
                        raise EngineProblem(f"the server stopped: {_words(piece)}")
                    if piece["choices"]:
                        yield piece["choices"][0]
            except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
                raise EngineProblem(
                    f"{self.url} broke off in the middle of an answer ({error!r})."
                ) from None

    def _open(self, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if secret := os.environ.get(KEY_ENVIRONMENT, "").strip():
            if not (secret.isascii() and secret.isprintable()):
                raise InvalidInput(f"{KEY_ENVIRONMENT} holds what no request can carry.")
            headers["Authorization"] = f"Bearer {secret}"
        data = None if body is None else json.dumps(body).encode()
        address = f"{self.url.rstrip('/')}/{path}"
        try:
            return urlopen(Request(address, data, headers), timeout=self.timeout)
        except HTTPError as error:
            try:
                said = _words(json.load(error))
            except ValueError:
                said = error.reason
            raise EngineProblem(f"{address} answers {error.code}: {said}") from None
        except (OSError, HTTPException, UnicodeError) as error:  # URLError, too
            reason = getattr(error, "reason", error)
            raise EngineProblem(
                f"cannot reach {address}: {reason}.", hint="is the server running there?"
            ) from None


def _words(answer: Any) -> str:
    """Return what a server says went wrong, in whichever of the usual shapes."""
    said = answer.get("error", answer) if isinstance(answer, dict) else answer
    said = said.get("message", said) if isinstance(said, dict) else said
    return str(said).strip()


@dataclass(slots=True)
class Answers:
    """What a server wrote: records as of :mod:`powermark.evaluation.writing`, and its speed.

    Speeds are tokens per second of each round of requests sent together, in the order of rounds.
    """

    marked: list[Record] = field(default_factory=list)
    unmarked: list[Record] = field(default_factory=list)
    speeds: dict[str, list[float]] = field(default_factory=lambda: {"marked": [], "unmarked": []})
    exact: bool = True  # whether ids came from the server

    def speed(self) -> dict[str, float]:
        """Return median speeds, and the share lost by marking: the median over pairs of rounds."""
        found = {name: median(speeds) for name, speeds in self.speeds.items() if speeds}
        rounds = zip(self.speeds["marked"], self.speeds["unmarked"], strict=False)
        pairs = [(marked, plain) for marked, plain in rounds if plain > 0.0]
        if pairs:
            found["lost"] = median(1.0 - marked / plain for marked, plain in pairs)
        return found


def verify_answers(
    answers: Answers,
    detector: Detector,
    key: SecretKey | HashKey,
    promise: Design,
    *,
    profile: Profile | None = None,
    seed: int = 0,
) -> Verification:
    """Compare a server's texts with the promise, and say how many the detector finds.

    Parameters
    ----------
    answers
        What :func:`ask` returned.
    detector, key
        Of the mark that was asked for.
    promise
        As :func:`~powermark.evaluation.promise.promise_of` returns it.
    profile
        To say what it foretells beside the promise.
    seed
        Of the edits, where the promise is about edited text.
    """
    found = verify(
        detector.spec,
        key,
        promise,
        answers.marked,
        answers.unmarked,
        profile=profile,
        special_ids=detector.special_ids,
        seed=seed,
    )
    notes = list(found.notes)
    for kind, records in (("marked", answers.marked), ("unmarked", answers.unmarked)):
        if records:
            seen = _called_marked(detector, [record["token_ids"] for record in records])
            same = _called_marked(detector, [detector.ids_of(r["text"]) for r in records])
            notes.append(
                f"note: of {len(records)} {kind} requests {seen} are found to be marked, whatever "
                f"their length; {same} from their text alone."
            )
    speed = answers.speed()
    if "lost" in speed:
        notes.append(
            f"note: {speed['marked']:.1f} tokens/s marked, {speed['unmarked']:.1f} unmarked; "
            f"{100 * speed['lost']:.1f} % lost, median of {len(answers.speeds['unmarked'])} rounds."
        )
    if not answers.exact:
        notes.append("note: the server told no token ids; its texts were tokenised again.")
    return replace(found, notes=tuple(notes), speed=speed)


def _called_marked(detector: Detector, texts: list[Any]) -> int:
    return sum(found.verdict == "watermarked" for found in detector.detect_many(texts))


def ask(
    endpoint: Endpoint,
    prompts: Sequence[str],
    sampling: Sampling,
    tokenizer: Any,
    *,
    mark: str | None,
    batch: int,
    seed: int = 0,
    compare: bool = True,
    on_text: Callable[[], object] = lambda: None,
) -> Answers:
    """Ask a server to go on from each prompt with the mark and, to compare, without.

    Parameters
    ----------
    endpoint, prompts, sampling
        The server, what it is to continue, and how it is to choose tokens.
    tokenizer
        The model's, for prompts, and for texts of a server that tells no ids.
    mark
        Name of the mark to ask for; None leaves the choice to the server.
    batch
        Requests under way at once; rounds of marked and of unmarked ones take turns.
    compare
        Whether to ask for unmarked texts too; the server must allow it.
    seed, on_text
        For the same texts again, where the server can; and what to call after each text.
    """
    count("batch", batch)
    model, answers = endpoint.first_model(), Answers()
    with ThreadPoolExecutor(batch) as pool:
        for first in range(0, len(prompts), batch):
            part = prompts[first : first + batch]
            for kind, wish in (("marked", mark), ("unmarked", OFF))[: 2 if compare else 1]:
                bodies = [
                    {
                        **body_of(prompt, sampling, batch_seed(seed, first + i), wish),
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


def body_of(prompt: str, sampling: Sampling, seed: int, mark: str | None) -> dict[str, Any]:
    """Return what a request says of its text; None leaves the mark to the server."""
    return {
        "prompt": prompt or NOTHING,
        "max_tokens": sampling.n_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        **({"top_k": sampling.top_k} if sampling.top_k else {}),
        "seed": seed % 2**31,
        **({} if mark is None else {"vllm_xargs": {FIELD: mark}}),
    }


def _text(
    endpoint: Endpoint, body: dict[str, Any], on_text: Callable[[], object]
) -> tuple[str, list[int] | None]:
    """Return one answer's text and, where the server tells them, its ids."""
    text = ""
    ids: list[int] = []
    for piece in endpoint.stream(body):
        text += piece.get("text") or ""
        ids += piece.get("token_ids") or []
    on_text()
    return text, ids or None


def without_end(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """Return a text's ids without the special ones at its end."""
    found = list(ids)
    while found and found[-1] in tokenizer.all_special_ids:
        found.pop()
    return found


def _record(tokenizer: Any, prompt: str, text: str, ids: list[int] | None) -> Record:
    exact = without_end(tokenizer, token_ids_of(tokenizer, text) if ids is None else ids)
    return {
        "prompt": prompt,
        "text": text,
        "token_ids": exact,
        "lost_ids": 0 if ids is None else lost_in_round_trip(tokenizer, exact),
    }
