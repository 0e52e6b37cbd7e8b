"""How long a plan takes, and how soon the command line answers.

Run with ``make bench``. Of each closed-form plan the fastest of several runs counts, as other work
on the machine only ever adds time. Promised: at most 50 ms for a closed-form plan up to n = 10,000,
at most 0.5 s for ``powermark --help``, and the seconds of ON_PROFILE, of one core, for plans on a
profile of 200 texts, each as long as the plan. The floor beside the plans is two vectorised inverse
Beta functions over all critical counts of n = 10,000, what comparing every design plainly would
cost.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chat_profile import chat_profile
from powermark import Dirichlet, plan
from powermark.planning.solver import rate_for

PLAN_PROMISE, HELP_PROMISE = 0.050, 0.5  # seconds
ON_PROFILE: dict[tuple[str, int], float] = {  # seconds promised
    ("constant", 400): 2.0,
    ("constant", 1_000): 5.0,
    ("steered", 400): 10.0,
    ("steered", 1_000): 30.0,
    ("winmax-c", 300): 10.0,
}
REPEATS = 15


def fastest_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Fastest of ``repeats`` calls, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def closed_forms() -> float:
    """Print the promised plans; return the slowest at n = 10,000."""
    known: dict[str, Any] = {"alpha": 0.01, "power": 0.95}
    slowest = 0.0
    print("closed-form plans, ms                 n=50    n=1,000   n=10,000   floor(10,000)")
    for missing in ("kl", "power", "alpha", "n_tokens"):
        row = []
        for n in (50, 1000, 10_000):
            given: dict[str, Any] = {"n_tokens": n, **known, "kl": plan(n_tokens=n, **known).kl}
            del given[missing]
            row.append(fastest_seconds(lambda given=given: plan(**given)))  # type: ignore[misc]
        slowest = max(slowest, row[-1])
        cells = "".join(f"{1e3 * seconds:11.1f}" for seconds in row)
        print(f"  solve for {missing:<20}{cells}{1e3 * floor():15.1f}")
    return slowest


def floor() -> float:
    """Time the inverse Beta functions of every critical count at n = 10,000, twice."""
    ks = np.arange(1.0, 10_001.0)
    return fastest_seconds(lambda: (rate_for(10_000, ks, 0.01), rate_for(10_000, ks, 0.95)), 5)


def other_plans() -> None:
    """Print plans that need root finding; no promise, so that regressions are seen."""
    requests: dict[str, dict[str, Any]] = {
        "edit_rate .1": {"edit_rate": 0.1},
        "survival .8, attacked_power .8": {"survival": 0.8, "attacked_power": 0.8},
        "Dirichlet(50,257, 1e-3)": {"signal": Dirichlet(50_257, 1e-3)},
        "variance_inflation 1.5": {"variance_inflation": 1.5},
        "method paper": {"method": "paper"},
    }
    print("\nother plans for kl, ms                n=50      n=200    n=10,000")
    for name, options in requests.items():
        cells = ""
        for n in (50, 200, 10_000):
            seconds = fastest_seconds(
                lambda n=n, options=options: plan(  # type: ignore[misc]
                    n_tokens=n, alpha=0.01, power=0.95, **options
                ),
                5,
            )
            cells += f"{1e3 * seconds:11.1f}"
        print(f"  {name:<30}{cells}")


def window_plans() -> None:
    """Print how plans for WinMax-C grow with the length, in one run each; no promise."""
    print("\nplans for winmax-c, removal .2, s     n=50      n=100      n=200")
    cells = ""
    for n in (50, 100, 200):
        start = time.perf_counter()
        plan(n_tokens=n, alpha=0.05, power=0.95, removal=0.2, detector="winmax-c")
        cells += f"{time.perf_counter() - start:11.1f}"
    print(f"  {'plug-in':<30}{cells}")


def profile_plans() -> bool:
    """Print plans on a made-up profile of 200 texts; whether all keep their promise.

    The time is that of the process, which other work on the machine does not add to much.
    """
    small = chat_profile(20, 25)  # compiles the kernels
    options: dict[str, dict[str, Any]] = {
        "constant": {},
        "steered": {"steer": True},
        "winmax-c": {"detector": "winmax-c"},
    }
    for kind in options:
        edits: dict[str, Any] = {"removal" if kind == "winmax-c" else "edit_rate": 0.05}
        plan(n_tokens=25, alpha=0.05, power=0.5, signal=small, **edits, **options[kind])
    print("\nplans on 200 texts, CPU s             n   edited          seconds   kl       promised")
    slow = False
    for (kind, n), promised in ON_PROFILE.items():
        profile = chat_profile(200, n)
        name, rates = ("removal", [0.2]) if kind == "winmax-c" else ("edit_rate", [0.1, 0.05])
        for rate in rates:
            asked: dict[str, Any] = {"n_tokens": n, "alpha": 0.01, "power": 0.95, name: rate}
            start = time.process_time()
            found = plan(**asked, signal=profile, **options[kind])
            seconds = time.process_time() - start
            slow = slow or seconds > promised
            row = f"{n:7,}   {name:>9} {rate:<8.2f}{seconds:6.1f}   {found.kl:.5f}"
            print(f"  {kind:<30}{row}   {promised:5.0f}")
    return not slow


def help_page() -> float:
    """Time of a fresh ``powermark --help``."""
    program = Path(sys.executable).with_name("powermark")
    return fastest_seconds(
        lambda: subprocess.run([program, "--help"], capture_output=True, check=True), 7
    )


def main() -> int:
    """Print the table; exit code 1 if a promise is broken."""
    slowest = closed_forms()
    other_plans()
    window_plans()
    in_time = profile_plans()
    answer = help_page()
    plans_hold, help_holds = slowest <= PLAN_PROMISE, answer <= HELP_PROMISE
    print(f"\nslowest closed-form plan at n = 10,000: {1e3 * slowest:.1f} ms (promise: 50)")
    print(f"powermark --help: {answer:.2f} s (promise: 0.5)")
    hold = plans_hold and help_holds and in_time
    print("all promises hold" if hold else "A PROMISE IS BROKEN")
    return 0 if hold else 1


if __name__ == "__main__":
    sys.exit(main())
