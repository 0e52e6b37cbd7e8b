"""The work behind the routes: from a checked request to the JSON that the command line prints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from powermark.checks import Ids
from powermark.detection.detector import Detection, Detector
from powermark.detection.inspection import Inspection
from powermark.errors import PowermarkError
from powermark.interfaces.server import schemas
from powermark.interfaces.server.access import Client, Rates, Tokens
from powermark.interfaces.server.design_process import Designers
from powermark.interfaces.server.design_worker import Designs, Route
from powermark.interfaces.server.library import Detectors, Library
from powermark.interfaces.server.limits import Limits, Workers
from powermark.interfaces.server.refusals import Refusal, of_error, problem
from powermark.interfaces.server.telemetry import Log, Metrics
from powermark.interfaces.server.writer import Writer

T = TypeVar("T")
_SMALLEST_P = 1e-12  # shown to the scope `detect`


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running server; made by :func:`new_service`."""

    library: Library
    detectors: Detectors
    limits: Limits
    tokens: Tokens | None
    rates: Rates
    metrics: Metrics
    log: Log
    designing: Designers
    steering: Designers
    detecting: Workers
    writer: Writer | None

    def start(self) -> None:
        """Start the processes for designs, which load while the server starts."""
        self.designing.start()
        self.steering.start()

    def close(self) -> None:
        """Stop accepting work."""
        self.designing.close()
        self.steering.close()
        self.detecting.close()

    async def design(self, route: Route, request: schemas.SignalFields, client: Client) -> bytes:
        """Return the JSON of a design; steered plans are slow and have their own processes."""
        self.library.profile(request.profile)
        if isinstance(request, schemas.SpecRequest) and request.spec is not None:
            self.library.mark(request.spec)
        slow = isinstance(request, schemas.PlanRequest) and request.steer
        designers = self.steering if slow else self.designing
        return await designers.ask(route, request, client.name)

    def detect(self, request: schemas.DetectRequest, client: Client) -> dict[str, Any]:
        """Look for a mark in one text."""
        if request.tokens:
            return {"source": request.source, **self._inspect(request, client).to_dict()}
        detector = self._detector(request, [request], client)
        ids, prompt = (
            self._ids(detector, part) for part in (request.content, request.prompt or [])
        )
        start = time.thread_time()
        [found] = detector.detect_many([ids], prompts=[prompt], copied=[_is_text(request)])
        self.metrics.detecting.inc(time.thread_time() - start)
        self._count(request.spec, [found])
        return shown_to(client, found, request.source)

    def report(self, request: schemas.DetectRequest, client: Client) -> str:
        """Return the page that ``powermark detect --html`` writes."""
        return self._inspect(request, client).html()

    def _inspect(self, request: schemas.DetectRequest, client: Client) -> Inspection:
        detector = self._detector(request, [request], client)
        tokens = self._read(detector, request.content, detector.tokens_of)
        self._check_length(tokens.ids)
        prompt = self._ids(detector, request.prompt or [])
        start = time.thread_time()
        seen = detector.inspect(tokens, prompt=prompt)
        self.metrics.detecting.inc(time.thread_time() - start)
        self._count(request.spec, [seen.detection])
        return seen

    def detect_many(self, request: schemas.BatchRequest, client: Client) -> dict[str, Any]:
        """Look for a mark in many texts; one that cannot be read does not stop the rest."""
        detector = self._detector(request, request.texts, client)
        results: list[dict[str, Any]] = [{} for _ in request.texts]
        read: list[tuple[int, Any, Any, bool]] = []  # place, ids of text and prompt, whether copied
        for place, text in enumerate(request.texts):
            try:
                both = self._ids(detector, text.content), self._ids(detector, text.prompt or [])
                read.append((place, *both, _is_text(text)))
            except (PowermarkError, Refusal) as error:
                results[place] = _failure(text.source, error)
        start = time.thread_time()
        found = _each(detector, [parts for _, *parts in read])
        self.metrics.detecting.inc(time.thread_time() - start)
        self._count(request.spec, [one for one in found if isinstance(one, Detection)])
        for (place, *_), one in zip(read, found, strict=True):
            source = request.texts[place].source
            results[place] = (
                shown_to(client, one, source)
                if isinstance(one, Detection)
                else _failure(source, one)
            )
        return {"results": results}

    def _detector(
        self, request: schemas.DetectorOptions, texts: Sequence[schemas.TextInput], client: Client
    ) -> Detector:
        """Return the requested detector; other tests, or ids, would be a finer oracle."""
        planned = self.library.mark(request.spec).spec.planned_detector
        own = (
            request.alpha is not None
            or request.detector not in (None, planned)
            or request.looks > 1
        )
        ids = any(text.token_ids is not None for text in texts)
        if (own or ids) and not client.inspects:
            raise Refusal(
                403,
                "scope",
                "the scope detect runs the plan's test of a text at the plan's level; token ids, "
                "another detector or alpha and several looks need the scope inspect.",
            )
        kinds = tuple(request.detector) if isinstance(request.detector, list) else request.detector
        return self.detectors.get(
            request.spec, request.alpha, kinds, request.looks, request.normalise
        )

    def _ids(self, detector: Detector, content: str | list[int]) -> Ids:
        """Tokenise; refuse a text over the limits."""
        ids = np.asarray(self._read(detector, content, detector.ids_of), np.int64)
        self._check_length(ids)
        return ids

    def _read(
        self, detector: Detector, content: str | list[int], read: Callable[[str | list[int]], T]
    ) -> T:
        """Read a text by a method of the detector; refuse one that normalising makes too long."""
        start = time.thread_time()
        if isinstance(content, str) and len(detector.prepare(content)) > self.limits.body_bytes:
            raise Refusal(413, "too-large", "the text is too long when it is normalised.")
        found = read(content)
        self.metrics.tokenising.inc(time.thread_time() - start)
        return found

    def _check_length(self, ids: Ids) -> None:
        if ids.size > self.limits.n_tokens:
            most = self.limits.n_tokens
            raise Refusal(
                413, "too-large", f"a text may have at most {most:,} tokens; got {ids.size:,}."
            )

    def _count(self, spec: str, found: list[Detection]) -> None:
        for one in found:
            self.metrics.verdicts.labels(spec, one.verdict).inc()
        self.metrics.tokens.inc(sum(one.tokens for one in found))


