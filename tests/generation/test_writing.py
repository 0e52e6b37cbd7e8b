"""Texts in pairs, marked and unmarked."""

import pytest

from powermark.generation.writing import Sampling, write_pairs
from powermark.models import LanguageModel
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark


def test_of_each_pair_the_first_is_marked(writer: LanguageModel) -> None:
    spec = WatermarkSpec(gamma=0.5, delta=3.0, context_width=1, vocab_size=writer.vocab_size)
    prompts = ["w2 w3", "w4 w5", "w6 w7"]
    key = SecretKey(bytes(range(32)))
    marked, unmarked = write_pairs(
        Watermark(spec, key), writer, prompts, Sampling(n_tokens=6), seed=1, batch=2
    )
    for records in (marked, unmarked):
        assert [record["prompt"] for record in records] == prompts
    assert sum(map(sum, (record["kl"] for record in marked))) > 0.0
    assert sum(map(sum, (record["kl"] for record in unmarked))) == pytest.approx(0.0, abs=1e-12)
