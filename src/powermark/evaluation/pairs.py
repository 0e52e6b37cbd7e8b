"""Two texts for each prompt, with the mark and without, for a promise to be measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from powermark.evaluation.records import Records
from powermark.evaluation.writing import Record, Sampling, digest_of_prompts, write_texts
from powermark.signature import signature
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec

if TYPE_CHECKING:
    from powermark.models import LanguageModel

Watch = Callable[[int], AbstractContextManager[Callable[[], object]]]


def write_pairs(
    spec: WatermarkSpec,
    key: SecretKey | HashKey,
    model: LanguageModel,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    seed: int,
    batch: int,
    output: Path | None = None,
    watch: Watch = lambda steps: nullcontext(lambda: None),  # noqa: ARG005
) -> tuple[list[Record], list[Record]]:
    """Return the records of the marked and of the unmarked texts, in the order of the prompts.

    Parameters
    ----------
    batch
        Texts of each kind at a time.
    output
        Keep the texts in this file, and go on where an earlier run stopped.
    watch
        Given the steps to come, returns a context whose value is called after each.
    """
    from powermark.integrations.transformers import WatermarkConfig

    twice = [prompt for prompt in prompts for _ in range(2)]
    config = WatermarkConfig(
        spec,
        key,
        model.tokenizer,
        temperature=sampling.temperature,
        marked=lambda ids: np.arange(ids.shape[0]) % 2 == 0,
        record_kl=True,
    )
    line = signature(
        "verify-texts",
        spec=spec.digest,
        key=key.fingerprint if isinstance(key, SecretKey) else None,
        model=model.digest,
        **asdict(sampling),
        seed=seed,
        batch=batch,
        prompts=digest_of_prompts(prompts),
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
