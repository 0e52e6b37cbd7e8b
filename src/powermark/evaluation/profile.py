"""Record a model's next-token distributions while it writes, at the settings it will have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from powermark.calibration.edits import CONTEXT_WIDTH
from powermark.calibration.green_mass import GreenMass
from powermark.calibration.profile import Profile
from powermark.calibration.profile_file import load_profile, profile_digest, save_profile
from powermark.checks import Array, count
from powermark.errors import FileProblem, Infeasible
from powermark.evaluation.writing import Sampling, batch_seed, digest_of_prompts
from powermark.files import sweep
from powermark.models import LanguageModel
from powermark.version import __version__
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec

if TYPE_CHECKING:
    from powermark.integrations.transformers import WatermarkConfig

Part = tuple[NDArray[Any], ...]  # head, tail mass, tail square, text and ids of some steps
Mark = tuple[float, float]  # gamma and delta
_NOTHING = 1e-4  # share of tokens changed below which a text is as good as unmarked
HEAD = 64  # probabilities kept of each distribution; of the rest its mass and sum of squares


# Texts are written in turn without a mark and under these, so that the profile knows how text that
# is marked goes on. Four in six are unmarked: plans that are worth having change little.
REFERENCE_GAMMA, REFERENCE_DELTAS = 0.25, (0.0, 0.0, 0.0, 0.0, 2.0, 6.0)


class Recorder:
    """Stands where transformers expects a watermark, last in sampling, and marks through another.

    What it keeps of each step is the distribution before that mark.
    """

    def __init__(self, mark: WatermarkConfig) -> None:
        self.steps: list[tuple[Any, ...]] = []
        self._mark = mark

    def construct_processor(self, *settings: Any) -> Recorder:
        """Begin anew and return itself; transformers calls this."""
        self.steps = []
        self._processor = self._mark.construct_processor(*settings)
        return self

    def validate(self) -> None:
        """Nothing is there to check; transformers calls this."""

    def __deepcopy__(self, memo: object) -> Recorder:
        return self  # generate() copies its configuration; the record must stay this one

    def to_dict(self) -> dict[str, Any]:
        """Return nothing; transformers asks."""
        return {}

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
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    seed: int = 0,
    batch: int = 16,
    so_far: Path | None = None,
    on_step: Callable[[], object] = lambda: None,
) -> Profile:
    """Let the model write, unmarked and marked in turn, and keep a sample of what it chose from.

    Parameters
    ----------
    prompts
        What your users would ask; the more alike, the truer the profile.
    sampling
        As it will be used.
    so_far
        File for what is done, batch by batch; a run that finds one of its own goes on there.
        :func:`keep_profile` removes it.
    """
    count("batch", batch)
    about = {
        "model": model.name,
        "model_digest": model.digest,
        "tokenizer_digest": model.tokenizer_digest,
        "vocab_size": model.vocab_size,
        **dataclasses.asdict(sampling),
        "seed": seed,
        "batch": batch,
        "prompts": digest_of_prompts(prompts),
        "made_by": f"powermark {__version__}",
    }
    dealt = _Dealt()
    recorder = Recorder(_reference(model, seed, dealt))

    def write(first: int, some: Sequence[str]) -> list[Part]:
        dealt.first = first
        written = model.complete(
            some,
            **dataclasses.asdict(sampling),
            seed=batch_seed(seed, first),
            watermarking_config=recorder,
            on_step=on_step,
        )
        stacked = [np.stack(values) for values in zip(*recorder.steps, strict=True)]
        return [
            part_of(first + row, [values[:, row] for values in stacked], text.token_ids)
            for row, text in enumerate(written)
        ]

    return gather(write, prompts, batch=batch, about=about, so_far=so_far, mark_of=_mark_of)


def part_of(text: int, steps: Sequence[NDArray[Any]], ids: Sequence[int]) -> Part:
    """Return what is kept of a text: of each of its tokens head, tail mass and tail square."""
    n = len(ids)
    return (*(values[:n] for values in steps), np.full(n, text, np.int32), np.array(ids, np.int32))


def gather(
    write: Callable[[int, Sequence[str]], Iterable[Part]],
    prompts: Sequence[str],
    *,
    batch: int,
    about: dict[str, Any],
    so_far: Path | None,
    mark_of: Callable[[int], Mark],
) -> Profile:
    """Write after some prompts at a time, and put a profile together.

    Parameters
    ----------
    write
        Returns the parts of a batch, given the number of its first text and its prompts.
    mark_of
        Gamma and delta that a text was written under, by its number.
    """
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
    return _joined(parts, about, mark_of)


def keep_profile(profile: Profile, path: Path, so_far: Path) -> None:
    """Write a finished profile, and only then remove what was kept on the way to it."""
    sweep(path)
    save_profile(profile, path)
    so_far.unlink(missing_ok=True)


class _Dealt:
    """Deals the reference mark's biases to texts by their number, whatever the batch."""

    first = 0  # number of a batch's first text

    def __call__(self, input_ids: Any, _: Any) -> Array:
        return _bias_of(self.first + np.arange(input_ids.shape[0]))


def _bias_of(text: NDArray[Any]) -> Array:
    """Return the reference mark's bias for texts by number."""
    return np.asarray(np.array(REFERENCE_DELTAS)[text % len(REFERENCE_DELTAS)])


def _mark_of(text: int) -> Mark:
    return REFERENCE_GAMMA, float(_bias_of(np.array(text)))


def _reference(model: LanguageModel, seed: int, dealt: _Dealt) -> WatermarkConfig:
    """Return a mark of which each text has its own strength, some none."""
    from powermark.integrations.transformers import WatermarkConfig

    spec = WatermarkSpec(
        gamma=REFERENCE_GAMMA,
        delta=REFERENCE_DELTAS[-1],
        context_width=CONTEXT_WIDTH,
        vocab_size=model.vocab_size,
    )
    key = SecretKey(blake2b(f"profile {seed}".encode(), digest_size=32).digest())  # marks nothing
    return WatermarkConfig(spec, key, model.tokenizer, temperature=1.0, deltas=dealt)


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
        strength[mine] = changed if changed > _NOTHING else 0.0
    head, mass_left, square, text, ids = arrays
    profile = Profile(head, mass_left, square, text, ids, strength, about)
    profile = dataclasses.replace(profile, about=profile.origin)
    digest = profile_digest(profile)
    return dataclasses.replace(profile, about={**profile.about, "digest": digest})


def _earlier(path: Path, about: dict[str, Any]) -> tuple[list[Part], int]:
    """Return what an interrupted run of the same settings has recorded, and where to go on."""
    found = load_profile(path, unfinished=True)
    other = any(found.about.get(name) != value for name, value in about.items())
    if other or "next" not in found.about:
        raise FileProblem(
            f"{str(path)!r} is an unfinished profile of other settings and is left alone.",
            hint="repeat the settings that it was begun with, remove it, or choose another name.",
        )
    part = (found.head, found.tail_mass, found.tail_square, found.text, found.ids)
    return [part], int(found.about["next"])
