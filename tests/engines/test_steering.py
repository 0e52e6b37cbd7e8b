"""A schedule inside generate(): the state is the detector's, whatever the batch does."""

import numpy as np
import pytest
import torch

from powermark import plan
from powermark.detection.detector import Detector
from powermark.detection.scoring import score
from powermark.engines.transformers import WatermarkConfig, WatermarkProcessor
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.engines.known_model import KnownModel, Letters

VOCAB, N, FIRST = 400, 40, 3  # tokens counted; place of the first: a copied text lost one, h = 2
KEY = SecretKey(bytes(range(32)))
TOKENIZER = Letters(VOCAB)


@pytest.fixture(scope="module")
def spec() -> WatermarkSpec:
    found = plan(n_tokens=N, alpha=0.05, power=0.9, gamma=0.5, steer=True)
    return WatermarkSpec.from_plan(found, vocab_size=VOCAB)


@pytest.fixture
def model() -> KnownModel:
    return KnownModel(VOCAB, width=VOCAB, concentration=50.0, seed=3)  # flat: the plug-in holds


def generate(model: KnownModel, config: WatermarkConfig, rows: int, **more: object) -> torch.Tensor:
    torch.manual_seed(0)
    prompt = torch.randint(0, VOCAB, (rows, 3))
    found: torch.Tensor = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=N + FIRST, do_sample=True,
        top_k=0, watermarking_config=config, pad_token_id=0, **more,
    )  # fmt: skip
    return found[:, 3:]


def test_marked_text_is_found_as_often_as_planned(model: KnownModel, spec: WatermarkSpec) -> None:
    """300 texts: power within 4.5 standard errors, KL per token within 4.5 of its own."""
    config = WatermarkConfig(spec, KEY, TOKENIZER, record_kl=True)
    texts = generate(model, config, 300).numpy()
    assert config.record is not None
    assert spec.plan is not None
    detector = Detector(spec, KEY)
    found = detector.detect_many(list(texts))
    share = np.mean([one.verdict == "watermarked" for one in found])
    assert abs(share - spec.plan.power) < 4.5 * np.sqrt(0.09 / 300)
    spent = config.record.kl.sum(axis=0) / N
    assert abs(spent.mean() - spec.plan.kl) < 4.5 * spent.std() / np.sqrt(300)
    assert np.all(config.record.kl[:FIRST] == 0.0)  # a detector without the prompt cannot see these
    assert found[0].power == pytest.approx(spec.plan.power, abs=1e-3)
    half = detector.detect(texts[0, : N // 2 + FIRST])
    assert half.power < 0.6
    double = detector.detect(np.concatenate([texts[0], texts[1, FIRST:]]))
    assert double.power > 0.8
    assert detector.tokens_needed is not None


def test_biases_follow_the_count(model: KnownModel, spec: WatermarkSpec) -> None:
    config = WatermarkConfig(spec, KEY, TOKENIZER, record_kl=True)
    texts = generate(model, config, 4).numpy()
    assert config.record is not None
    scheme, schedule = Watermark(spec, KEY).scheme, spec.schedule
    assert schedule is not None
    for row, text in enumerate(texts):
        for step in range(FIRST, N + FIRST):
            seen = score(scheme, [text[:step]], skip=1)
            bias = schedule.deltas[seen.scored[0], seen.greens[0]]
            assert (config.record.kl[step, row] > 0.0) == (bias > 0.0)


def test_unmarked_rows_are_untouched(model: KnownModel, spec: WatermarkSpec) -> None:
    config = WatermarkConfig(
        spec, KEY, TOKENIZER, record_kl=True, marked=lambda ids: np.arange(ids.shape[0]) % 2 == 0
    )
    generate(model, config, 6)
    assert config.record is not None
    assert np.all(config.record.kl[:, 1::2] == 0.0)
    assert np.any(config.record.kl[:, ::2] > 0.0)


def test_beams_and_a_second_prompt(model: KnownModel, spec: WatermarkSpec) -> None:
    texts = generate(model, WatermarkConfig(spec, KEY, TOKENIZER), 2, num_beams=3)
    assert texts.shape == (2, N + FIRST)
    by_hand = WatermarkProcessor(spec, KEY, TOKENIZER, place="after_temperature")
    logits, ids = torch.zeros(2, VOCAB), torch.randint(0, VOCAB, (2, 9))
    first = by_hand(ids[:, :5], logits)  # these five are the prompt, so the next does not count
    assert torch.equal(first, logits)
    assert not torch.equal(by_hand(ids[:, :8], logits), logits)
    assert torch.equal(by_hand(ids[:, :4], logits), logits)  # fewer ids: a new prompt
    short = WatermarkProcessor(spec, KEY, TOKENIZER, place="after_temperature")
    assert torch.equal(short(ids[:, :1], logits), logits)  # a prompt shorter than a context
    assert not torch.equal(short(ids[:, :4], logits), logits)


def test_a_longer_prompt_is_no_continuation(spec: WatermarkSpec) -> None:
    """A processor that wrote a text marks the next one as a new processor does."""
    torch.manual_seed(0)
    used = WatermarkProcessor(spec, KEY, TOKENIZER, place="after_temperature")
    fresh = WatermarkProcessor(spec, KEY, TOKENIZER, place="after_temperature")
    logits, (first, second) = torch.zeros(2, VOCAB), torch.randint(0, VOCAB, (2, 2, 40))
    second[:, :5] = first[:, :5]  # even one that begins alike
    for length in range(5, 20):
        used(first[:, :length], logits)
    for length in range(25, 40):
        marked = used(second[:, :length], logits)
        assert torch.equal(marked, fresh(second[:, :length], logits))
        assert torch.equal(marked, logits) == (length < 25 + FIRST)


def test_other_detectors_know_the_schedule(spec: WatermarkSpec) -> None:
    for detector in ("evalue", "winmax", "winmax-c"):
        steered = Detector(spec, KEY, detector=detector)
        assert 0.0 < steered.power_at(N) < 0.9
