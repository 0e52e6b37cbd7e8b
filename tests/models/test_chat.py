"""Chats through a model's template, and answers after thoughts."""

import dataclasses
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark.errors import EngineProblem, InvalidInput
from powermark.generation.writing import Sampling, mark_for, write_batch
from powermark.measuring.record_profile import record_profile
from powermark.models import LanguageModel, load_model, load_tokenizer
from powermark.models.chat import Message, Thoughts
from powermark.planning.plan import plan
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from proof.tiny_model import save_tiny_model
from tests.conftest import VOCAB, Run

TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "w2 {{ m['content'] }} "
    "{% endfor %}{% if add_generation_prompt %}w3{% endif %}"
)
CHAT: list[Message] = [{"role": "user", "content": "w7 w8"}]
KEY = SecretKey(bytes(range(32)))


@pytest.fixture(scope="module")
def chat_folder(writer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat") / "model"
    shutil.copytree(writer_folder, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A random model whose vocabulary has the tokens around thoughts."""
    words = ["<s>", "</s>", "w2", "<think>", "</think>", *(f"w{i}" for i in range(5, VOCAB))]
    folder = save_tiny_model(
        tmp_path_factory.mktemp("thinker"),
        words,
        seed=1,
        vocab_size=VOCAB,
        max_position_embeddings=512,
        eos_token_id=None,
        initializer_range=1.0,
    )
    model = load_model(str(folder))
    model.tokenizer.add_tokens(["<think>", "</think>"])  # so that prompts can contain them
    return model


def test_a_chat_is_answered_through_the_template(chat_folder: Path) -> None:
    model = load_model(str(chat_folder))
    assert model.chats
    assert model.encode(CHAT) == model.encode("w2 w7 w8 w3")
    [answer] = model.complete([CHAT], n_tokens=8, seed=0)
    [same] = model.complete(["w2 w7 w8 w3"], n_tokens=8, seed=0)
    assert (answer.token_ids, answer.thinking_ids) == (same.token_ids, [])
    with pytest.raises(InvalidInput, match="chat template refuses a chat: no tools"):
        model.encode([{"role": "tool", "content": "w2"}])


def test_a_model_without_a_template_answers_no_chat(writer: LanguageModel) -> None:
    assert not writer.chats
    with pytest.raises(InvalidInput, match="messages need a model with a chat template"):
        writer.encode(CHAT)


def test_tokenizers_know_their_template(chat_folder: Path, tmp_path: Path) -> None:
    assert load_tokenizer(str(chat_folder)).chat_template == TEMPLATE
    plain = tmp_path / "model"
    shutil.copytree(chat_folder, plain)
    (plain / "chat_template.jinja").unlink()
    assert load_tokenizer(str(plain)).chat_template is None
    config = plain / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": "x"}))
    assert load_tokenizer(str(plain)).chat_template == "x"
    config.unlink()
    assert load_tokenizer(str(plain)).chat_template is None


def test_a_profile_of_chats(chat_folder: Path) -> None:
    model = load_model(str(chat_folder))
    found = record_profile(model, [CHAT] * 6, Sampling(n_tokens=20, min_p=0.1, temperature=0.9))
    assert (found.about["chat"], found.about["min_p"]) == (True, 0.1)
    assert "repetition_penalty" not in found.about
    assert found.round_trip is not None


def test_the_answer_begins_after_the_thought(thinker: LanguageModel) -> None:
    thoughts = Thoughts(thinker.tokenizer)
    assert thoughts.exist
    assert thoughts.answer_start([7, 8]) == 0
    assert thoughts.answer_start([3, 7, 4, 8]) == 3
    assert thoughts.answer_start([3, 7, 8]) == 3  # the thought never ends
    assert thoughts.answer_start([7, 4, 8], [2, 3]) == 2  # it began in the prompt
    assert thoughts.answer_start([7, 8], [2, 3]) == 2
    assert thoughts.answer_start([7, 8], [3, 7, 4]) == 0  # an earlier answer's


def test_thoughts_are_neither_scored_nor_marked(thinker: LanguageModel) -> None:
    spec = WatermarkSpec(gamma=0.5, delta=6.0, context_width=2, vocab_size=VOCAB)
    sampling = Sampling(n_tokens=150)
    mark, prompts = Watermark(spec, KEY), ["<think> w7", "w7 w8"]
    rates = {}
    for thinking in (False, True):
        config = mark_for(mark, thinker, sampling, thinking=thinking, record_kl=True)
        written = write_batch(thinker, prompts, sampling, seed=1, first=0, config=config)
        thought = next(each for each in written if each.get("thinking"))
        assert "</think>" not in thought["text"]
        assert len(thought["kl"]) == len(thought["token_ids"])
        assert config.record is not None
        rates[thinking] = float(
            np.asarray(config.record.kl)[: len(thought["thinking"].split()), 0].mean()
        )
    assert rates[False] == 0.0 < rates[True]
    some = mark_for(mark, thinker, sampling, rows=lambda ids: np.arange(len(ids)) == 1)
    assert some.record is None


def test_a_steered_mark_refuses_a_model_that_thinks(thinker: LanguageModel) -> None:
    found = plan(n_tokens=12, alpha=0.1, power=0.9, gamma=0.5, steer=True)
    mark = Watermark(WatermarkSpec.from_plan(found, vocab_size=VOCAB), KEY)
    with pytest.raises(EngineProblem, match="thinks before it answers"):
        mark_for(mark, thinker, Sampling(n_tokens=20))


def test_samplers_of_production(writer: LanguageModel) -> None:
    plain = writer.complete(["w5"] * 4, n_tokens=30, seed=0)
    others: list[dict[str, Any]] = [{"min_p": 0.5}, {"repetition_penalty": 5.0}]
    for other in others:
        assert writer.complete(["w5"] * 4, n_tokens=30, seed=0, **other) != plain
    [unlike] = writer.complete(["w5"], n_tokens=30, temperature=0.0, repetition_penalty=10.0)
    assert len(set(unlike.token_ids)) > 25
    refused: list[dict[str, Any]] = [{"min_p": 1.0}, {"repetition_penalty": 0.0}]
    for wrong in refused:
        with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be in"):
            writer.complete(["w5"], n_tokens=3, **wrong)


def test_generate_and_verify_with_chats(chat_folder: Path, run: Run, tmp_path: Path) -> None:
    spec, key, profile = (str(tmp_path / name) for name in ("s.json", "k.key", "p.npz"))
    prompts = tmp_path / "p.jsonl"
    lines = [json.dumps({"messages": [{"role": "user", "content": f"w{i}"}]}) for i in range(5, 65)]
    prompts.write_text("\n".join(lines))
    model = ("--model", str(chat_folder))
    assert run("key", "new", key)[0] == 0
    code, _, err = run("profile", *model, "--prompts", str(prompts), "--texts", "30", "--n-tokens",
                       "40", "-o", profile)  # fmt: skip
    assert code == 0, err
    asked = ("--n-tokens", "30", "--alpha", ".05", "--power", ".9")
    assert run("plan", *asked, "--profile", profile, "--key", key, "-o", spec)[0] == 0
    mark = ("--spec", spec, "--key", key, *model)
    code, out, err = run("generate", *mark, "--json", "--seed", "1", "w9")
    assert (code, err) == (0, "")
    assert json.loads(out)["prompt"] == [{"role": "user", "content": "w9"}]
    _, _, err = run("generate", *mark, "--raw", "--seed", "1", "--min-p", ".1", "w9")
    assert "the plan is for chats, and these prompts are texts to continue" in err
    assert "the plan is for min_p 0; at 0.1 its promises do not hold" in err
    code, out, _ = run("verify", *mark, "--prompts", str(prompts), "--texts", "40", "--json")
    assert json.loads(out)["texts"] == 40  # whatever it says of a random model
    assert code != 2
    code, _, err = run("verify", *mark, "--prompts", "questions", "--raw", "--texts", "4")
    assert (code, "the plan is for chats" in err) == (2, True)


def test_an_empty_text_is_no_success(
    writer_folder: Path, writer: LanguageModel, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    [one] = writer.complete(["w5"], n_tokens=3, seed=0)
    empty = dataclasses.replace(one, token_ids=[], text="")
    texts = [empty, empty]
    monkeypatch.setattr(LanguageModel, "complete", lambda *_, **__: [texts.pop()])
    plain = ("generate", "--no-watermark", "--model", str(writer_folder), "--batch", "1")
    code, _, err = run(*plain, "w5")
    assert (code, err.strip()) == (1, "the model wrote nothing for 1 of 1 prompts.")
    texts.append(one)
    monkeypatch.setattr("sys.stdin", io.StringIO("w5\nw6\n"))
    code, _, err = run(*plain, "--prompts", "-")
    assert (code, err.strip()) == (0, "the model wrote nothing for 1 of 2 prompts.")
