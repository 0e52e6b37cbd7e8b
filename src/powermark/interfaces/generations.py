"""Writing with a mark, as every interface does it: how to sample, and how a record is signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from powermark.evaluation.writing import Sampling, digest_of_prompts
from powermark.signature import signature
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec

_USUAL = {"temperature": 0.8, "top_k": 0, "top_p": 1.0}


def sampling_for(
    spec: WatermarkSpec | None, n_tokens: int, **given: float | None
) -> tuple[Sampling, list[str]]:
    """Return how to sample: as asked, else as the plan's profile was, else as usual; with notes.

    A plan made with a profile holds for the profile's settings; others get a note.
    """
    planned = ((None if spec is None else spec.design) or {}).get("profile") or {}
    settings: dict[str, Any] = {
        name: planned.get(name, _USUAL[name]) if value is None else value
        for name, value in given.items()
    }
    notes = [
        f"the plan is for {name} {planned[name]:g}; at {value:g} its promises do not hold."
        for name, value in settings.items()
        if name in planned and planned[name] != value
    ]
    return Sampling(n_tokens=n_tokens, **settings), notes


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
