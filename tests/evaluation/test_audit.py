import numpy as np
import pytest

from powermark.errors import InvalidInput
from powermark.evaluation.audit import audit
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec

KEY = SecretKey(bytes(range(32)))
SPEC = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=3000)


def test_independent_texts_have_the_exact_size_under_every_key() -> None:
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 3000, n) for n in rng.integers(40, 120, 400)]
    found = audit(SPEC, KEY, texts, rng=rng, lengths=[30, 80], alphas=[0.05], fresh_keys=15)
    short, long = found.rows
    assert (short.texts, short.keys, long.length) == (400, 16, 80)
    assert 0 < long.texts < 400
    assert short.size <= 0.05
    spread = np.sqrt(short.size / (400 * 16))
    assert abs(short.mean_rate - short.size) < 4 * spread
    assert short.low <= short.rate <= short.high
    assert short.least_rate <= short.median_rate <= short.worst_rate
    assert short.worst_rate < 2 * short.chance_worst_rate
    assert short.rejections + long.rejections >= len(found.rejected)
    assert found.to_dict()["context_width"] == 1


def test_texts_that_share_their_words_depend_on_the_key() -> None:
    """One text in 100 copies: a key calls all of them marked, or none."""
    text = np.random.default_rng(1).integers(0, 3000, 60)
    found = audit(
        SPEC, KEY, [text] * 100, rng=np.random.default_rng(2), lengths=[50], alphas=[0.3],
        fresh_keys=40,
    )  # fmt: skip
    row = found.rows[0]
    assert (row.least_rate, row.worst_rate) == (0.0, 1.0)
    assert row.worst_rate > 2 * row.chance_worst_rate
    assert found.shared[0][1] == 100
    assert found.shared[0][0] == tuple(
        sorted(map(tuple, np.column_stack([text[:-1], text[1:]])))[0]
    )


def test_texts_too_short_and_what_is_refused() -> None:
    rng = np.random.default_rng(3)
    found = audit(SPEC, KEY, [[5]], rng=rng, lengths=[50], alphas=[0.05], fresh_keys=0)
    assert (found.rows[0].texts, found.rows[0].rate, found.shared) == (0, 0.0, ())
    with pytest.raises(InvalidInput, match="at least one text"):
        audit(SPEC, KEY, [], rng=rng)
    legacy = WatermarkSpec(
        scheme="hf-lefthash", gamma=0.5, delta=2.0, context_width=1, vocab_size=3000
    )
    with pytest.raises(InvalidInput, match="fresh keys are for scheme pm1"):
        audit(legacy, HashKey(), [[1, 2]], rng=rng)
    kept = audit(legacy, HashKey(), [[1, 2, 3]], rng=rng, lengths=[1], fresh_keys=0)
    assert kept.rows[0].keys == 1
