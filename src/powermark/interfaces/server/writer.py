"""A model that writes while one watches: marked and unmarked text side by side, with evidence.

One text is written at a time, because torch's random state is one for all. The first line of an
answer comes with the first token; a client that goes away stops the writing.
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

from powermark.detection.evalue import log_e_path, planned_rate
from powermark.detection.scoring import REASONS, score
from powermark.errors import PowermarkError
from powermark.evaluation.writing import sampling_for, write_texts
from powermark.interfaces.generations import mark_parts, signature_of
from powermark.interfaces.server.library import LoadedMark
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.refusals import Refusal, of_error
from powermark.interfaces.server.schemas import GenerateAsked
from powermark.interfaces.server.telemetry import Log
from powermark.watermark.embed import scheme_of

Event = dict[str, Any]
_ALPHA = 0.01  # for specs without a plan


class Writer:
    """A loaded language model, and the lock that lets one client at a time use it."""

    def __init__(self, model: Any, limits: Limits) -> None:
        self.model, self._limits = model, limits
        self._lock = threading.Lock()

    async def events(self, mark: LoadedMark, asked: GenerateAsked) -> AsyncIterator[bytes]:
        """Yield a line of JSON for each step, and the records at the end."""
        if mark.key is None:
            raise Refusal(422, "no-key", "the server has no key for this spec.")
        if not self._lock.acquire(blocking=False):
            raise Refusal(503, "busy", "another text is being written.", retry_after=5)
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event | Refusal | None]()
        gone = threading.Event()

        def tell(event: Event | Refusal | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, event)
            except RuntimeError:  # the server has ended: nobody listens
                gone.set()

        def work() -> None:
            try:
                self._write(mark, asked, tell, gone)
            except PowermarkError as error:
                tell(of_error(error))
            except Exception as error:  # its message may quote the prompt
                Log().error(error)
                tell(Refusal(500, "broken", "the text could not be finished."))
            finally:
                self._lock.release()
                tell(None)

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
        self, mark: LoadedMark, asked: GenerateAsked, tell: Any, gone: threading.Event
    ) -> None:
        from powermark.integrations.transformers import WatermarkConfig

        assert mark.key is not None
        sampling, notes = sampling_for(
            (mark.spec.design or {}).get("profile"),
            asked.n_tokens,
            temperature=asked.temperature,
            top_k=asked.top_k,
            top_p=asked.top_p,
        )
        prompts = [asked.prompt] * (2 if asked.compare else 1)
        config = WatermarkConfig(
            mark.spec,
            mark.key,
            self.model.tokenizer,
            temperature=sampling.temperature or 1.0,
            marked=lambda ids: np.arange(ids.shape[0]) == 0,
        )
        seed = secrets.randbits(31) if asked.seed is None else asked.seed
        rows = [_Row(self.model, mark) for _ in prompts]
        start = len(self.model.encode(asked.prompt))
        deadline = time.monotonic() + 5 * self._limits.seconds

        def stop(ids: Any) -> bool:
            written = ids[:, start:].tolist()
            tell({"rows": [row.step(one) for row, one in zip(rows, written, strict=True)]})
            return gone.is_set() or time.monotonic() > deadline

        line = signature_of(
            self.model.name,
            mark_parts(mark.spec, mark.key),
            sampling,
            seed,
            len(prompts),
            [asked.prompt],
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
            notes = [*notes, "note: the time was up before the texts were whole."]
        tell({"records": records, "notes": notes})


class _Row:
    """One text as it grows: its new characters, the state of its last token, its evidence."""

    def __init__(self, model: Any, mark: LoadedMark) -> None:
        assert mark.key is not None
        self._model, self._scheme = model, scheme_of(mark.spec, mark.key)
        self._rates = mark.spec.gamma, planned_rate(mark.spec)
        self._goal = -np.log((mark.spec.design or {}).get("alpha", _ALPHA))
        self._shown, self._ended = "", False
        self._path = np.zeros(0)
        self._green = 0

    def step(self, ids: list[int]) -> Event:
        """Take the text so far, scored as a detector would, and say what its last token brought."""
        self._ended |= ids[-1] in self._model.end_ids
        if self._ended:
            return self._said("", "ended")
        tokenizer, row = self._model.tokenizer, np.array(ids)
        known = row < self._scheme.vocab_size  # padded logits have ids that are no tokens
        scores = score(self._scheme, [row], masks=[known], special_ids=tokenizer.all_special_ids)
        colours, state = scores.colours(), REASONS[int(scores.state[-1])]
        if state == "scored":
            state = "green" if colours[-1] else "red"
        self._path, self._green = log_e_path(colours, *self._rates), int(colours.sum())
        text = tokenizer.decode(ids).rstrip("\ufffd")  # half a character waits
        new, self._shown = text[len(self._shown) :], text
        return self._said(new, state)

    def _said(self, text: str, state: str) -> Event:
        enough = np.flatnonzero(self._path >= self._goal)
        return {
            "text": text,
            "state": state,
            "scored": self._path.size,
            "green": self._green,
            "log_e": float(self._path[-1]) if self._path.size else 0.0,
            "detected_at": int(enough[0]) + 1 if enough.size else None,
        }
