"""The work behind the routes: from what was asked to the JSON that the command line prints."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from powermark.calibration.design import Design, evaluate
from powermark.calibration.edits import Edits
from powermark.calibration.plan import Plan, plan
from powermark.calibration.signal import SignalModel
from powermark.detection.detection import Detection, Detector
from powermark.detection.report import Piece, evidence_path, html_report, pieces, words_of
from powermark.detection.scoring import Scores
from powermark.errors import InvalidInput, PowermarkError
from powermark.interfaces.designs import (
    Curve,
    check_profile,
    curve_of,
    signal_model,
    steering_of,
)
from powermark.interfaces.detections import answer, inspection
from powermark.interfaces.server import schemas
from powermark.interfaces.server.access import Client, Rates, Tokens
from powermark.interfaces.server.library import Detectors, Library
from powermark.interfaces.server.limits import Limits, Workers
from powermark.interfaces.server.refusals import Refusal, of_error, problem
from powermark.interfaces.server.telemetry import Log, Metrics
from powermark.interfaces.server.writer import Writer
from powermark.watermark.spec import WatermarkSpec

_SMALLEST_P = 1e-12  # that the scope `detect` is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """All that a running server has; made by :func:`new_service`."""

    library: Library
    detectors: Detectors
    limits: Limits
    tokens: Tokens | None
    rates: Rates
    metrics: Metrics
    log: Log
    designing: Workers
    detecting: Workers
    writer: Writer | None

    def close(self) -> None:
        """Take no more work."""
        self.designing.close()
        self.detecting.close()

    def plan(self, asked: schemas.PlanAsked) -> Plan:
        """Solve for the quantity that is left out."""
        schemas.check_steering(asked)
        options = steering_of(
            asked.steer,
            checkpoints=asked.checkpoint,
            delta_cap=asked.delta_cap,
            kl_cap=asked.kl_cap,
            precision=asked.precision,
        )
        return plan(
            n_tokens=asked.n_tokens,
            alpha=asked.alpha,
            power=asked.power,
            kl=asked.kl,
            method=asked.method,
            gamma=asked.gamma,
            delta=asked.delta,
            attacked_power=asked.attacked_power,
            variance_inflation=asked.variance_inflation,
            signal=self._signal(asked),
            **_edits(asked),
            **options,
        )

    def spec(self, asked: schemas.SpecAsked) -> WatermarkSpec:
        """Freeze a plan, for the vocabulary of a loaded spec or for a number of ids."""
        like = None if asked.like is None else self.library.mark(asked.like).spec
        size = asked.vocab_size if like is None else like.vocab_size
        if size is None:
            raise InvalidInput(
                "a spec needs to know the vocabulary.", hint="give like or vocab_size."
            )
        if asked.signal != "dirichlet":
            asked = asked.model_copy(update={"vocab_size": None})
        digest = like.tokenizer_digest if like else None
        check_profile(self._signal(asked), size, digest)
        return WatermarkSpec.from_plan(
            self.plan(asked),
            vocab_size=size,
            tokenizer_digest=digest,
            key_fingerprint=like.key_fingerprint if like else None,
        )

    def power(self, asked: schemas.PowerAsked) -> Design:
        """Say what a design gives."""
        return evaluate(
            asked.gamma,
            asked.delta,
            n_tokens=asked.n_tokens,
            alpha=asked.alpha,
            signal=self._signal(asked),
            edits=Edits(**_edits(asked)),
            variance_inflation=asked.variance_inflation,
            test=asked.test,
        )

    def curve(self, asked: schemas.CurveAsked) -> Curve:
        """Vary one quantity."""
        names = ("n_tokens", "alpha", "power", "kl", "gamma", "delta")
        return curve_of(
            asked.over,
            start=asked.start,
            stop=asked.stop,
            points=asked.points,
            given={name: getattr(asked, name) for name in names},
            signal=self._signal(asked),
            variance_inflation=asked.variance_inflation,
            edits=_edits(asked),
            attacked_power=asked.attacked_power,
        )

    def _signal(self, asked: schemas.SignalAsked) -> SignalModel:
        profile = self.library.profile(asked.profile)
        return signal_model(
            asked.signal, asked.vocab_size, asked.concentration, asked.mixture, profile
        )

    def detect(self, asked: schemas.DetectAsked, client: Client) -> dict[str, Any]:
        """Look for a mark in one text."""
        detector = self._detector(asked, [asked], client)
        found, scores = self._inspect(detector, asked)
        self._count(asked.spec, [found])
        if not asked.tokens:
            return told(found, asked.source, client)
        return answer(found, asked.source) | inspection(
            found, scores, self._pieces(detector, scores, asked)
        )

    def report(self, asked: schemas.DetectAsked, client: Client) -> str:
        """Return the page that ``powermark detect --html`` writes."""
        detector = self._detector(asked, [asked], client)
        found, scores = self._inspect(detector, asked)
        self._count(asked.spec, [found])
        shown = self._pieces(detector, scores, asked)
        return html_report(found, shown, evidence_path(scores, found))

    def detect_many(self, asked: schemas.BatchAsked, client: Client) -> dict[str, Any]:
        """Look for a mark in many texts; one that cannot be read does not stop the rest."""
        detector = self._detector(asked, asked.texts, client)
        results: list[dict[str, Any]] = [{} for _ in asked.texts]
        read: list[tuple[int, Any, Any]] = []  # place, ids of the text, ids of its prompt
        for place, text in enumerate(asked.texts):
            try:
                both = self._ids(detector, text.content), self._ids(detector, text.prompt or [])
                read.append((place, *both))
            except (PowermarkError, Refusal) as error:
                results[place] = _failure(text.source, error)
        start = time.thread_time()
        found = _each(detector, [ids for _, ids, _ in read], [before for *_, before in read])
        self.metrics.detecting.inc(time.thread_time() - start)
        self._count(asked.spec, [one for one in found if isinstance(one, Detection)])
        for (place, *_), one in zip(read, found, strict=True):
            source = asked.texts[place].source
            results[place] = (
                told(one, source, client) if isinstance(one, Detection) else _failure(source, one)
            )
        return {"results": results}

    def _detector(
        self, asked: schemas.DetectorAsked, texts: Sequence[schemas.TextAsked], client: Client
    ) -> Detector:
        """Return the detector that is asked for; another test, or ids, would be a finer oracle."""
        planned = self.library.mark(asked.spec).spec.planned_detector
        own = asked.alpha is not None or asked.detector not in (None, planned)
        ids = any(text.token_ids is not None for text in texts)
        if (own or ids) and not client.inspects:
            raise Refusal(
                403,
                "scope",
                "the scope detect gets the plan's test of a text at the plan's level; token ids, "
                "another detector or alpha need the scope inspect.",
            )
        return self.detectors.get(asked.spec, asked.alpha, asked.detector, asked.normalise)

    def _inspect(self, detector: Detector, asked: schemas.TextAsked) -> tuple[Detection, Scores]:
        ids = self._ids(detector, asked.content)
        prompt = None if asked.prompt is None else self._ids(detector, asked.prompt)
        start = time.thread_time()
        found = detector.inspect(ids, prompt=prompt)
        self.metrics.detecting.inc(time.thread_time() - start)
        return found

    def _ids(self, detector: Detector, content: str | list[int]) -> Any:
        """Return token ids, of which there may be so many."""
        start = time.thread_time()
        ids = np.asarray(detector.ids_of(content), np.int64)
        self.metrics.tokenising.inc(time.thread_time() - start)
        if ids.size > self.limits.n_tokens:
            most = self.limits.n_tokens
            raise Refusal(413, "too-large", f"a text may have {most:,} tokens; got {ids.size:,}.")
        return ids

    def _pieces(
        self, detector: Detector, scores: Scores, asked: schemas.DetectAsked
    ) -> list[Piece]:
        tokenizer = self.library.mark(asked.spec).tokenizer
        return pieces(scores, words_of(detector, tokenizer, asked.content))

    def _count(self, spec: str, found: list[Detection]) -> None:
        for one in found:
            self.metrics.verdicts.labels(spec, one.verdict).inc()
        self.metrics.tokens.inc(sum(one.tokens for one in found))


def _each(
    detector: Detector, texts: list[Any], prompts: list[Any]
) -> list[Detection | PowermarkError]:
    """Detect in all texts at once; where that fails, one by one, to know in which."""
    try:
        return [*detector.detect_many(texts, prompts=prompts)] if texts else []
    except PowermarkError as error:
        if len(texts) == 1:
            return [error]
    return [
        one
        for text, before in zip(texts, prompts, strict=True)
        for one in _each(detector, [text], [before])
    ]


def _failure(source: str, error: PowermarkError | Refusal) -> dict[str, Any]:
    why = error if isinstance(error, Refusal) else of_error(error)
    return {"source": source, **problem(why.code, why.detail, why.hint)}


def _edits(asked: schemas.SignalAsked) -> dict[str, Any]:
    names = ("edit_rate", "survival", "removal", "context_width")
    return {name: getattr(asked, name) for name in names}


def told(found: Detection, source: str, client: Client) -> dict[str, Any]:
    """Return all of a detection, or the little that the scope ``detect`` is told."""
    if client.inspects:
        return answer(found, source)
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
    """Put a service together; planning has a thread of its own and cannot hold up detection."""
    limits = limits or Limits()
    return Service(
        library=library,
        detectors=Detectors(library),
        limits=limits,
        tokens=tokens,
        rates=Rates(limits.rate),
        metrics=Metrics(),
        log=log or Log(),
        designing=Workers(2, limits),
        detecting=Workers(threads or os.cpu_count() or 1, limits),
        writer=None if model is None else Writer(model, limits),
    )
