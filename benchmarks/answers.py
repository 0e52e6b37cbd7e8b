"""Do plans for a coverage come true on answers of any length? Fresh answers to other prompts.

    python -m benchmarks.answers --profile p.npz --prompts prompts.txt --skip 200 -o FOLDER

makes four plans with the profile (coverage .9 at alpha .01, and at 1e-3 after one token in twenty
is rewritten; a constant bias and a steered one each), lets the profile's model answer each prompt
under every plan and without a mark, a new key every batch, and compares coverage, green rate and KL
with the promise. Every answer counts, at its own length. Answers are kept in the folder; a run that
is interrupted resumes. Exits with 1 if a promise is missed: coverage by more than .03, KL by more
than 5 %, the green rate by more than .01, each beyond what chance allows, or a size above alpha.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from powermark import Plan, Profile, load_profile, plan
from powermark.checks import Mask
from powermark.detection.scoring import Scores, score
from powermark.detection.text import token_ids_of
from powermark.engines.row_groups import RowGroups
from powermark.engines.transformers import WatermarkConfig
from powermark.errors import Infeasible
from powermark.generation.prompts import in_style, prompts_for
from powermark.generation.records import Records
from powermark.generation.writing import (
    Record,
    Sampling,
    digest_of_prompts,
    write_batch,
)
from powermark.measuring.attacks import substitute
from powermark.measuring.estimates import Estimate, mean_per_token, share
from powermark.models import LanguageModel, load_model
from powermark.models.chat import Prompt
from powermark.models.prompt_cache import PromptCache
from powermark.signals.sampling import settings_of
from powermark.tables import table
from powermark.theory.power import critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

PROMISES: dict[str, dict[str, Any]] = {
    "alpha .01": {"alpha": 0.01},
    "alpha .001, edit rate .05": {"alpha": 1e-3, "edit_rate": 0.05},
}
LOWER = (0.9, 0.8, 0.7, 0.6, 0.5)  # coverages, of which the first that a mark can reach is taken
CLOSE = {"coverage": 0.03, "kl": 0.05, "green": 0.01}  # kl: relative


@dataclass(frozen=True)
class Case:
    """A plan and its spec."""

    name: str
    plan: Plan
    spec: WatermarkSpec


def cases_of(profile: Profile, vocab_size: int) -> list[Case]:
    """Return the four plans; where no mark reaches a coverage of .9, for the next lower one."""
    found = []
    for name, asked in PROMISES.items():
        for steer in (False, True):
            for coverage in LOWER:
                try:
                    made = plan(coverage=coverage, signal=profile, steer=steer, **asked)
                except Infeasible:
                    continue
                spec = WatermarkSpec.from_plan(made, vocab_size=vocab_size)
                kind = "steered" if steer else "constant"
                found.append(Case(f"{name}, {kind}", made, spec))
                break
    return found


def key_of(batch: int) -> SecretKey:
    """Return the key of a batch."""
    return SecretKey(np.random.default_rng([batch, 27]).bytes(32))


def write(
    model: LanguageModel,
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    sampling: Sampling,
    file: Path,
    batch: int,
) -> list[list[Record]]:
    """Return the answers of each case, and last those without a mark."""
    kinds, columns = len(cases) + 1, ("text", "token_ids", "kl")
    digests = ",".join(case.spec.digest[:8] for case in cases)
    line = f"answers|{digests}|prompts:{digest_of_prompts(prompts)}|batch:{batch}"
    with Records(file, line, kinds * batch, kinds * len(prompts)) as records:
        done = records.done // kinds
        for first in range(done, len(prompts), batch):
            part = prompts[first : first + batch]
            groups: list[tuple[int, Any]] = []
            for case in cases:
                key, heat = key_of(first // batch), sampling.temperature
                mark = WatermarkConfig(case.spec, key, model.tokenizer, temperature=heat)
                groups.append((len(part), mark.construct_processor(model.vocab_size)))
            config = RowGroups([*groups, (len(part), None)], temperature=heat)
            rows = write_batch(
                model, [*part] * kinds, sampling, seed=11, first=kinds * first, config=config
            )
            kept = [{name: row[name] for name in ("index", *columns)} for row in rows]
            records.append([{**row, "signature": line} for row in kept])
            print(f"{first + len(part)} of {len(prompts)} prompts", file=sys.stderr, flush=True)
        rows = records.rows()
    found: list[list[Record]] = [[] for _ in range(kinds)]
    for first in range(0, len(prompts), batch):
        size = len(prompts[first : first + batch])
        block = rows[kinds * first : kinds * (first + size)]
        for kind in range(kinds):
            found[kind] += block[kind * size : (kind + 1) * size]
    return found


class Judge:
    """Finds answers under the key of their batch."""

    def __init__(self, case: Case, tokenizer: Any, batch: int) -> None:
        self._case, self._tokenizer, self._batch = case, tokenizer, batch

    def scores(self, texts: Sequence[Any], first: int, skip: int) -> Scores:
        """Return the colours of the ids of a batch."""
        scheme = Watermark(self._case.spec, key_of(first // self._batch)).scheme
        return score(scheme, texts, skip=skip, special_ids=self._tokenizer.all_special_ids)

    def found(self, scores: Scores) -> Mask:
        """Return which texts the count finds, each at its own length."""
        plan = self._case.plan
        greens = np.array([scores.colours(i).sum() for i in range(scores.texts)])
        n = np.maximum(scores.scored, 1)
        return np.asarray(
            (greens >= critical_count(n, plan.gamma, plan.alpha)) & (scores.scored > 0)
        )

    def measured(self, answers: Sequence[Record], plain: Sequence[Record]) -> dict[str, Estimate]:
        """Return coverage by text and by ids, after edits, size, green rate and KL."""
        rate, skipped = self._case.plan.edit_rate, self._case.spec.skipped
        names = ("coverage", "by ids", "edited", "size")
        found: dict[str, list[Any]] = {name: [] for name in names}
        colours: list[Any] = []
        kls: list[Any] = []
        for first in range(0, len(answers), self._batch):
            part, other = (rows[first : first + self._batch] for rows in (answers, plain))
            copies, unmarked = (
                [token_ids_of(self._tokenizer, row["text"].strip()) for row in rows]
                for rows in (part, other)
            )
            seen = self.scores(copies, first, 1)
            sampled = self.scores([row["token_ids"] for row in part], first, skipped)
            colours += [seen.colours(i) for i in range(seen.texts)]
            counted = [sampled.positions(i) for i in range(sampled.texts)]
            rows = zip(part, counted, strict=True)
            kls += [np.asarray(row["kl"])[at] for row, at in rows]
            found["coverage"].append(self.found(seen))
            found["by ids"].append(self.found(sampled))
            found["size"].append(self.found(self.scores(unmarked, first, 1)))
            if rate is not None:
                edited = substitute(copies, rate, seed=first).ids
                found["edited"].append(self.found(self.scores(edited, first, 1)))
        shares = {name: share(np.concatenate(each)) for name, each in found.items() if each}
        return {**shares, "green": mean_per_token(colours), "kl": mean_per_token(kls)}


def row_of(case: Case, seen: dict[str, Estimate]) -> tuple[list[str], list[str]]:
    """Return a row of the table, and the promises that are missed."""
    made = case.plan
    assert made.coverage is not None
    checks = {"coverage": (made.coverage, seen["coverage"], CLOSE["coverage"])}
    if made.attacked_coverage is not None:
        checks["edited"] = (made.attacked_coverage, seen["edited"], CLOSE["coverage"])
    checks["green"] = (made.gamma_prime, seen["green"], CLOSE["green"])
    checks["kl"] = (made.kl, seen["kl"], CLOSE["kl"] * made.kl)
    missed = [
        name
        for name, (promised, found, close) in checks.items()
        if abs(found.value - promised) > close and not found.covers(promised)
    ]
    if seen["size"].low > made.alpha:
        missed.append("size")
    cells = [case.name, f"{made.gamma:.3f}"]
    for name in ("coverage", "edited"):
        if name in checks:
            promised, found, _ = checks[name]
            cells.append(f"{promised:.3f}: {found.value:.3f} ({found.low:.3f} to {found.high:.3f})")
        else:
            cells.append("-")
    cells.append(f"{seen['by ids'].value:.3f}")
    for name, digits in (("green", 3), ("kl", 4)):
        promised, found, _ = checks[name]
        half = found.high - found.value
        cells.append(f"{promised:.{digits}f}: {found.value:.{digits}f} ± {half:.{digits}f}")
    size = seen["size"]
    cells.append(f"{round(size.value * size.texts)} of {size.texts}")
    return [*cells, ", ".join(missed) or "kept"], missed


def main() -> int:
    """Plan, write, judge and print the table; exit code 1 if a promise is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers")
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--batch", type=int, default=20, help="prompts at a time, under all plans")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    profile = load_profile(given.profile)
    about = profile.about
    model = replace(load_model(str(about["model"])), read=PromptCache())
    cases = cases_of(profile, model.vocab_size)
    chosen = prompts_for(given.prompts, given.texts, given.skip)
    prompts, _ = in_style(chosen, chats=model.chats, profile=about)
    sampling = Sampling(n_tokens=int(about["n_tokens"]), **settings_of(about))
    given.output.mkdir(parents=True, exist_ok=True)
    *answers, plain = write(
        model, cases, prompts, sampling, given.output / "answers.jsonl", given.batch
    )
    heading = ["plan", "gamma", "coverage", "after edits", "by ids", "green rate", "KL", "size", ""]
    rows, missed = [heading], list[str]()
    for case, texts in zip(cases, answers, strict=True):
        row, gone = row_of(case, Judge(case, model.tokenizer, given.batch).measured(texts, plain))
        rows.append(row)
        missed += gone
    lengths = np.percentile([len(row["token_ids"]) for row in plain], [5, 25, 50, 75, 95])
    print(f"{len(plain)} answers of {', '.join(f'{n:.0f}' for n in lengths)} tokens (5 to 95 %)")
    print(table(rows, "<"))
    (given.output / "answers.json").write_text(json.dumps(rows, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
