"""The mark inside generate(): it does what the token lemma says, and nothing else."""

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import GenerationConfig

from powermark import Dirichlet
from powermark.engines import torch as tensors
from powermark.engines.kl_record import KlRecord
from powermark.engines.transformers import WatermarkConfig, WatermarkProcessor
from powermark.errors import EngineProblem, InvalidInput, SpecMismatch
from powermark.theory.distortion import token_kl
from powermark.theory.green_rate import token_green_rate
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark
from tests.engines.known_model import KnownModel, Letters

VOCAB, WIDTH, CONCENTRATION = 400, 416, 0.05
KEY = SecretKey(b"canary-canary-canary-canary-cana")
TOKENIZER = Letters(VOCAB)


def spec(gamma: float = 0.5, delta: float = 2.0, **changes: Any) -> WatermarkSpec:
    fields: dict[str, Any] = {"context_width": 1, "tokenizer_digest": digest_of(TOKENIZER)}
    return WatermarkSpec(gamma=gamma, delta=delta, vocab_size=VOCAB, **fields | changes)


def generate(
    batch: int, steps: int, *, seed: int = 0, prompt: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    model = KnownModel(VOCAB, width=WIDTH, concentration=CONCENTRATION, seed=seed)
    if prompt is None:
        prompt = torch.arange(2 * batch).reshape(batch, 2)
    torch.manual_seed(seed)
    settings = {"do_sample": True, "top_k": 0, "use_cache": False} | options
    new = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=steps,
        pad_token_id=0,
        eos_token_id=VOCAB + 1,
        **settings,
    )
    assert isinstance(new, torch.Tensor)
    return new


def green_share(ids: torch.Tensor, mark: WatermarkSpec, first: int) -> tuple[float, int]:
    """Share of green among the tokens from position ``first`` on, and their number."""
    h, scheme = mark.context_width, Watermark(mark, KEY).scheme
    windows = ids.numpy()
    contexts = np.lib.stride_tricks.sliding_window_view(windows[:, :-1], h, axis=1)
    colours = scheme.are_green(contexts.reshape(-1, h), windows[:, h:].ravel())
    scored = colours.reshape(windows.shape[0], -1)[:, first - h :]
    return float(scored.mean()), scored.size


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(
    ("gamma", "delta"), [(0.1, 4.0), (0.25, 2.0), (0.5, 1.0), (0.75, 3.0), (0.942, 4.1)]
)
def test_green_rate_is_the_token_lemmas(gamma: float, delta: float, batch: int) -> None:
    """Through generate(): within three standard errors, in the exact binomial form of that."""
    steps = 2400 // batch
    mark = spec(gamma, delta)
    config = WatermarkConfig(mark, KEY, TOKENIZER, record_kl=True)
    ids = generate(batch, steps, seed=batch, watermarking_config=config)
    share, scored = green_share(ids, mark, 2)
    law = Dirichlet(VOCAB, CONCENTRATION)
    rate = float(law.green_rate(gamma, delta))
    assert scored == 2400
    assert stats.binomtest(round(share * scored), scored, rate).pvalue > 2 * stats.norm.sf(3)
    assert config.record is not None
    spread = config.record.kl.std() / np.sqrt(scored)
    assert abs(config.record.kl.mean() - float(law.kl(gamma, delta))) < 3.5 * spread


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(("gamma", "delta"), [(0.25, 2.0), (0.942, 4.1)])
def test_every_dtype_has_the_lemmas_green_rate(
    dtype: torch.dtype, batch: int, gamma: float, delta: float
) -> None:
    """Straight through the processor; green mass is averaged, not sampled, so 1 % is ample."""
    mark = spec(gamma, delta)
    processor = WatermarkProcessor(mark, KEY, TOKENIZER, temperature=1.0)
    rng, rates, wanted = np.random.default_rng(0), [], []
    for _ in range(200):
        shares = rng.dirichlet(np.full(VOCAB, CONCENTRATION * 20), batch)
        scores = torch.tensor(np.log(np.maximum(shares, 1e-30))).to(dtype)
        contexts = torch.from_numpy(rng.integers(0, VOCAB, (batch, 3)))
        before = scores.clone()
        marked = processor(contexts, scores)
        assert torch.equal(scores, before)
        assert marked.dtype == dtype
        green = Watermark(mark, KEY).scheme.green_masks(contexts[:, -1:].numpy())
        rates.append((torch.softmax(marked.double(), -1).numpy() * green).sum(axis=1))
        y = (torch.softmax(scores.double(), -1).numpy() * green).sum(axis=1)
        wanted.append(np.asarray(token_green_rate(y, delta)))
    assert np.mean(rates) == pytest.approx(np.mean(wanted), rel=0.01)