def _is_text(request: schemas.TextInput) -> bool:
    return isinstance(request.content, str)


def _each(detector: Detector, texts: list[list[Any]]) -> list[Detection | PowermarkError]:
    """Detect in all texts at once; if that fails, one by one, to find the one that fails.

    A text is a list: its ids, the ids of its prompt, and whether it was copied.
    """
    if not texts:
        return []
    ids, prompts, copied = zip(*texts, strict=True)
    try:
        return [*detector.detect_many(ids, prompts=prompts, copied=copied)]
    except PowermarkError as error:
        if len(texts) == 1:
            return [error]
    return [one for text in texts for one in _each(detector, [text])]


def _failure(source: str, error: PowermarkError | Refusal) -> dict[str, Any]:
    why = error if isinstance(error, Refusal) else of_error(error)
    return {"source": source, **problem(why.code, why.detail, why.hint)}


def shown_to(client: Client, found: Detection, source: str) -> dict[str, Any]:
    """Return all of a detection, or the coarse fields that the scope ``detect`` may see."""
    if client.inspects:
        return {"source": source, **found.to_dict()}
    decade = np.ceil(np.log10(max(found.p, _SMALLEST_P)))
    return {
        "source": source,
        "verdict": found.verdict,
        "p": float(f"1e{int(decade)}"),
        "alpha": found.alpha,
        "detector": found.detector,
        "tokens": found.tokens,
        "power": round(found.power, 1),
        "tokens_needed": found.tokens_needed,
        "signature": found.signature,
    }


def new_service(
    library: Library,
    *,
    limits: Limits | None = None,
    tokens: Tokens | None = None,
    threads: int | None = None,
    log: Log | None = None,
    model: Any = None,
) -> Service:
    """Return a service; designs run in processes of their own and cannot block detection."""
    limits, log = limits or Limits(), log or Log()
    specs = {name: mark.spec for name, mark in library.marks.items()}
    designs = Designs(specs, dict(library.profiles))
    return Service(
        library=library,
        detectors=Detectors(library),
        limits=limits,
        tokens=tokens,
        rates=Rates(limits.rate),
        metrics=Metrics(),
        log=log,
        designing=Designers(designs, limits, log, kind="designs", most=limits.waiting),
        steering=Designers(designs, limits, log, kind="steered plans", most=1),
        detecting=Workers(threads or os.cpu_count() or 1, limits),
        writer=None if model is None else Writer(model, limits),
    )
