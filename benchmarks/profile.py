"""How long a model's profile takes, and a plan that uses it.

Run with ``make bench``. Promised on two cores: the profile of the embedded model from 2,000 steps
in 3 minutes, and ``plan(..., signal=profile)`` in 2 seconds, with edits and without, of which the
fastest of three runs counts, as other work on the machine only ever adds time.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.plan import fastest_seconds
from powermark import plan
from powermark.generation.prompts import prompts_for
from powermark.generation.writing import Sampling
from powermark.measuring.record_profile import record_profile
from powermark.models import load_model

PROFILE_PROMISE, PLAN_PROMISE = 180.0, 2.0  # seconds
TEXTS, LENGTH = 36, 60  # 2,160 steps where no text ends early


def main() -> int:
    """Print the times; exit code 1 if a promise is broken."""
    model = load_model()
    start = time.perf_counter()
    profile = record_profile(
        model, prompts_for(None, TEXTS), Sampling(n_tokens=LENGTH), batch=TEXTS
    )
    took = time.perf_counter() - start
    print(f"profile of {profile.about['steps']} steps: {took:.0f} s (promise: 180 for 2,000)")
    slowest = 0.0
    for n, alpha in ((50, 0.05), (100, 0.01), (200, 0.001)):
        for edits in ({}, {"edit_rate": 0.1, "attacked_power": 0.8}):
            request: dict[str, Any] = {"n_tokens": n, "alpha": alpha, "power": 0.95, **edits}
            seconds = fastest_seconds(lambda r=request: plan(**r, signal=profile), 3)  # type: ignore[misc]
            slowest = max(slowest, seconds)
            print(f"plan with it, n = {n}{', edited' if edits else '':<8}: {seconds:.2f} s")
    holds = took * 2_000 / profile.about["steps"] <= PROFILE_PROMISE and slowest <= PLAN_PROMISE
    print("both promises hold" if holds else "A PROMISE IS BROKEN")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