def test_recorded_kl_is_the_lemmas_at_each_step() -> None:
    mark = spec(0.3, 3.0)
    config = WatermarkConfig(mark, KEY, TOKENIZER, record_kl=True)
    ids = generate(3, 20, watermarking_config=config, temperature=0.7, top_k=50)
    record = config.record
    assert record is not None
    assert record.kl.shape == (20, 3)
    np.testing.assert_allclose(record.kl, token_kl(record.green_mass, 3.0), atol=1e-6)
    np.testing.assert_allclose(
        record.green_rate, token_green_rate(record.green_mass, 3.0), atol=1e-6
    )
    np.testing.assert_array_equal(record.contexts[:, :, 0].T, ids[:, 1:-1])
    generate(2, 4, watermarking_config=config)
    assert config.record is not None
    assert config.record.kl.shape == (4, 2)  # of the latest run alone


def test_delta_zero_is_unmarked_sampling_token_for_token() -> None:
    for settings in ({"temperature": 0.7}, {"top_k": 20, "top_p": 0.9}, {"do_sample": False}):
        plain = generate(4, 50, **settings)
        zero = WatermarkConfig(spec(delta=0.0), KEY, TOKENIZER)
        assert torch.equal(generate(4, 50, watermarking_config=zero, **settings), plain)
        first = WatermarkProcessor(spec(delta=0.0), KEY, TOKENIZER, temperature=0.7)
        assert torch.equal(generate(4, 50, logits_processor=[first], **settings), plain)


