"""(b) Promise: plans made with a profile of a real model, each verified on texts of its own.

Every plan's checks together raise a false alarm in at most .01 over the number of plans of honest
cases, so all plans together in at most 1 %, however plans depend on each other: they share prompts,
and plans of one length and temperature the unmarked texts. Within a plan the intervals take texts
under its key as independent. At context width 2 they nearly are; how far they are not, the part
size measures. Each plan has a key of its own, so that no one key is behind all verdicts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from powermark.files import make_folder
from powermark.generation.writing import Sampling
from powermark.measuring.promise import enough, promise_of
from powermark.measuring.verify import verify
from powermark.models import load_model
from powermark.models.prompt_cache import PromptCache
from powermark.paper.experiments_plans import BATCH, CORPUS, POWER, marked_by
from powermark.paper.workspace import Workspace
from powermark.planning.plan import plan
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from proof.ledger import Entry, Ledger, Piece
from proof.scale import FALSE_ALARM, Scale

_USUAL = {"n_tokens": 50, "alpha": 0.05, "edit_rate": 0.0, "removal": 0.0, "kind": "constant",
          "temperature": 1.0}  # fmt: skip
PLANS: list[dict[str, Any]] = [
    {**_USUAL, "n_tokens": n, "alpha": alpha, "edit_rate": rate}
    for n, alpha, rate in product((50, 100), (0.05, 0.01), (0.0, 0.1))
] + [
    {**_USUAL, "kind": "steered"},
    {**_USUAL, "temperature": 0.7},
    {**_USUAL, "removal": 0.2},
    {**_USUAL, "removal": 0.2, "kind": "winmax-c"},
]
_NOBODYS = SecretKey(bytes(range(100, 132)))  # of the workspace that writes without a mark


def prove(ledger: Ledger, scale: Scale, data: Path, work: Path, model: str) -> list[Entry]:
    """Do the part."""
    plans = PLANS[: scale.plans]
    shared = {
        "data": str(data),
        "work": str(make_folder(work / "promise")),
        "model": model,
        "texts": scale.promised_texts,
        "profiled": scale.profiled,
        "joint_level": 1.0 - FALSE_ALARM / len(plans),
    }
    pieces = [
        Piece(name_of(asked), verified, {**asked, **shared, "seed": seed_of(asked)})
        for asked in plans
    ]
    return ledger.run("promise", pieces)


def name_of(asked: dict[str, Any]) -> str:
    """Return a plan's name."""
    return "n{n_tokens}-a{alpha:g}-e{edit_rate:g}-r{removal:g}-t{temperature:g}-{kind}".format(
        **asked
    )


def seed_of(asked: dict[str, Any]) -> int:
    """Return the seed of a plan's key, which is no secret: the same texts every time."""
    return crc32(name_of(asked).encode())


def verified(
    *,
    data: str,
    work: str,
    model: str,
    n_tokens: int,
    alpha: float,
    edit_rate: float,
    removal: float,
    kind: str,
    temperature: float,
    texts: int,
    profiled: int,
    joint_level: float,
    seed: int,
) -> dict[str, Any]:
    """Plan with a profile, let the model write, and verify; texts are kept batch by batch."""
    workspace = Workspace(_model(model), Path(data), Path(work), _NOBODYS)
    keyed = replace(workspace, key=SecretKey(np.random.default_rng(seed).bytes(32)))
    recorded = Sampling(n_tokens=n_tokens, temperature=temperature)
    profile = workspace.profile(workspace.prompts(CORPUS, 0, profiled), recorded)
    asked: dict[str, Any] = {"n_tokens": n_tokens, "alpha": alpha, "power": POWER}
    asked |= {"removal": removal or None, "signal": profile}
    if kind == "winmax-c":
        design = plan(**asked, detector="winmax-c")
    else:
        design = plan(**asked, edit_rate=edit_rate or None, steer=kind == "steered")
    spec = WatermarkSpec.from_plan(
        design,
        vocab_size=workspace.model.vocab_size,
        tokenizer_digest=workspace.model.tokenizer_digest,
    )
    fresh = workspace.prompts(CORPUS, profiled, texts)
    sampling = Sampling(n_tokens=enough(n_tokens), temperature=temperature)
    unmarked = workspace.texts(fresh, sampling, batch=BATCH)
    marked = marked_by(design, keyed, fresh, sampling)
    found = verify(
        Watermark(spec, keyed.key),
        promise_of(spec),
        marked,
        unmarked,
        profile=profile,
        tokenizer=workspace.model.tokenizer,
        special_ids=workspace.model.tokenizer.all_special_ids,
        joint_level=joint_level,
    )
    return found.to_dict()


@lru_cache(maxsize=1)
def _model(name: str) -> Any:
    return replace(load_model(name), read=PromptCache())
