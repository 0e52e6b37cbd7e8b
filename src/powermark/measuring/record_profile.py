"""Record a profile: a model's next-token distributions while it writes, at its own settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, count
from powermark.detection.text import sources_of, text_of, token_ids_of
from powermark.errors import FileProblem, Infeasible, InvalidInput
from powermark.files import sweep
from powermark.generation.prompts import style_of
from powermark.generation.writing import Sampling, batch_seed, digest_of_prompts
from powermark.models import LanguageModel
from powermark.models.chat import Prompt
from powermark.signals.edits import CONTEXT_WIDTH
from powermark.signals.green_mass import GreenMass
from powermark.signals.profile import Profile
from powermark.signals.profile_file import (
    MOST_STEPS,
    load_profile,
    save_profile,
    with_metadata,
)
from powermark.signals.round_trip import RoundTrip
from powermark.version import __version__
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec

if TYPE_CHECKING:
    from powermark.engines.transformers import WatermarkConfig

Part = tuple[NDArray[Any], ...]  # head, tail mass, tail square, text and ids of some steps
Mark = tuple[float, float]  # gamma and delta
_NEGLIGIBLE = 1e-4  # share of tokens changed below which a text counts as unmarked
HEAD = 64  # probabilities kept of each distribution; of the rest, the mass and sum of squares
# Texts take these biases in turn, so that the profile knows how marked text continues. Four in six
# are unmarked: good plans change little.
REFERENCE_GAMMA, REFERENCE_DELTAS = 0.25, (0.0, 0.0, 0.0, 0.0, 2.0, 6.0)


class Recorder:
    """Marks through another configuration, and keeps each step's distribution before the mark."""

    def __init__(self, mark: WatermarkConfig) -> None:
        self.steps: list[tuple[Any, ...]] = []
        self._mark = mark

    def construct_processor(self, *settings: Any) -> Recorder:
        """Start a new batch; :meth:`~powermark.models.LanguageModel.complete` calls this."""
        self.steps = []
        self._processor = self._mark.construct_processor(*settings)
        return self

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Keep the head and the moments of each row's distribution, then mark it."""
        p = scores.float().softmax(dim=-1)
        head = p.topk(min(HEAD, p.shape[-1]), dim=-1).values
        mass = 1.0 - head.sum(dim=-1)
        square = (p * p).sum(dim=-1) - (head * head).sum(dim=-1)
        self.steps.append(tuple(x.cpu().numpy() for x in (head, mass.clamp(0), square.clamp(0))))
        return self._processor(input_ids, scores)


def record_profile(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    seed: int = 0,
    batch: int = 16,
    so_far: Path | None = None,
    on_step: Callable[[], object] = lambda: None,
) -> Profile:
    """Let the model write, unmarked and marked in turn, and keep a sample of its distributions.

    Parameters
    ----------
    prompts
        Prompts like those of your users.
    sampling
        The settings of later use.
    so_far
        File for the finished batches; a run with the same settings resumes from it.
        :func:`keep_profile` removes it.
    """
    count("batch", batch)
    about = {
        "model": model.name,
        "model_digest": model.digest,
        "tokenizer_digest": model.tokenizer_digest,
        "vocab_size": model.vocab_size,
        **sampling.to_dict(),
        **style_of(prompts),
        "seed": seed,
        "batch": batch,
        "prompts": digest_of_prompts(prompts),
        "made_by": f"powermark {__version__}",
    }
    deltas = _Deltas()
    recorder = Recorder(_reference(model, seed, deltas))

    def write(first: int, some: Sequence[Prompt]) -> list[Part]:
        deltas.first = first
        written = model.complete(
            some,
            **dataclasses.asdict(sampling),
            seed=batch_seed(seed, first),
            watermarking_config=recorder,
            on_step=on_step,
        )
        stacked = [np.stack(values) for values in zip(*recorder.steps, strict=True)]
        return [
            part_of(
                first + row,
                [values[len(text.thinking_ids) :, row] for values in stacked],
                text.token_ids,
            )
            for row, text in enumerate(written)
        ]

    return gather(
        write,
        prompts,
        tokenizer=model.tokenizer,
        batch=batch,
        about=about,
        so_far=so_far,
        mark_of=_mark_of,
    )


def part_of(text: int, steps: Sequence[NDArray[Any]], ids: Sequence[int]) -> Part:
    """Return the part of a text: head, tail mass and tail square of each of its tokens."""
    n = len(ids)
    return (*(values[:n] for values in steps), np.full(n, text, np.int32), np.array(ids, np.int32))


def gather(
    write: Callable[[int, Sequence[Prompt]], Iterable[Part]],
    prompts: Sequence[Prompt],
    *,
    tokenizer: Any,
    batch: int,
    about: dict[str, Any],
    so_far: Path | None,
    mark_of: Callable[[int], Mark],
) -> Profile:
    """Write batch by batch, and assemble a profile.

    Parameters
    ----------
    write
        Returns the parts of a batch, given the number of its first text and its prompts.
    tokenizer
        Tokenises the texts again, as a detector will.
    mark_of
        Returns gamma and delta of a text, by its number.
    """
    n_tokens = about["n_tokens"]
    if len(prompts) * n_tokens > MOST_STEPS:
        raise InvalidInput(
            f"a profile may have {MOST_STEPS:,} steps; {len(prompts):,} texts of {n_tokens:,} "
            "tokens have more.",
            hint=f"ask for {MOST_STEPS // n_tokens:,} texts at most.",
        )
    parts, done = list[Part](), 0
    if so_far is not None:
        sweep(so_far)
        if so_far.exists():
            parts, done = _earlier(so_far, about)
    for first in range(done, len(prompts), batch):
        parts += (part for part in write(first, prompts[first : first + batch]) if part[-1].size)
        if so_far is not None and parts:
            save_profile(_joined(parts, {**about, "next": first + batch}, mark_of), so_far)
    if not parts:
        raise Infeasible("the model wrote nothing after these prompts.")
    return with_copies(_joined(parts, about, mark_of), tokenizer, prompts)


