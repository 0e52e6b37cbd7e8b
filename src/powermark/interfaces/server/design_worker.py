"""Plans, specs, powers and curves, computed in a child process.

A steered plan may take minutes and gigabytes, and Python cannot end a thread. A process can be
ended at the time limit, and its memory freed. It runs at a low priority, so that detection comes
first, and never gets a key. It reads pickled requests from standard input and answers on standard
output, one at a time.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal

from powermark.errors import PowermarkError
from powermark.interfaces.server import schemas
from powermark.interfaces.server.answers import rendered
from powermark.interfaces.signal_options import signal_model, tokens_of
from powermark.planning.assumption import with_assumption
from powermark.planning.coverage import scored_share
from powermark.planning.curve import Curve, CurveRequest
from powermark.planning.design import Design, evaluate
from powermark.planning.lengths import Lengths
from powermark.planning.plan import Plan, plan_for
from powermark.planning.request import Request
from powermark.signals.edits import Edits
from powermark.signals.profile import Profile
from powermark.signals.signal import SignalModel
from powermark.watermark.spec import WatermarkSpec

Route = Literal["plan", "spec", "power", "curve"]
MEMORY = 2 << 30  # bytes that a design may use
_GROWTH = 192 << 20  # bytes; a process that has grown by more ends after its answer
_NICENESS = 10
_QUANTITIES = ("n_tokens", "alpha", "power", "kl", "gamma", "delta")
_GIVEN = (*_QUANTITIES, "attacked_power", "variance_inflation")
_PLANNED = (*_GIVEN, "method", "detector", "precision", "steer", "delta_cap", "kl_cap", "coverage")
_VARIED = (*_GIVEN, "over", "start", "stop", "points")


@dataclass(frozen=True, slots=True)
class Failure:
    """An unexpected error: its kind and place, but not its message, which may quote a request."""

    kind: str
    where: list[str]

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an error."""
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        return cls(type(error).__name__, [f"{frame.name}:{frame.lineno}" for frame in frames])


Answer = bytes | PowermarkError | Failure


@dataclass(frozen=True, slots=True)
class Designs:
    """The loaded specs and profiles, by name, that requests may use."""

    specs: Mapping[str, WatermarkSpec]
    profiles: Mapping[str, Profile]

    def answer(self, route: Route, request: Any) -> Answer:
        """Return the JSON of one design, or the error."""
        try:
            return rendered(getattr(self, route)(request).to_dict())
        except PowermarkError as error:
            return error
        except Exception as error:
            return Failure.of(error)

    def plan(self, request: schemas.PlanRequest) -> Plan:
        """Solve for the quantity that is left out."""
        schemas.check_steering(request)
        signal, lengths = self._signal(request), None
        if request.lengths is not None:
            lengths = Lengths.of_generated(request.lengths, scored_share(signal))
        asked = Request.of(
            **{name: getattr(request, name) for name in _PLANNED},
            **_edits(request),
            signal=signal,
            checkpoints=request.checkpoint,
            lengths=lengths,
        )
        return with_assumption(plan_for(asked), asked)

    def spec(self, request: schemas.SpecRequest) -> WatermarkSpec:
        """Freeze a plan, for the vocabulary of a loaded spec, a profile or a number of ids."""
        known = None if request.spec is None else self.specs[request.spec]
        size = request.vocab_size if known is None else known.vocab_size
        if request.signal != "dirichlet":
            request = request.model_copy(update={"vocab_size": None})
        digest = known.tokenizer_digest if known else None
        size, digest = tokens_of(
            self._signal(request), size, digest, hint="give spec, vocab_size or profile."
        )
        return WatermarkSpec.from_plan(
            self.plan(request),
            vocab_size=size,
            tokenizer_digest=digest,
            key_fingerprint=known.key_fingerprint if known else None,
        )

    def power(self, request: schemas.PowerRequest) -> Design:
        """Evaluate a design."""
        return evaluate(
            request.gamma,
            request.delta,
            n_tokens=request.n_tokens,
            alpha=request.alpha,
            signal=self._signal(request),
            edits=Edits(**_edits(request)),
            variance_inflation=request.variance_inflation,
            test=request.test,
        )

    def curve(self, request: schemas.CurveRequest) -> Curve:
        """Vary one quantity."""
        return CurveRequest(
            **{name: getattr(request, name) for name in _VARIED},
            signal=self._signal(request),
            edits=Edits(**_edits(request)),
        ).curve()

    def _signal(self, request: schemas.SignalFields) -> SignalModel:
        return signal_model(
            request.signal,
            vocab_size=request.vocab_size,
            concentration=request.concentration,
            mixture=request.mixture,
            topics=request.topics,
            profile=None if request.profile is None else self.profiles[request.profile],
            like=request.like,
            entropy=request.entropy,
            source=request.source,
        )


def _edits(request: schemas.SignalFields) -> dict[str, Any]:
    names = ("edit_rate", "survival", "removal", "context_width")
    return {name: getattr(request, name) for name in names}


def answer_all(requests: IO[bytes], answers: IO[bytes], growth: int = _GROWTH) -> None:
    """Answer requests until there are no more, or until memory has grown too much."""
    designs: Designs = pickle.load(requests)
    most = _most_memory() + growth
    while True:
        try:
            route, request = pickle.load(requests)
        except EOFError:
            return
        answer = designs.answer(route, request)
        last = _most_memory() > most
        pickle.dump((answer, last), answers)
        answers.flush()
        if last:
            return


def _most_memory() -> int:
    """Return the peak memory of this process in bytes; 0 where it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def restrain() -> None:
    """Lower the priority and limit the memory of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    os.nice(_NICENESS)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def main() -> None:  # pragma: no cover (a child process)
    """Run as a process: requests on standard input, answers on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries must not mix with the answers
    restrain()
    answer_all(sys.stdin.buffer, answers)
