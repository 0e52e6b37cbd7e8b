"""(d) Fuzz: whatever comes in, a sentence or a result goes out, never a traceback.

Inputs are drawn by Hypothesis, with a seed for each block of them: some are nonsense, most are
almost right. What was said is kept for the search at the end.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis
from hypothesis import HealthCheck, Phase, given

from powermark.errors import PowermarkError
from powermark.files import CACHE_ENVIRONMENT
from proof.faces import TARGETS
from proof.ledger import Entry, Ledger, Piece
from proof.scale import Scale
from proof.shop import Shop

SHARES = {  # of the inputs that a scale names; the slower ones have fewer
    "spec": 1.0,
    "key": 1.0,
    "profile": 0.25,
    "cli": 0.2,
    "rest": 0.5,
    "tokens": 0.5,
    "text": 0.25,
}
_BLOCK = 1_000
_SHOWN = 5  # failures that are kept of a block


def prove(ledger: Ledger, scale: Scale, folder: Path, workers: int) -> list[Entry]:
    """Do the part."""
    pieces = []
    for target, share in SHARES.items():
        inputs = max(1, int(scale.fuzzed * share))
        for first in range(0, inputs, _BLOCK):
            settings = {"folder": str(folder), "target": target, "seed": first}
            settings |= {"inputs": min(_BLOCK, inputs - first)}
            pieces.append(Piece(f"{target}-{first:06d}", block, settings))
    return ledger.run("fuzz", pieces, workers)


def block(*, folder: str, target: str, seed: int, inputs: int) -> dict[str, Any]:
    """Try some inputs; return how many, how many were accepted, and what broke."""
    shop = Shop(Path(folder))
    place = shop.place(f"fuzz/{target}-{seed:06d}")
    tried, accepted = 0, 0
    broken: list[dict[str, str]] = []
    with (
        patch.dict(os.environ, {CACHE_ENVIRONMENT: str(shop.folder / "cache")}),
        (place / "said").open("w", encoding="utf-8", errors="replace") as log,
        TARGETS[target](shop, place) as (drawn, take),
    ):

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=inputs,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(drawn)
        def one(value: Any) -> None:
            nonlocal tried, accepted
            tried += 1
            try:
                accepted += take(value, log.write)
            except PowermarkError as error:
                log.write(f"{error}\n{error.hint}\n")
            except Exception:
                broken.append({"input": repr(value)[:300], "said": traceback.format_exc()[-800:]})

        one()
    counts = {"tried": tried, "accepted": accepted, "tracebacks": len(broken)}
    return {**counts, "broken": broken[:_SHOWN]}