def with_copies(profile: Profile, tokenizer: Any, prompts: Sequence[Prompt]) -> Profile:
    """Return a profile that includes copies of its texts, tokenised again as by a detector.

    A copy lacks the special tokens and the whitespace around the text. The answer to a chat is a
    text of its own, so nothing precedes it.
    """
    texts, first = np.unique(profile.text, return_index=True)
    ends = np.append(first[1:], profile.text.size)
    rows, returns = list[Part](), np.zeros(profile.text.size, np.uint8)
    for text, start, end in zip(texts.tolist(), first.tolist(), ends.tolist(), strict=True):
        ids = profile.ids[start:end].tolist()
        whole, prompt = text_of(tokenizer, ids), prompts[text]
        before = prompt if isinstance(prompt, str) else ""
        copy = token_ids_of(tokenizer, whole.strip())
        place = sources_of(ids, copy)
        rows.append(
            (
                np.full(len(copy), text, np.int32),
                np.array(copy, np.int32),
                np.where(place >= 0, start + place, -1).astype(np.int32),
            )
        )
        exact = sources_of(ids, token_ids_of(tokenizer, whole))
        lead = token_ids_of(tokenizer, before)
        behind = sources_of([*lead, *ids], token_ids_of(tokenizer, before + whole)) - len(lead)
        returns[start + exact[exact >= 0]] |= 1
        returns[start + behind[behind >= 0]] |= 2
    text_of_each, ids_of_each, steps = map(np.concatenate, zip(*rows, strict=True))
    round_trip = RoundTrip(text_of_each, ids_of_each, steps, returns)
    about = {**profile.about, "answered": texts.size / len(prompts)}  # the others got no text
    return with_metadata(
        dataclasses.replace(profile, round_trip=round_trip, about=about, source="text")
    )


def keep_profile(profile: Profile, path: Path, so_far: Path) -> None:
    """Write a finished profile, then remove the file of its unfinished batches."""
    sweep(path)
    save_profile(profile, path)
    so_far.unlink(missing_ok=True)


class _Deltas:
    """Chooses the reference mark's bias of each text by its number, whatever the batch."""

    first = 0  # number of a batch's first text

    def __call__(self, input_ids: Any, _: Any) -> Array:
        return _bias_of(self.first + np.arange(input_ids.shape[0]))


def _bias_of(text: NDArray[Any]) -> Array:
    """Return the reference mark's bias for texts by number."""
    return np.asarray(np.array(REFERENCE_DELTAS)[text % len(REFERENCE_DELTAS)])


def _mark_of(text: int) -> Mark:
    return REFERENCE_GAMMA, float(_bias_of(np.array(text)))


def _reference(model: LanguageModel, seed: int, deltas: _Deltas) -> WatermarkConfig:
    """Return the reference mark, with a bias for each text; 0 leaves a text unmarked."""
    from powermark.engines.transformers import WatermarkConfig

    spec = WatermarkSpec(
        gamma=REFERENCE_GAMMA,
        delta=REFERENCE_DELTAS[-1],
        context_width=CONTEXT_WIDTH,
        vocab_size=model.vocab_size,
    )
    key = SecretKey(blake2b(f"profile {seed}".encode(), digest_size=32).digest())  # marks nothing
    return WatermarkConfig(spec, key, model.tokenizer, temperature=1.0, deltas=deltas)


def _joined(parts: list[Part], about: dict[str, Any], mark_of: Callable[[int], Mark]) -> Profile:
    """Put the parts of a profile end to end, with the strength of each mark and a digest."""
    arrays = [np.concatenate(values) for values in zip(*parts, strict=True)]
    texts, places = np.unique(arrays[3], return_inverse=True)
    marks = [mark_of(text) for text in texts.tolist()]
    strength = np.zeros(places.size, np.float32)
    for gamma, delta in {mark for mark in marks if mark[1] > 0.0}:
        mine = np.array([mark == (gamma, delta) for mark in marks])[places]
        mass = GreenMass(*(array[mine] for array in arrays[:3]))
        changed = float(mass.rates(gamma, delta).mean()) - gamma
        strength[mine] = changed if changed > _NEGLIGIBLE else 0.0
    head, mass_left, square, text, ids = arrays
    return with_metadata(Profile(head, mass_left, square, text, ids, strength, about))


def _earlier(path: Path, about: dict[str, Any]) -> tuple[list[Part], int]:
    """Return the batches of an interrupted run with the same settings, and where to resume."""
    found = load_profile(path, unfinished=True)
    other = any(found.about.get(name) != value for name, value in about.items())
    if other or "next" not in found.about:
        raise FileProblem(
            f"{str(path)!r} is an unfinished profile with other settings; it was not changed.",
            hint="repeat the settings of its first run, remove it, or choose another name.",
        )
    part = (found.head, found.tail_mass, found.tail_square, found.text, found.ids)
    return [part], int(found.about["next"])
