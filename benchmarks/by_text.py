"""Are plans kept where only the text is known? Fresh texts on other prompts, found from text alone.

    python -m benchmarks.by_text --profile p.npz --prompts a.jsonl --prompts b.jsonl -o FOLDER

plans with the profile (n = 50, alpha = .05, power .95: a constant bias, a steered one, and one for
an edit rate of .1), lets the profile's model continue each prompt, a new key every batch, and
counts the texts that are found from a copy of the text, from the text without leaving its first
token out, and from the sampled ids. Texts are kept in the folder; a run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from powermark import Profile, load_profile, plan
from powermark.detection.scoring import score
from powermark.detection.text import sources_of, token_ids_of
from powermark.engines.transformers import WatermarkConfig
from powermark.generation.prompts import prompts_for
from powermark.generation.writing import Record, Sampling, write_batch
from powermark.measuring.attacks import substitute
from powermark.measuring.estimates import detected
from powermark.measuring.promise import enough
from powermark.models import LanguageModel, load_model
from powermark.models.chat import Prompt
from powermark.tables import table
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

PROMISE: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.95}
PLANS: dict[str, dict[str, Any]] = {
    "constant": {},
    "steered": {"steer": True},
    "edits .1": {"edit_rate": 0.1},
}
BATCH = 25


def texts_of(
    model: LanguageModel, spec: WatermarkSpec, prompts: list[Prompt], sampling: Sampling, file: Path
) -> list[tuple[SecretKey, list[Record]]]:
    """Return each batch of marked texts with its key; what the file has is not written anew."""
    kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    found = []
    for number, first in enumerate(range(0, len(prompts), BATCH)):
        key = SecretKey(np.random.default_rng([number, len(prompts)]).bytes(32))
        if number >= len(kept):
            config = WatermarkConfig(spec, key, model.tokenizer, temperature=sampling.temperature)
            part = prompts[first : first + BATCH]
            rows = write_batch(model, part, sampling, seed=7, first=first, config=config)
            kept.append([{"text": row["text"], "token_ids": row["token_ids"]} for row in rows])
            with file.open("a") as out:
                print(json.dumps(kept[-1]), file=out, flush=True)
        found.append((key, kept[number]))
    return found


def row_of(
    name: str, batches: list[tuple[SecretKey, list[Record]]], spec: WatermarkSpec, tokenizer: Any
) -> list[str]:
    """Return what a corpus shows of a plan."""
    plan = spec.plan
    assert plan is not None
    n, k, edit_rate = plan.n_tokens, plan.critical_count, plan.edit_rate
    skipped = 0 if spec.schedule is None else spec.schedule.skipped
    readers = {"copy": 1, "whole copy": skipped, "ids": skipped}
    greens: dict[str, list[Any]] = {reader: [] for reader in readers}
    lost = written = 0
    for number, (key, records) in enumerate(batches):
        scheme = Watermark(spec, key).scheme
        copies = [token_ids_of(tokenizer, record["text"].strip()) for record in records]
        sampled = [record["token_ids"] for record in records]
        for ids, copy in zip(sampled, copies, strict=True):
            written += len(ids)
            lost += len(ids) - int((sources_of(ids, copy) >= 0).sum())
        for reader, skip in readers.items():
            texts: Any = sampled if reader == "ids" else copies
            if edit_rate is not None:
                texts = substitute(texts, edit_rate, seed=number).ids
            special = tokenizer.all_special_ids
            scores = score(scheme, texts, skip=skip, special_ids=special)
            greens[reader].append(scores.first_greens(n))
    shown = []
    for reader in readers:
        seen = detected(np.concatenate(greens[reader]), k)
        shown.append(f"{seen.value:.3f} ({seen.low:.3f} to {seen.high:.3f}) of {seen.texts}")
    return [name, f"{lost / written:.2%}", *shown]


def main() -> None:
    """Plan, write, count and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_text")
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, action="append", required=True)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    profile: Profile = load_profile(given.profile)
    model = load_model(str(profile.about["model"]))
    given.output.mkdir(exist_ok=True)
    rows = [["plan, prompts", "ids lost", "by text", "first token kept", "by ids"]]
    for name, more in PLANS.items():
        design = plan(**PROMISE, **more, signal=profile)
        spec = WatermarkSpec.from_plan(design, vocab_size=model.vocab_size)
        asked = {setting: profile.about[setting] for setting in ("temperature", "top_k", "top_p")}
        sampling = Sampling(n_tokens=enough(design.n_tokens), **asked)
        for prompts in given.prompts:
            chosen = prompts_for(prompts, given.texts)
            file = given.output / f"{spec.digest[:12]}-{prompts.stem}.jsonl"
            batches = texts_of(model, spec, chosen, sampling, file)
            rows.append(row_of(f"{name}, {prompts.stem}", batches, spec, model.tokenizer))
            print(" ".join(rows[-1]), flush=True)
    print(table(rows, "<"))


if __name__ == "__main__":
    main()
