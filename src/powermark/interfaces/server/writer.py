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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from powermark.detection.evalue import StreamDetector
from powermark.errors import PowermarkError
from powermark.evaluation.writing import write_texts
from powermark.interfaces.generations import mark_parts, sampling_for, signature_of
from powermark.interfaces.server.library import Mark
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.refusals import Refusal, of_error
from powermark.interfaces.server.schemas import GenerateAsked

Event = dict[str, Any]


class Writer:
    """A loaded language model, and the lock that lets one client at a time use it."""

    def __init__(self, model: Any, limits: Limits) -> None:
        self.model, self._limits = model, limits
        self._lock = threading.Lock()

    async def events(self, mark: Mark, asked: GenerateAsked) -> AsyncIterator[bytes]:
        """Yield a line of JSON for each step, and the records at the end."""
        if mark.key is None:
            raise Refusal(422, "no-key", "the server has no key for this spec.")
        if not self._lock.acquire(blocking=False):
            raise Refusal(503, "busy", "another text is being written.", retry_after=5)
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event | PowermarkError | None]()
        gone = threading.Event()

        def tell(event: Event | PowermarkError | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, event)

        def work() -> None:
            try:
                self._write(mark, asked, tell, gone)
            except PowermarkError as error:
                tell(error)
            finally:
                self._lock.release()
                tell(None)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        begun = False
        try:
            while (event := await queue.get()) is not None:
                if isinstance(event, PowermarkError):
                    refusal = of_error(event)
                    if not begun:
                        raise refusal
                    event = json.loads(bytes(refusal.response().body))
                begun = True
                yield json.dumps(event, allow_nan=False).encode() + b"\n"
        finally:
            gone.set()

    def _write(self, mark: Mark, asked: GenerateAsked, tell: Any, gone: threading.Event) -> None:
        from powermark.integrations.transformers import WatermarkConfig

        assert mark.key is not None
        sampling, notes = sampling_for(
            mark.spec,
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
        tell({"records": next(iter(texts)), "notes": notes})


@dataclass(slots=True)
class _Row:
    """One text as it grows: its characters, the colour of its last token, its evidence."""

    model: Any
    mark: Mark
    shown: str = ""
    ended: bool = False
    evidence: StreamDetector = field(init=False)

    def __post_init__(self) -> None:
        spec, key = self.mark.spec, self.mark.key
        assert key is not None
        alpha = (spec.design or {}).get("alpha", 0.01)
        special = self.model.tokenizer.all_special_ids
        self.evidence = StreamDetector(spec, key, alpha=alpha, special_ids=special)

    def step(self, ids: list[int]) -> Event:
        """Take the text so far, and say what its last token brought."""
        ends = self.model.end_ids
        self.ended |= ids[-1] in ends
        if self.ended:
            return self._said("", "ended")
        scored, green = self.evidence.scored, self.evidence.green
        self.evidence.feed(ids[-1:])
        state = "no context" if len(ids) <= self.mark.spec.context_width else "repeated"
        if self.evidence.scored > scored:
            state = "green" if self.evidence.green > green else "red"
        text = self.model.tokenizer.decode(ids).rstrip("\ufffd")  # half a character waits
        new, self.shown = text[len(self.shown) :], text
        return self._said(new, state)

    def _said(self, text: str, state: str) -> Event:
        now = self.evidence
        return {
            "text": text,
            "state": state,
            "scored": now.scored,
            "green": now.green,
            "log_e": now.log_e,
            "detected_at": now.detected_at,
        }
