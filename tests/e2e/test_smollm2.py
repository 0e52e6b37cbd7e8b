"""From nothing to marked text with the embedded model, through the command line."""

import json
from pathlib import Path

import numpy as np

from powermark.detection.detector import Detector
from powermark.detection.scoring import score
from powermark.engines.transformers import WatermarkConfig
from powermark.measuring.attacks import paraphrase
from powermark.models import LanguageModel, load_tokenizer
from powermark.watermark.keys import PREFIX, SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark
from tests.conftest import Run

PROMPTS = ["The city council met on Tuesday", "Once upon a time", "Water boils when", "In 1969"]
# as transformers 5.22.2 reads the file; a version that splits text differently must not go unseen
DIGEST = "5f8285bcfdb63642c5a6493aa06035ac"


def test_the_tokenizer_is_the_one_we_know(smollm2: LanguageModel) -> None:
    assert smollm2.tokenizer_digest == DIGEST
    assert digest_of(load_tokenizer("smollm2-135m")) == DIGEST
    assert smollm2.vocab_size == smollm2.model.config.vocab_size == 49_152
    text = "Two  spaces,\ttabs, 中文, 🙂 and 1969.\n"
    assert smollm2.tokenizer.decode(smollm2.encode(text)) == text


def test_it_knows_english(smollm2: LanguageModel) -> None:
    """Guards the conversion: with a head left random the likeliest word would be anything."""
    text = smollm2.complete(["The capital of France is"], n_tokens=2, temperature=0.0)[0].text
    assert text.startswith(" Paris")


def test_a_model_paraphrases_marked_text(smollm2: LanguageModel) -> None:
    """The same model as writer and as paraphraser: words stay, most of the mark does not."""
    tokenizer, key = smollm2.tokenizer, SecretKey(bytes(range(32)))
    spec = WatermarkSpec(
        gamma=0.25,
        delta=4.0,
        context_width=2,
        vocab_size=smollm2.vocab_size,
        tokenizer_digest=DIGEST,
    )
    mark = WatermarkConfig(spec, key, tokenizer, temperature=1.0)
    marked = smollm2.complete(PROMPTS[:3], n_tokens=60, seed=5, watermarking_config=mark)
    answers = []

    def rewrite(words: str) -> str:
        request = f"Rewrite this text in your own words:\n\n{words}"
        chat = tokenizer.apply_chat_template(
            [{"role": "user", "content": request}], tokenize=False, add_generation_prompt=True
        )
        answers.append(smollm2.complete([chat], n_tokens=60, temperature=0.0)[0].text)
        return answers[-1]

    texts = [text.token_ids for text in marked]
    found = paraphrase(texts, rewrite, tokenizer)
    assert [tokenizer.decode(ids.tolist()) for ids in found.ids] == answers
    assert all(len(answer.split()) > 10 for answer in answers)
    assert 0.0 < found.survival.mean() < 0.6  # some phrases are kept, most are not
    detector = Detector(spec, key, alpha=0.01)
    before, after = detector.detect_many(texts), detector.detect_many(found.ids)
    assert all(one.p < 1e-6 for one in before)
    assert all(late.p > early.p for early, late in zip(before, after, strict=True))
    assert sum(one.green for one in after) / sum(one.scored for one in after) < 0.6  # it was > .8


def test_from_a_plan_to_marked_text(run: Run, tmp_path: Path) -> None:
    key, spec, prompts, out = (tmp_path / name for name in ("k.key", "s.json", "p.txt", "o.jsonl"))
    assert run("key", "new", str(tmp_path / "another.key"))[0] == 0
    key.write_text(PREFIX + bytes(range(32)).hex())  # always the same, so that the texts are too
    key.chmod(0o600)
    code, _, err = run(
        "plan", "--n-tokens", "100", "--alpha", ".01", "--power", ".95",
        "--model", "smollm2-135m", "--key", str(key), "-o", str(spec),
    )  # fmt: skip
    assert code == 0
    mark = WatermarkSpec.load(spec)
    assert mark.digest in err
    assert mark.tokenizer_digest == DIGEST
    prompts.write_text("\n".join(PROMPTS))
    options = (
        "generate", "--spec", str(spec), "--key", str(key), "--prompts", str(prompts),
        "--raw", "--n-tokens", "60", "--temperature", "1", "--seed", "5", "--batch", "4",
        "--record-kl", "-o", str(out),
    )  # fmt: skip
    assert run(*options)[:2] == (0, "")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["prompt"] for record in records] == PROMPTS
    scheme = Watermark(mark, Watermark.load(mark, key).key).scheme
    greens, kl = [], []
    for record in records:
        scores = score(scheme, [record["token_ids"]], prompts=[record["prompt_ids"]])
        greens += scores.colours().tolist()
        kl += record["kl"]
        assert len(record["kl"]) == len(record["token_ids"])
    # gamma is .955: unmarked text would have about 11 red tokens in 240, this has a few at most
    assert len(greens) > 120  # other processors round differently, and texts may end early
    assert np.mean(greens) > 0.985
    assert 0.02 < np.mean(kl) < 0.10  # the plug-in says .043, a real model more
    _, found, _ = run(
        "detect", "--spec", str(spec), "--key", str(key), str(out), "--field", "token_ids",
        "--prompt-field", "prompt_ids", "--alpha", ".2", "--json",
    )  # fmt: skip
    verdicts = [json.loads(line)["verdict"] for line in found.splitlines()]
    assert verdicts.count("watermarked") >= 2  # 60 tokens are enough for alpha = .2
