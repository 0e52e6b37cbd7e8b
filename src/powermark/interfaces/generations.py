"""Writing with a mark, as every interface does it: how a record is signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from powermark.evaluation.writing import Sampling, digest_of_prompts
from powermark.signature import signature
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec


def mark_parts(
    spec: WatermarkSpec, key: SecretKey | HashKey, *, record_kl: bool = False
) -> dict[str, str | None]:
    """Return what a signature says of a mark."""
    return {
        "spec": spec.digest,
        "key": key.fingerprint if isinstance(key, SecretKey) else None,
        "record": "kl" if record_kl else None,
    }


def signature_of(
    model: str,
    parts: dict[str, str | None],
    sampling: Sampling,
    seed: int,
    batch: int,
    prompts: Sequence[str],
) -> str:
    """Return the signature of generated records."""
    return signature(
        "generate",
        model=model,
        **parts,
        **asdict(sampling),
        seed=str(seed),
        batch=batch,
        prompts=digest_of_prompts(prompts),
    )
