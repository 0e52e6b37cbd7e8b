"""A model, prompts and a folder of what the model has written.

Experiments ask for texts and profiles; those written before, with the same settings, are read
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from powermark.checks import Array
from powermark.errors import InvalidInput
from powermark.files import write_file
from powermark.generation.prompts import MOST, passages, read_texts
from powermark.generation.records import Records
from powermark.generation.writing import Record, Sampling, digest_of_prompts, write_texts
from powermark.measuring.record_profile import keep_profile, record_profile
from powermark.models import LanguageModel
from powermark.signals.edits import CONTEXT_WIDTH
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile
from powermark.signature import signature
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Scheme
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

OPENING = 50  # tokens of a passage to be continued, as in the paper
CORPORA = {  # the paper's corpora, as its authors read them
    "c4": "hf:allenai/c4:realnewslike",
    "lfqa": "hf:vblagoje/lfqa:::answers.text.0",
    "wikipedia": "hf:wikimedia/wikipedia:20231101.en",
}

Work = Callable[..., Any]  # called with a workspace and the parts of a batch
Spread = Callable[["Workspace", Work, Iterable[tuple[Any, ...]]], Iterator[Any]]


def in_turn(workspace: Workspace, work: Work, batches: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Run one batch after the other, in this process."""
    return (work(workspace, *batch) for batch in batches)


@dataclass(frozen=True)
class Workspace:
    """Writes texts on request; texts of the same settings are read back from disk.

    Parameters
    ----------
    data
        Folder of JSONL files with prompts or passages; None to fetch corpora by name.
    work
        Folder for texts and profiles.
    key
        The key of every mark in the experiments.
    spread
        Runs the batches of a grid and yields their results in order.
    most
        Passages to take of a fetched corpus.
    """

    model: LanguageModel
    data: Path | None
    work: Path
    key: SecretKey
    batch: int = 96
    seed: int = 0
    on_step: Callable[[], object] = lambda: None
    say: Callable[[str], object] = lambda _: None
    spread: Spread = in_turn
    most: int = MOST

    def prompts(self, corpus: str, first: int, count: int) -> list[str]:
        """Return prompts number ``first`` to ``first + count`` of a file, in a fixed random order.

        Files are often sorted by source; the prompts of a profile and those after it must not be.
        """
        return self._drawn(corpus, first, count, whole=False)

    def openings(self, corpus: str, count: int, first: int = 0) -> list[str]:
        """Return the first OPENING tokens of passages, in a fixed random order."""
        tokenizer = self.model.tokenizer
        ids = (
            tokenizer.encode(text, add_special_tokens=False)
            for text in self._drawn(corpus, first, count, whole=True)
        )
        return [tokenizer.decode(row[:OPENING]) for row in ids]

    def _drawn(self, corpus: str, first: int, count: int, *, whole: bool) -> list[str]:
        if self.data is None:
            found = _fetched(corpus, self.most)
        else:
            found = read_texts(self.data / f"{corpus}.jsonl", whole=whole)
        if len(found) < first + count:
            raise InvalidInput(f"{corpus} has {len(found)} prompts; {first + count} are needed.")
        order = np.random.default_rng(0).permutation(len(found))
        return [found[i] for i in order[first : first + count]]

    def profile(self, prompts: list[str], sampling: Sampling) -> Profile:
        """Return the model's profile on these prompts."""
        parts = {"model": self.model.digest, **sampling.to_dict(), "seed": self.seed}
        line = signature("profile", batch=self.batch, prompts=digest_of_prompts(prompts), **parts)
        path = self.path(line, "npz")
        if not path.exists():
            self.say(line)
            so_far = path.with_suffix(".part")
            found = record_profile(
                self.model,
                prompts,
                sampling,
                seed=self.seed,
                batch=self.batch,
                so_far=so_far,
                on_step=self.on_step,
            )
            keep_profile(found, path, so_far)
        return load_profile(path)

    def spec(self, gamma: float, delta: float) -> WatermarkSpec:
        """Return the spec of a mark for this model."""
        return WatermarkSpec(
            gamma=gamma,
            delta=delta,
            context_width=CONTEXT_WIDTH,
            vocab_size=self.model.vocab_size,
            tokenizer_digest=self.model.tokenizer_digest,
        )

    def scheme(self, gamma: float) -> Scheme:
        """Return the green lists of a gamma under the key."""
        return Watermark(self.spec(gamma, 1.0), self.key).scheme

    def texts(
        self,
        prompts: list[str],
        sampling: Sampling,
        *,
        gamma: float | None = None,
        deltas: Array | float | None = None,
        steering: dict[str, Any] | None = None,
        batch: int | None = None,
    ) -> list[Record]:
        """Return the model's texts after these prompts; unmarked without ``gamma``.

        The prompts take the ``deltas`` in turn, so the batch must be a multiple of their number.
        A schedule, ``steering``, replaces them.
        """
        batch = self.batch if batch is None else batch
        each = [] if deltas is None else np.atleast_1d(np.asarray(deltas, np.float64)).tolist()
        parts: dict[str, Any] = {"model": self.model.digest, **sampling.to_dict(), "g": gamma}
        line = signature(
            "texts",
            **parts,
            d=",".join(f"{delta:.10g}" for delta in each) or None,
            schedule=None if steering is None else _digest(steering["deltas"]),
            h=CONTEXT_WIDTH,
            key=self.key.fingerprint,
            seed=self.seed,
            batch=batch,
            prompts=digest_of_prompts(prompts),
        )
        path = self.path(line, "jsonl")
        with Records(path, line, batch, len(prompts)) as records:
            if records.done < len(prompts):
                self.say(line)
                for rows in write_texts(
                    self.model,
                    prompts,
                    sampling,
                    seed=self.seed,
                    batch=batch,
                    config=None if gamma is None else self._config(gamma, each, steering, sampling),
                    done=records.done,
                    signature=line,
                    on_step=self.on_step,
                ):
                    records.append(rows)
            return records.rows()

    def _config(
        self,
        gamma: float,
        deltas: list[float],
        steering: dict[str, Any] | None,
        sampling: Sampling,
    ) -> Any:
        from powermark.engines.transformers import WatermarkConfig

        spec = self.spec(gamma, max(deltas, default=1.0))
        return WatermarkConfig(
            replace(spec, steering=steering),
            self.key,
            self.model.tokenizer,
            temperature=sampling.temperature,
            deltas=(lambda ids, _: np.resize(deltas, ids.shape[0])) if deltas else None,
            record_kl=True,
        )

    def remembered(self, line: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the JSON object of a signature: from the folder, or made now and kept there."""
        path = self.path(line, "json")
        if not path.exists():
            write_file(path, json.dumps(make()).encode())
        return dict(json.loads(path.read_bytes()))

    def path(self, line: str, suffix: str) -> Path:
        """Return the file of a signature."""
        return self.work / f"{_digest(line)}.{suffix}"


@lru_cache(maxsize=8)
def _fetched(corpus: str, most: int) -> list[str]:
    """Return the passages of a named corpus, from a package or a hub."""
    return passages(CORPORA.get(corpus, corpus), most)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
