"""What a fresh installation must do: plan, mark and detect with NumPy, and load its extras."""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np

from powermark import SecretKey, WatermarkSpec, plan, reference_profile
from powermark.signals.references import REFERENCES
from powermark.watermark.watermark import Watermark

UNLOCKS = {
    "plot": "powermark.plotting.tradeoff matplotlib",
    "detect": "powermark.models.tokenizer powermark.models.gguf_tokenizer powermark.models.store",
    "transformers": "powermark.engines.transformers powermark.models.convert pyarrow.parquet",
    "datasets": "datasets pyarrow",
    "quality": "powermark.measuring.quality nltk rouge_score bert_score",
    "text": "confusable_homoglyphs",
    "server": "powermark.interfaces.server.app uvicorn",
    "corpus": "powermark.corpus.scan powermark.corpus.readers",
    "ray": "powermark.corpus.workers ray.data",
    "experiments": "matplotlib torch rouge_score",
    "llama-cpp": "powermark.engines.llama_cpp llama_cpp",
    "docs": "mkdocs mkdocstrings latex2mathml.converter",
    "release": "build hatchling pip_audit cyclonedx_py",
    "all": "matplotlib torch bert_score uvicorn pyarrow ray.data",
    "dev": "cogapp hypothesis playwright pytest",
}


def mark_and_detect() -> None:
    """Write 100 tokens from random logits, with the mark and without, and find just the first."""
    rng = np.random.default_rng(0)
    spec = WatermarkSpec(gamma=0.5, delta=4.0, context_width=2, vocab_size=1000)
    key = SecretKey(bytes(range(32)))
    mark = Watermark(spec, key)
    scheme, detector = mark.scheme, mark.detector(alpha=0.001)
    for delta, verdict in ((spec.delta, "watermarked"), (0.0, "no watermark found")):
        ids = [0, 1]
        for _ in range(100):
            logits = rng.gumbel(size=(1, spec.vocab_size)).astype(np.float32)
            scheme.add_bias(logits, np.array([ids[-2:]]), np.array([delta], np.float32))
            ids.append(int(logits.argmax()))
        found = detector.detect(ids)
        assert found.verdict == verdict, found


def plan_on_references() -> None:
    """Plan with each profile that comes with the package."""
    for name in REFERENCES:
        found = plan(n_tokens=50, alpha=0.05, power=0.2, gamma=0.5, signal=reference_profile(name))
        assert found.power >= 0.2, found


if __name__ == "__main__":
    mark_and_detect()
    plan_on_references()
    for extra in sys.argv[1:]:
        for module in UNLOCKS.get(extra, "").split():
            import_module(module)
    print("smoke test passed on Python", sys.version.split()[0], *sys.argv[1:])
