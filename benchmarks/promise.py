"""Whether a real model's marked text is detected as often as its own probabilities say.

Run with ``python -m benchmarks.promise PROMPTS.jsonl`` (a field "text" or "prompt"; the first 30
words are the prompt). SmolLM2 writes marked text at temperature 1; each step's green probability
is recorded. From these the chance that a text's first n counted tokens are found is computed
exactly (Poisson-binomial), and compared with how many texts are found. Takes a few minutes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from powermark import plan
from powermark.detection.detection import Detector
from powermark.detection.scoring import score
from powermark.detection.statistics import green_rate_interval
from powermark.integrations.transformers import WatermarkConfig
from powermark.models import load_model
from powermark.theory.power import critical_count
from powermark.watermark.embed import scheme_of
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec

TEXTS, BATCH, N, ALPHA = 96, 48, 100, 0.01


def tail(rates: np.ndarray, k: int) -> float:
    """P(S >= k) of a sum of independent Bernoulli variables."""
    law = np.array([1.0])
    for rate in rates:
        law = np.convolve(law, [1.0 - rate, rate])
    return float(law[k:].sum())


def main() -> None:
    """Print predicted and measured detection rates."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.promise PROMPTS.jsonl")
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()[:TEXTS]
    rows = [json.loads(line) for line in lines]
    prompts = [" ".join((row.get("prompt") or row["text"]).split()[:30]) for row in rows]
    model = load_model()
    design = plan(n_tokens=N, alpha=ALPHA, power=0.95)
    spec = WatermarkSpec.from_plan(
        design, vocab_size=model.vocab_size, tokenizer_digest=model.tokenizer_digest
    )
    key = SecretKey(np.random.default_rng(0).bytes(32))
    config = WatermarkConfig(spec, key, model.tokenizer, record_kl=True)
    scheme, detector = scheme_of(spec, key), Detector(spec, key)
    predicted, found, kl = [], [], []
    for first in range(0, len(prompts), BATCH):
        part = model.complete(
            prompts[first : first + BATCH], n_tokens=135, seed=first, watermarking_config=config
        )
        assert config.record is not None
        for row, text in enumerate(part):
            length = len(text.token_ids)
            kl += config.record.kl[:length, row].tolist()
            places = score(scheme, [text.token_ids], prompts=[text.prompt_ids]).positions()[:N]
            if places.size < N:
                continue  # ended early, or repeats itself too much
            end = int(places[-1]) + 1
            rates = config.record.green_rate[:length, row][places]
            predicted.append(tail(rates, int(critical_count(N, spec.gamma, ALPHA))))
            verdict = detector.detect(text.token_ids[:end], prompt=text.prompt_ids).verdict
            found.append(verdict == "watermarked")
        print(f"{first + len(part)} texts", file=sys.stderr)
    low, high = green_rate_interval(sum(found), len(found))
    print(f"plan: n = {N}, alpha = {ALPHA}, gamma {spec.gamma:.4f}, delta {spec.delta:.3f}")
    print(f"texts with {N} counted tokens: {len(found)} of {len(prompts)}")
    print(f"power by the plan (plug-in):              {design.power:.3f}")
    print(f"power by the model's own probabilities:   {np.mean(predicted):.3f}")
    print(f"detected: {np.mean(found):.3f} (95 % interval {low:.3f} to {high:.3f})")
    print(f"kl: plan {design.kl:.4f}, measured {np.mean(kl):.4f} nats per token")


if __name__ == "__main__":
    main()
