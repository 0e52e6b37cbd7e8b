"""Record the reference profiles, compact them, and compare both: `--work` keeps the recordings.

    python -m benchmarks.reference_profiles --work work

Writes `src/powermark/signals/reference/*.npz`. Fails if a compact profile is too large, or predicts
other numbers than its recording.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import powermark
from powermark import Edits, Profile, load_profile
from powermark.files import make_folder
from powermark.interfaces.cli import app
from powermark.models.catalog import CATALOG
from powermark.signals.profile_file import save_profile, with_metadata
from powermark.signals.references import BITS, KEPT, REFERENCES, compacted
from powermark.theory.power import critical_count

MODEL = "smollm2-135m"
PROMPTS = {"prose": "openwebtext", "chat": "questions", "code": "python"}
RECORDED = {
    "prose": "--raw --texts 60 --n-tokens 110 --temperature 1",
    "chat": "--texts 60 --n-tokens 300 --temperature .7 --top-p .95",
    "code": "--raw --texts 60 --n-tokens 150 --temperature .4 --top-p .95",
}
FOLDER = Path(powermark.__file__).parent / "signals" / "reference"
LARGEST = 300_000  # bytes
DESIGNS = [(g, d) for g in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95) for d in (0.5, 1.0, 2.0, 4.0, 8.0)]
LENGTHS, ALPHA, EDITS = (50, 100, 200), 0.01, Edits(edit_rate=0.05)
OFF_RATE, OFF_KL, OFF_POWER = 0.002, 0.01, 0.002  # KL: relative


def command(name: str, output: Path) -> str:
    """Return the command that records a profile."""
    prompts = f"--model {MODEL} --prompts {PROMPTS[name]}"
    return f"profile {prompts} {RECORDED[name]} --batch 20 --seed 0 -o {output}"


def reference(name: str, recorded: Profile) -> Profile:
    """Return a compact profile that is for no model."""
    about = {key: value for key, value in recorded.about.items() if key != "model"}
    identity = {
        key: about.pop(key) for key in ("model_digest", "tokenizer_digest", "vocab_size", "digest")
    }
    about["reference"] = {
        "name": name,
        "model": CATALOG[MODEL].title,
        **identity,
        "prompts": PROMPTS[name],
        "kept": f"{KEPT} probabilities of {BITS} bits",
    }
    return compacted(with_metadata(replace(recorded, about=about)))


def predictions(profile: Profile, gamma: float, delta: float) -> list[float]:
    """Return green rate, logarithm of the KL, and powers, clean and edited."""
    numbers = [float(profile.green_rate(gamma, delta)), np.log(float(profile.kl(gamma, delta)))]
    for n in LENGTHS:
        k = int(critical_count(n, gamma, ALPHA))
        numbers.append(profile.power(n, k, gamma, delta))
        numbers.append(profile.attacked_power(EDITS, n, k, gamma, delta))
    return numbers


def differences(full: Profile, small: Profile) -> tuple[float, float, float]:
    """Return the largest differences in green rate, KL (relative) and power over the designs."""
    each = [[predictions(of, *design) for design in DESIGNS] for of in (full, small)]
    off = np.abs(np.subtract(*np.array(each))).max(axis=0)
    return float(off[0]), float(off[1]), float(off[2:].max())


def main() -> int:
    """Record, compact, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("names", nargs="*", default=REFERENCES)
    asked = parser.parse_args()
    for folder in (asked.work, FOLDER):
        make_folder(folder)
    failed = False
    for name in asked.names:
        recorded = asked.work / f"{name}.npz"
        if not recorded.exists():
            print(f"$ powermark {command(name, recorded)}", flush=True)
            app(shlex.split(command(name, recorded)), standalone_mode=False)
        full = load_profile(recorded)
        small = reference(name, full)
        path = FOLDER / f"{name}.npz"
        save_profile(small, path)
        small = load_profile(path)
        (rate, kl, power), size = differences(full, small), path.stat().st_size
        print(f"{name}: {size:,} bytes, recorded {recorded.stat().st_size:,}")
        print(f"  off by at most {rate:.5f} in green rate, {kl:.2%} in KL, {power:.5f} in power")
        for each in (full, small):
            print(f"  {each.about['steps']} steps, {each.about['randomness']}")
        failed |= size > LARGEST or rate > OFF_RATE or kl > OFF_KL or power > OFF_POWER
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
