"""Verify a live server: its texts against the promise, detections and speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from powermark.detection.detector import Detector
from powermark.generation.endpoint import Answers
from powermark.measuring.verification import Verification
from powermark.measuring.verify import verify
from powermark.planning.design import Design
from powermark.signals.profile import Profile


def verify_answers(
    answers: Answers,
    detector: Detector,
    promise: Design,
    *,
    profile: Profile | None = None,
    seed: int = 0,
    about: dict[str, str] | None = None,
) -> Verification:
    """Compare a server's texts with the promise, and count those that the detector finds.

    Parameters
    ----------
    answers
        From :func:`~powermark.generation.endpoint.ask`.
    detector
        Detector of the mark that was requested, with its one key.
    promise
        From :func:`~powermark.measuring.promise.promise_of`.
    profile
        Adds this profile's predictions to the result.
    seed
        Seeds the edits, if the promise is for edited text.
    about
        As in :func:`~powermark.measuring.verify.verify`.
    """
    found = verify(
        next(iter(detector.watermarks.values())),
        promise,
        answers.marked,
        answers.unmarked,
        profile=profile,
        tokenizer=detector.tokenizer,
        special_ids=detector.special_ids,
        seed=seed,
        about=about,
    )
    notes = list(found.notes)
    for kind, records in (("marked", answers.marked), ("unmarked", answers.unmarked)):
        if records:
            seen = _called_marked(detector, [record["token_ids"] for record in records])
            same = _called_marked(detector, [record["text"] for record in records])
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
        notes.append("note: the server sent no token ids; its texts were tokenised again.")
    return replace(found, notes=tuple(notes), speed=speed)


def _called_marked(detector: Detector, texts: list[Any]) -> int:
    return sum(found.verdict == "watermarked" for found in detector.detect_many(texts))