def test_truncation_still_truncates() -> None:
    """The mark comes after top-k and top-p, so nothing that they forbid can be sampled."""
    config = WatermarkConfig(spec(0.5, 8.0), KEY, TOKENIZER)
    for settings in ({"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.2}):
        kept: list[torch.Tensor] = []

        class Spy(WatermarkProcessor):
            def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
                kept.append(torch.isfinite(scores))  # noqa: B023
                return super().__call__(input_ids, scores)

        spy = Spy(spec(0.5, 8.0), KEY, TOKENIZER, place="after_temperature")
        config._processor = spy
        ids = generate(4, 30, watermarking_config=config, **settings)
        for step, allowed in enumerate(kept):
            assert allowed.sum(dim=-1).max() < VOCAB
            assert allowed.gather(1, ids[:, 2 + step, None]).all()


def test_penalties_and_stops_still_work() -> None:
    config = WatermarkConfig(spec(0.5, 8.0), KEY, TOKENIZER)
    ids = generate(2, 200, watermarking_config=config, no_repeat_ngram_size=1)
    assert all(len(set(row.tolist())) == row.numel() for row in ids)  # no token twice
    model = KnownModel(VOCAB, width=WIDTH, concentration=CONCENTRATION, seed=0)
    stops = list(range(0, VOCAB, 2))
    out = model.generate(
        torch.tensor([[1, 3]]), attention_mask=torch.ones(1, 2), max_new_tokens=500, do_sample=True,
        pad_token_id=0, eos_token_id=stops, watermarking_config=config, use_cache=False,
    )  # fmt: skip
    assert out.shape[1] < 60
    assert int(out[0, -1]) in stops


def test_before_temperature_is_converted() -> None:
    """Through either door the sampled distribution is the same."""
    mark, rng = spec(0.5, 3.0), np.random.default_rng(0)
    ids = torch.from_numpy(rng.integers(0, VOCAB, (5, 4)))
    scores = torch.from_numpy(rng.standard_normal((5, WIDTH)).astype(np.float32))
    early = WatermarkProcessor(mark, KEY, TOKENIZER, temperature=0.5)(ids, scores) / 0.5
    late = WatermarkProcessor(mark, KEY, TOKENIZER, place="after_temperature")(ids, scores / 0.5)
    torch.testing.assert_close(early, late)
    with pytest.raises(InvalidInput, match="the temperature must be given"):
        WatermarkProcessor(mark, KEY, TOKENIZER)
    legacy = dataclasses.replace(mark, delta_place="before_temperature")
    with pytest.raises(InvalidInput, match="the temperature must be given"):
        WatermarkConfig(legacy, KEY, TOKENIZER)
    same = WatermarkProcessor(legacy, KEY, TOKENIZER)(ids, scores)
    assert float((same - scores).max()) == pytest.approx(3.0, abs=1e-6)
    doubled = WatermarkConfig(legacy, KEY, TOKENIZER, temperature=0.5).construct_processor(WIDTH)
    assert float((doubled(ids, scores) - scores).max()) == pytest.approx(6.0, abs=1e-6)


@pytest.mark.parametrize("h", [1, 2, 4])
def test_left_padding_changes_no_mark(h: int) -> None:
    pad = 7
    mark = spec(context_width=h, tokenizer_digest=None)
    processor = WatermarkProcessor(mark, KEY, Letters(VOCAB, pad), temperature=1.0)
    rng = np.random.default_rng(h)
    scores = torch.from_numpy(rng.standard_normal((6, WIDTH)).astype(np.float32))
    # lengths 1 to 5, one text that begins with the pad id as a real token after another, one empty
    texts = [rng.integers(10, VOCAB, length).tolist() for length in (1, 2, 3, 5)]
    texts += [[11, pad, pad, 12, pad], []]
    padded = torch.tensor([[pad] * (6 - len(text)) + text for text in texts])
    together = processor(padded, scores)
    for row, text in enumerate(texts):
        if len(text) < h:
            assert torch.equal(together[row], scores[row])
            continue
        alone = processor(torch.tensor([text]), scores[row : row + 1])
        assert torch.equal(together[row], alone[0])
        assert not torch.equal(alone[0], scores[row])
    short = processor(torch.zeros((6, h - 1), dtype=torch.int64), scores)
    assert torch.equal(short, scores)


def test_beams_get_their_own_contexts() -> None:
    config = WatermarkConfig(spec(0.5, 6.0), KEY, TOKENIZER)
    ids = generate(2, 60, watermarking_config=config, do_sample=False, num_beams=3)
    plain = generate(2, 60, do_sample=False, num_beams=3)
    assert green_share(ids, spec(), 2)[0] > 0.95
    assert green_share(plain, spec(), 2)[0] < 0.75


def test_deltas_per_row_and_step() -> None:
    seen = []

    def steps(input_ids: torch.Tensor, scores: torch.Tensor) -> list[float]:
        seen.append((input_ids.shape, scores.shape))
        return [0.0, 1.0, 5.0]

    processor = WatermarkProcessor(spec(), KEY, TOKENIZER, temperature=0.5, deltas=steps)
    scores = torch.zeros((3, WIDTH))
    marked = processor(torch.tensor([[1, 2], [1, 2], [1, 2]]), scores)
    assert marked.max(dim=-1).values.tolist() == [0.0, 0.5, 2.5]  # meant after temperature
    assert seen == [((3, 2), (3, WIDTH))]


def test_tensors_elsewhere_are_marked_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other device is at hand, so the host is called one: the path is that of a GPU."""
    processor = WatermarkProcessor(spec(), KEY, TOKENIZER, temperature=1.0)
    ids = torch.tensor([[1, 2], [3, 4]])
    scores = torch.randn((2, WIDTH), generator=torch.Generator().manual_seed(0))
    want = processor(ids, scores)
    padded = WatermarkProcessor(
        spec(tokenizer_digest=None), KEY, Letters(VOCAB, 4), temperature=1.0
    )
    some = padded(ids, scores)
    assert torch.equal(some[0], want[0])
    monkeypatch.setattr(tensors, "_HOST", "another")
    assert torch.equal(processor(ids, scores), want)
    assert torch.equal(padded(ids, scores), some)
    alone = torch.tensor([[2], [4]])  # the second row is padding alone
    assert torch.equal(padded(alone, scores)[1], scores[1])
    for dtype in (torch.bfloat16, torch.float16):  # rounded once, here as there
        half = processor(ids, scores.to(dtype))
        with monkeypatch.context() as patch:
            patch.setattr(tensors, "_HOST", "cpu")
            assert torch.equal(half, processor(ids, scores.to(dtype)))


def test_another_tools_mark_in_generate() -> None:
    mark = WatermarkSpec(
        scheme="hf-lefthash", gamma=0.25, delta=2.0, context_width=1, vocab_size=WIDTH
    )
    config = WatermarkConfig(mark, HashKey(), TOKENIZER)
    theirs = GenerationConfig(
        watermarking_config={"greenlist_ratio": 0.25, "bias": 2.0, "seeding_scheme": "lefthash"}
    ).watermarking_config
    ours = generate(3, 40, watermarking_config=config)
    assert torch.equal(ours, generate(3, 40, watermarking_config=theirs))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SpecMismatch, match="vocabulary of 400; the tokenizer has 399 ids"):
        WatermarkConfig(spec(), KEY, Letters(VOCAB - 1))
    with pytest.raises(SpecMismatch, match="for the tokenizer other; this one is"):
        WatermarkConfig(spec(tokenizer_digest="other"), KEY, TOKENIZER)
    with pytest.raises(SpecMismatch, match="for the key 00; got the key"):
        WatermarkConfig(spec(key_fingerprint="00"), KEY, TOKENIZER)
    config = WatermarkConfig(spec(), KEY, TOKENIZER)
    with pytest.raises(SpecMismatch, match="vocabulary of 400; the model has 100"):
        config.construct_processor(100)
    legacy = WatermarkSpec(
        scheme="hf-lefthash", gamma=0.25, delta=2.0, context_width=1, vocab_size=VOCAB
    )
    with pytest.raises(SpecMismatch, match="the model has 416"):
        WatermarkConfig(legacy, HashKey(), TOKENIZER).construct_processor(WIDTH)
    with pytest.raises(SpecMismatch, match="vocabulary of 400; the model has 100"):
        config.construct_processor(VOCAB)(torch.tensor([[1]]), torch.zeros((1, 100)))


def test_steps_without_a_context_are_on_record_too() -> None:
    mark = spec(context_width=4, tokenizer_digest=None)
    config = WatermarkConfig(mark, KEY, TOKENIZER, record_kl=True)
    generate(2, 6, watermarking_config=config, prompt=torch.tensor([[5], [6]]))
    record = config.record
    assert record is not None
    assert record.kl.shape == (6, 2)
    assert np.all(record.kl[:3] == 0.0)
    assert np.all(record.kl[3:] > 0.0)
    assert record.contexts[0].tolist() == [[-1, -1, -1, 5], [-1, -1, -1, 6]]
    empty = KlRecord()
    assert (empty.kl.shape, empty.contexts.shape) == ((0, 0), (0, 0, 0))


def test_padding_without_a_padding_token() -> None:
    """People then pad with the end of text, or say with what."""
    mark = spec(context_width=2, tokenizer_digest=None)
    scores = torch.zeros((1, WIDTH))
    ids = torch.tensor([[9, 9, 5]])
    tokenizer = Letters(VOCAB)
    tokenizer.eos_token_id = 9  # type: ignore[attr-defined]
    for options in ({"tokenizer": tokenizer}, {"tokenizer": TOKENIZER, "pad_token_id": 9}):
        processor = WatermarkProcessor(mark, KEY, temperature=1.0, **options)
        assert torch.equal(processor(ids, scores), scores)
    assert not torch.equal(
        WatermarkProcessor(mark, KEY, TOKENIZER, temperature=1.0)(ids, scores), scores
    )


def test_deltas_of_a_spec_without_strength_are_converted() -> None:
    processor = WatermarkProcessor(
        spec(delta=0.0), KEY, TOKENIZER, temperature=0.5, deltas=lambda *_: [2.0]
    )
    assert float(processor(torch.tensor([[1]]), torch.zeros((1, WIDTH))).max()) == 1.0


def test_continuous_batching() -> None:
    """It hands over the last id of each row alone, as int32."""
    pad = Letters(VOCAB, pad_token_id=4)
    for h in (0, 1):
        mark = spec(context_width=h, tokenizer_digest=None)
        processor = WatermarkConfig(mark, KEY, pad).construct_processor(WIDTH)
        assert processor.supports_continuous_batching
        ids = torch.tensor([3, 4], dtype=torch.int32)  # a pad id is a token like any other there
        for _ in range(2):
            found = processor(ids, torch.zeros(2, WIDTH))
        contexts = np.array([[3], [4]])[:, 1 - h :]
        green = Watermark(mark, KEY).scheme.green_masks(contexts)
        np.testing.assert_array_equal(found[:, :VOCAB].numpy() > 0.0, green)
    wide = WatermarkProcessor(spec(context_width=2), KEY, TOKENIZER, temperature=1.0)
    with pytest.raises(EngineProblem, match="nor have a context wider than 1"):
        wide(ids, torch.zeros(2, WIDTH))


def test_a_mark_is_not_pickled() -> None:
    with pytest.raises(InvalidInput, match="is not pickled"):
        pickle.dumps(WatermarkConfig(spec(), KEY, TOKENIZER))


def test_the_key_is_in_nothing_that_transformers_shows_or_saves(tmp_path: Path) -> None:
    config = WatermarkConfig(spec(), KEY, TOKENIZER)
    settings = GenerationConfig(watermarking_config=config, do_sample=True)
    settings.save_pretrained(tmp_path)
    config.to_json_file(tmp_path / "config.json")
    saved = "".join(path.read_text() for path in tmp_path.iterdir())
    shown = f"{saved}{settings!r}{settings.to_dict()}{config!r}{dict(config)}{config.to_dict()}"
    low, high = KEY.siphash_key
    secrets = ["canary", b"canary".hex(), str(low), str(high), f"{low:x}", f"{high:x}"]
    assert not [secret for secret in secrets if secret in shown]
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "powermark_spec": config.spec.digest
    }
