"""Let a model write: records of marked or unmarked texts, batch after batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from powermark.detection.text import lost_in_round_trip
from powermark.errors import InvalidInput, SpecMismatch

if TYPE_CHECKING:
    from powermark.integrations.row_groups import RowGroups
    from powermark.integrations.transformers import WatermarkConfig
    from powermark.models import LanguageModel

Record = dict[str, Any]
SETTINGS = ("temperature", "top_k", "top_p")  # of sampling; a profile has its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a model is asked to write: tokens at most, and what they are drawn from."""

    n_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def sampling_for(
    profile: Mapping[str, Any] | None,
    n_tokens: int,
    *,
    strict: bool = False,
    **asked: float | None,
) -> tuple[Sampling, list[str]]:
    """Return how to write, with notes: as asked, else as the plan's profile was, else plainly.

    Parameters
    ----------
    profile
        What the plan says of its profile; None where it has none. It then assumes the model's own
        distribution, which is the default of :class:`Sampling`.
    strict
        A plan made with a profile holds for the profile's settings alone: refuse others, and
        temperature 0, where nothing is chosen. Else others get a note.
    """
    about = profile or {}
    planned = {name: about[name] for name in SETTINGS if about.get(name) is not None}
    chosen = {name: value for name, value in asked.items() if value is not None}
    notes = []
    for name, value in chosen.items():
        if (theirs := planned.get(name, value)) != value:
            if strict:
                raise SpecMismatch(
                    f"the plan is for {name} {theirs:g}; got {value:g}.",
                    hint="record a profile at that setting and plan with it.",
                )
            notes.append(
                f"the plan is for {name} {theirs:g}; at {value:g} its promises do not hold."
            )
    settings: dict[str, Any] = planned | chosen
    sampling = Sampling(n_tokens=n_tokens, **settings)
    if strict and sampling.temperature == 0:
        raise InvalidInput("temperature must be above 0: a mark needs a choice to act on.")
    return sampling, notes


def write_texts(
    model: LanguageModel,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    seed: int,
    batch: int,
    config: WatermarkConfig | None = None,
    done: int = 0,
    signature: str = "",
    on_step: Callable[[], object] = lambda: None,
    stop: Callable[[Any], bool] = lambda ids: False,  # noqa: ARG005
) -> Iterator[list[Record]]:
    """Yield the records of one batch after another.

    Parameters
    ----------
    config
        The mark; None for none. Where it records KL, so do the records.
    done
        Prompts that an earlier run has seen to; the rest comes out as if it had not stopped.
    signature
        Goes into each record.
    stop
        As for :meth:`~powermark.models.LanguageModel.complete`.
    """
    for first in range(done, len(prompts), batch):
        part = prompts[first : first + batch]
        found = write_batch(
            model,
            part,
            sampling,
            seed=seed,
            first=first,
            config=config,
            on_step=on_step,
            stop=stop,
        )
        yield [{**record, "signature": signature} for record in found]


def write_batch(
    model: LanguageModel,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    seed: int,
    first: int,
    config: WatermarkConfig | RowGroups | None = None,
    on_step: Callable[[], object] = lambda: None,
    stop: Callable[[Any], bool] = lambda ids: False,  # noqa: ARG005
) -> list[Record]:
    """Return the records of one batch, which begins with text number ``first``."""
    found = model.complete(
        prompts,
        **asdict(sampling),
        seed=batch_seed(seed, first),
        watermarking_config=config,
        on_step=on_step,
        stop=stop,
    )
    rows = []
    for row, (prompt, text) in enumerate(zip(prompts, found, strict=True)):
        record: Record = {
            "index": first + row,
            "prompt": prompt,
            "text": text.text,
            "prompt_ids": text.prompt_ids,
            "token_ids": text.token_ids,
            "finished": text.finished,
            "lost_ids": lost_in_round_trip(model.tokenizer, text.token_ids),
            "seed": seed,
        }
        if config is not None and config.record is not None:
            seen = slice(len(text.token_ids)), row
            record["kl"] = config.record.kl[seen].tolist()
            record["green_rate"] = config.record.green_rate[seen].tolist()
        rows.append(record)
    return rows


def batch_seed(seed: int, first: int) -> int:
    """Return a batch's own seed: batches of one run and of neighbouring seeds share nothing."""
    digest = blake2b(f"{seed} {first}".encode(), digest_size=8, person=b"pm-batch").digest()
    return int.from_bytes(digest, "big") >> 1


def digest_of_prompts(prompts: Sequence[str]) -> str:
    """Return 12 hexadecimal digits that tell lists of prompts apart."""
    return blake2b(json.dumps(list(prompts)).encode(), digest_size=6).hexdigest()
