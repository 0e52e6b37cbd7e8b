"""The signature of generated records."""

from __future__ import annotations

from collections.abc import Sequence

from powermark.generation.writing import Sampling, digest_of_prompts
from powermark.models.chat import Prompt
from powermark.signature import signature
from powermark.watermark.watermark import Watermark


def signature_of(
    model: str,
    mark: Watermark | None,
    sampling: Sampling,
    seed: int,
    batch: int,
    prompts: Sequence[Prompt],
    *,
    record_kl: bool = False,
) -> str:
    """Return the signature of generated records."""
    return signature(
        "generate",
        model=model,
        spec="none" if mark is None else mark.spec.digest,
        key=None if mark is None else mark.fingerprint,
        record="kl" if record_kl else None,
        **sampling.to_dict(),
        seed=str(seed),
        batch=batch,
        prompts=digest_of_prompts(prompts),
    )
