"""Generate text token by token: marked and unmarked side by side, with the evidence so far.

One request is served at a time, because torch has one random state. The first line of an answer
comes with the first token; generation stops if the client disconnects.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from powermark.detection.scoring import REASONS, score
from powermark.detection.text import text_of
from powermark.errors import InvalidInput, PowermarkError
from powermark.generation.prompts import in_style
from powermark.generation.writing import mark_for, sampling_for, write_texts
from powermark.interfaces.generations import signature_of
from powermark.interfaces.server.library import LoadedMark
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.refusals import Refusal, of_error
from powermark.interfaces.server.schemas import GenerateRequest
from powermark.interfaces.server.telemetry import Log
from powermark.models.chat import Prompt, Thoughts
from powermark.statistics.p_values import log_e_path
from powermark.watermark.watermark import Watermark

Event = dict[str, Any]
_ALPHA = 0.01  # for specs without a plan


class Writer:
    """A loaded language model, and the lock that admits one client at a time."""

    def __init__(self, model: Any, limits: Limits) -> None:
        self.model, self._limits = model, limits
        self._lock = threading.Lock()

    async def events(self, mark: LoadedMark, request: GenerateRequest) -> AsyncIterator[bytes]:
        """Yield a line of JSON for each step, and the records at the end."""
        watermark = mark.watermark
        if not self._lock.acquire(blocking=False):
            raise Refusal(503, "busy", "another text is being written.", retry_after=5)
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event | Refusal | None]()
        gone = threading.Event()

        def send(event: Event | Refusal | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, event)
            except RuntimeError:  # the server has stopped
                gone.set()

        def work() -> None:
            try:
                self._write(watermark, request, send, gone)
            except PowermarkError as error:
                send(of_error(error))
            except Exception as error:  # its message may quote the prompt
                Log().error(error)
                send(Refusal(500, "broken", "the text could not be finished."))
            finally:
                self._lock.release()
                send(None)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        begun = False
        try:
            while (event := await queue.get()) is not None:
                if isinstance(event, Refusal):
                    if not begun:
                        raise event
                    event = json.loads(bytes(event.response().body))
                begun = True
                yield json.dumps(event, allow_nan=False).encode() + b"\n"
        finally:
            gone.set()

    def _write(
        self, mark: Watermark, request: GenerateRequest, send: Any, gone: threading.Event
    ) -> None:
        plan = mark.spec.plan
        profile = None if plan is None else plan.profile
        sampling, notes = sampling_for(
            profile,
            request.n_tokens,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            repetition_penalty=request.repetition_penalty,
        )
        [prompt], more = in_style(
            [_prompt(request)],
            chats=self.model.chats,
            profile=profile,
            raw=request.raw,
            system=request.system,
        )
        notes, prompts = [*notes, *more], [prompt] * (2 if request.compare else 1)
        config = mark_for(mark, self.model, sampling, rows=lambda ids: np.arange(len(ids)) == 0)
        seed = secrets.randbits(31) if request.seed is None else request.seed
        rows = [_Row(self.model, mark) for _ in prompts]
        start = len(self.model.encode(prompt))
        deadline = time.monotonic() + 5 * self._limits.seconds

        thoughts = Thoughts(self.model.tokenizer)

        def stop(ids: Any) -> bool:
            given = ids[0, :start].tolist()
            written = [row[thoughts.answer_start(row, given) :] for row in ids[:, start:].tolist()]
            send({"rows": [row.step(one) for row, one in zip(rows, written, strict=True)]})
            return gone.is_set() or time.monotonic() > deadline

        line = signature_of(
            self.model.name,
            mark,
            sampling,
            seed,
            len(prompts),
            [prompt],
        )
        texts = write_texts(
            self.model,
            prompts,
            sampling,
            seed=seed,
            batch=len(prompts),
            config=config,
            signature=line,
            stop=stop,
        )
        records = next(iter(texts))
        if time.monotonic() > deadline:
            notes = [*notes, "note: the texts were cut at the time limit."]
        send({"records": records, "notes": notes})


def _prompt(request: GenerateRequest) -> Prompt:
    """Return the text or the chat of a request."""
    if (request.prompt is None) == (request.messages is None):
        raise InvalidInput("give either `prompt` or `messages`.")
    if request.prompt is not None:
        return request.prompt
    return [message.model_dump() for message in request.messages or ()]


class _Row:
    """A growing text: its new characters, the state of its last token, its evidence."""

    def __init__(self, model: Any, mark: Watermark) -> None:
        self._model, self._scheme = model, mark.scheme
        self._rates = mark.spec.gamma, mark.spec.bet
        plan = mark.spec.plan
        self._goal = -np.log(_ALPHA if plan is None else plan.alpha)
        self._shown, self._ended = "", False
        self._path = np.zeros(0)
        self._green = 0

    def step(self, ids: list[int]) -> Event:
        """Score the text so far as a detector would; return what the last token added."""
        if not ids:
            return self._event("", "thinking")
        self._ended |= ids[-1] in self._model.end_ids
        if self._ended:
            return self._event("", "ended")
        tokenizer, row = self._model.tokenizer, np.array(ids)
        known = row < self._scheme.vocab_size  # padded logits have ids without tokens
        special = tokenizer.all_special_ids
        scores = score(self._scheme, [row], masks=[known], skip=1, special_ids=special)
        colours, state = scores.colours(), REASONS[int(scores.state[-1])]
        if state == "scored":
            state = "green" if colours[-1] else "red"
        self._path, self._green = log_e_path(colours, *self._rates), int(colours.sum())
        text = text_of(tokenizer, ids).rstrip("\ufffd")  # an incomplete character
        new, self._shown = text[len(self._shown) :], text
        return self._event(new, state)

    def _event(self, text: str, state: str) -> Event:
        enough = np.flatnonzero(self._path >= self._goal)
        return {
            "text": text,
            "state": state,
            "scored": self._path.size,
            "green": self._green,
            "log_e": float(self._path[-1]) if self._path.size else 0.0,
            "detected_at": int(enough[0]) + 1 if enough.size else None,
        }
