"""Record a model's next-token distributions while it writes, at the settings it will have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from powermark.calibration.profile import Profile
from powermark.calibration.profile_file import profile_digest
from powermark.checks import count
from powermark.errors import Infeasible
from powermark.models import LanguageModel
from powermark.version import __version__

HEAD = 64  # probabilities kept of each distribution; of the rest its mass and sum of squares


class Recorder:
    """Stands where transformers expects a watermark: last in sampling, and changes nothing."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, ...]] = []

    def construct_processor(self, *_: Any) -> Recorder:
        """Return itself; transformers calls this."""
        self.steps = []
        return self

    def validate(self) -> None:
        """Nothing is there to check; transformers calls this."""

    def __deepcopy__(self, memo: object) -> Recorder:
        return self  # generate() copies its configuration; the record must stay this one

    def to_dict(self) -> dict[str, Any]:
        """Return nothing; transformers asks."""
        return {}

    def __call__(self, _: Any, scores: Any) -> Any:
        """Keep the head and the moments of each row's distribution."""
        p = scores.float().softmax(dim=-1)
        head = p.topk(min(HEAD, p.shape[-1]), dim=-1).values
        mass = 1.0 - head.sum(dim=-1)
        square = (p * p).sum(dim=-1) - (head * head).sum(dim=-1)
        self.steps.append(tuple(x.cpu().numpy() for x in (head, mass.clamp(0), square.clamp(0))))
        return scores


def record_profile(
    model: LanguageModel,
    prompts: Sequence[str],
    *,
    n_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    batch: int = 16,
    on_step: Callable[[], object] = lambda: None,
) -> Profile:
    """Let the model write unmarked text and keep a sample of what it chose from.

    Parameters
    ----------
    prompts
        What your users would ask; the more alike, the truer the profile.
    n_tokens
        Tokens to write after each, at most.
    temperature, top_k, top_p
        As they will be used.
    """
    count("batch", batch)
    recorder, parts = Recorder(), []
    for first in range(0, len(prompts), batch):
        written = model.complete(
            prompts[first : first + batch],
            n_tokens=n_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed + first,
            watermarking_config=recorder,
            on_step=on_step,
        )
        stacked = [np.stack(values) for values in zip(*recorder.steps, strict=True)]
        for row, text in enumerate(written):
            n = len(text.token_ids)
            head, mass, square = (values[:n, row] for values in stacked)
            number = np.full(n, first + row, np.int32)
            parts.append((head, mass, square, number, np.array(text.token_ids, np.int32)))
    parts = [part for part in parts if part[3].size]
    if not parts:
        raise Infeasible("the model wrote nothing after these prompts.")
    head, mass, square, number, ids = (
        np.concatenate(values) for values in zip(*parts, strict=True)
    )
    about = {
        "model": model.name,
        "tokenizer_digest": model.tokenizer_digest,
        "vocab_size": model.vocab_size,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "texts": len(parts),
        "steps": int(number.size),
        "made_by": f"powermark {__version__}",
    }
    profile = Profile(head, mass, square, number, ids, about)
    return dataclasses.replace(profile, about={**about, "digest": profile_digest(profile)})
