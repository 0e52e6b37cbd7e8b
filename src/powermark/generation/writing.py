"""Let a model write marked or unmarked texts, batch by batch, as records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from powermark.detection.text import lost_in_round_trip, text_of
from powermark.errors import EngineProblem, InvalidInput, SpecMismatch
from powermark.generation.records import Records
from powermark.models.chat import Prompt, Thoughts
from powermark.signals.sampling import SETTINGS, settings_of, unplanned
from powermark.signature import signature
from powermark.watermark.watermark import Watermark

if TYPE_CHECKING:
    from powermark.engines.row_groups import RowGroups
    from powermark.engines.transformers import WatermarkConfig
    from powermark.models import LanguageModel


Record = dict[str, Any]
Watch = Callable[[int], AbstractContextManager[Callable[[], object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling settings: the most tokens of a text, temperature and truncation."""

    n_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for signatures and profiles; later ones only if they are used."""
        found = asdict(self)
        for name in ("min_p", "repetition_penalty"):  # since 0.2
            if found[name] == SETTINGS[name]:
                del found[name]
        return found


def sampling_for(
    profile: Mapping[str, Any] | None,
    n_tokens: int,
    *,
    strict: bool = False,
    **given: float | None,
) -> tuple[Sampling, list[str]]:
    """Return sampling settings and notes: the given settings, else the profile's, else defaults.

    Parameters
    ----------
    profile
        Metadata of the plan's profile; None if the plan has none. Such a plan assumes the model's
        own distribution, which is the default of :class:`Sampling`.
    strict
        Refuse settings other than the profile's, for which the plan does not hold, and temperature
        0, which leaves nothing to choose. Otherwise they get a note.
    given
        Some of SETTINGS; None for those not given.
    """
    planned = settings_of(profile or {})
    chosen = {name: value for name, value in given.items() if value is not None}
    notes = []
    for name, (theirs, value) in unplanned(profile or {}, chosen).items():
        if strict:
            raise SpecMismatch(
                f"the plan is for {name} {theirs:g}; got {value:g}.",
                hint="record a profile at that setting and plan with it.",
            )
        notes.append(f"the plan is for {name} {theirs:g}; at {value:g} its promises do not hold.")
    settings: dict[str, Any] = planned | chosen
    sampling = Sampling(n_tokens=n_tokens, **settings)
    if strict and sampling.temperature == 0:
        raise InvalidInput("temperature must be above 0: a mark needs a choice to act on.")
    return sampling, notes


def mark_for(
    mark: Watermark,
    model: LanguageModel,
    sampling: Sampling,
    *,
    rows: Callable[[Any], Any] | None = None,
    thinking: bool = False,
    record_kl: bool = False,
) -> WatermarkConfig:
    """Return the configuration that marks a model's texts.

    Parameters
    ----------
    rows
        Which rows of a batch get the mark, from their ids; all by default.
    thinking
        Whether thoughts before an answer are marked. Detectors see only the answer.
    """
    from powermark.engines.transformers import WatermarkConfig

    marked, thoughts = rows, Thoughts(model.tokenizer)
    if thoughts.exist:
        if mark.spec.schedule is not None:
            raise EngineProblem(
                "a steered mark counts from the first token, and this model thinks before it "
                "answers.",
                hint="plan without --steer.",
            )
        if not thinking:
            marked = _answering(thoughts, rows)
    return WatermarkConfig(
        mark.spec,
        mark.key,
        model.tokenizer,
        temperature=sampling.temperature or 1.0,
        marked=marked,
        record_kl=record_kl,
    )


def _answering(thoughts: Thoughts, rows: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Return a function that says which rows have ended their thought, or have none."""

    def marked(ids: Any) -> Any:
        open_thought = [thoughts.answer_start(row) == len(row) for row in ids.tolist()]
        chosen = np.ones(len(open_thought), bool) if rows is None else np.asarray(rows(ids), bool)
        return chosen & ~np.array(open_thought)

    return marked


def write_texts(
    model: LanguageModel,
    prompts: Sequence[Prompt],
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
        The mark, or None. If it records KL, the records contain it.
    done
        Prompts finished by an earlier run; the rest comes out as in an uninterrupted run.
    signature
        Added to each record.
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
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    seed: int,
    first: int,
    config: WatermarkConfig | RowGroups | None = None,
    on_step: Callable[[], object] = lambda: None,
    stop: Callable[[Any], bool] = lambda ids: False,  # noqa: ARG005
) -> list[Record]:
    """Return the records of one batch, whose first text is number ``first``."""
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
            first_seen = len(text.thinking_ids)
            seen = slice(first_seen, first_seen + len(text.token_ids)), row
            record["kl"] = config.record.kl[seen].tolist()
            record["green_rate"] = config.record.green_rate[seen].tolist()
            record["certainty"] = config.record.certainty[seen].tolist()
        if text.thinking_ids:
            record["thinking"] = text_of(model.tokenizer, text.thinking_ids)
        rows.append(record)
    return rows


def batch_seed(seed: int, first: int) -> int:
    """Return the seed of a batch, unrelated to those of other batches and other seeds."""
    digest = blake2b(f"{seed} {first}".encode(), digest_size=8, person=b"pm-batch").digest()
    return int.from_bytes(digest, "big") >> 1


def digest_of_prompts(prompts: Sequence[Prompt]) -> str:
    """Return 12 hexadecimal digits that identify a list of prompts."""
    return blake2b(json.dumps(list(prompts)).encode(), digest_size=6).hexdigest()


def write_pairs(
    mark: Watermark,
    model: LanguageModel,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    seed: int,
    batch: int,
    thinking: bool = False,
    output: Path | None = None,
    watch: Watch = lambda steps: nullcontext(lambda: None),  # noqa: ARG005
) -> tuple[list[Record], list[Record]]:
    """Write two texts for each prompt, marked and unmarked, and return the records of each kind.

    Parameters
    ----------
    batch
        Texts of each kind at a time.
    thinking
        Whether thoughts before an answer are marked.
    output
        Keep the texts in this file, and resume from it.
    watch
        Given the number of steps, returns a context whose value is called after each step.
    """
    twice = [prompt for prompt in prompts for _ in range(2)]
    config = mark_for(
        mark,
        model,
        sampling,
        rows=lambda ids: np.arange(ids.shape[0]) % 2 == 0,
        thinking=thinking,
        record_kl=True,
    )
    line = signature(
        "verify-texts",
        spec=mark.spec.digest,
        key=mark.fingerprint,
        model=model.digest,
        **sampling.to_dict(),
        seed=seed,
        batch=batch,
        prompts=digest_of_prompts(prompts),
        thinking="marked" if thinking else None,
    )
    rows: list[Record] = []
    with ExitStack() as stack:
        records = None
        if output is not None:
            records = stack.enter_context(Records(output, line, 2 * batch, len(twice)))
            rows = records.rows()
        steps = -(-(len(twice) - len(rows)) // (2 * batch)) * sampling.n_tokens
        for part in write_texts(
            model,
            twice,
            sampling,
            seed=seed,
            batch=2 * batch,
            config=config,
            done=len(rows),
            signature=line,
            on_step=stack.enter_context(watch(steps)),
        ):
            rows += part
            if records is not None:
                records.append(part)
    return rows[::2], rows[1::2]
