"""Recording a profile with a small random model, and planning with it from the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from powermark.errors import FileProblem, Infeasible, InvalidInput
from powermark.generation.writing import Sampling, batch_seed
from powermark.measuring.record_profile import (
    keep_profile,
    record_profile,
    with_copies,
)
from powermark.models import LanguageModel
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile
from tests.conftest import Run


def test_what_is_recorded_is_what_was_sampled_from(writer: LanguageModel) -> None:
    """In unmarked texts and in marked ones, where it is what the mark was added to."""
    prompts = [f"w{i} w9" for i in range(2, 14)]
    found = record_profile(writer, prompts, Sampling(n_tokens=8, temperature=0.7), batch=12)
    assert found.about["temperature"] == 0.7
    assert found.about["tokenizer_digest"] == writer.tokenizer_digest
    assert found.about["model_digest"] == writer.digest
    unmarked = writer.complete(prompts, n_tokens=8, temperature=0.7, seed=batch_seed(0, 0))
    for number, prompt in enumerate(prompts):
        mine = found.text == number
        marked = number % 6 > 3
        assert np.all((found.strength[mine] > 0.0) == marked)
        ids = found.ids[mine].tolist()
        assert marked or number > 3 or ids == unmarked[number].token_ids
        before = writer.encode(prompt)
        logits = writer.model(torch.tensor([before + ids])).logits[0, len(before) - 1 : -1]
        want = (logits / 0.7).softmax(dim=-1).sort(descending=True).values.detach().numpy()
        np.testing.assert_allclose(found.head[mine], want[:, :64], atol=1e-4)  # the cache rounds
        np.testing.assert_allclose(found.tail_mass[mine], want[:, 64:].sum(axis=1), atol=1e-4)
    weak, strong = np.unique(found.strength)[1:]
    assert 0.0 < weak < strong < 0.75


def test_an_interrupted_profile_is_resumed(writer: LanguageModel, tmp_path: Path) -> None:
    """Killed after each number of steps: the same profile in the end, and no part is left."""
    prompts, sampling = ["w2 w3"] * 7, Sampling(n_tokens=6)
    file, part = tmp_path / "p.npz", tmp_path / "p.npz.part"
    whole = record_profile(writer, prompts, sampling, batch=3)
    for stop in (2, 8, 14):
        steps = iter(range(stop))

        def step(steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            record_profile(writer, prompts, sampling, batch=3, so_far=part, on_step=step)
        if stop > 6:
            with pytest.raises(FileProblem, match="is an unfinished profile"):
                load_profile(part)
            with pytest.raises(FileProblem, match="unfinished profile with other settings"):
                record_profile(writer, prompts, sampling, batch=3, seed=1, so_far=part)
        (tmp_path / ".p.npz.part.0123abcd.new").write_text("killed while writing")
        record_profile(writer, prompts, sampling, batch=3, so_far=part)
        again = record_profile(writer, prompts, sampling, batch=3, so_far=part)  # not kept in time
        assert again.about == whole.about
        keep_profile(again, file, part)
        assert [path.name for path in tmp_path.iterdir()] == ["p.npz"]


def test_a_profile_that_cannot_be_written_is_not_lost(
    writer: LanguageModel, tmp_path: Path
) -> None:
    prompts, part = ["w2 w3"] * 2, tmp_path / "p.npz.part"
    found = record_profile(writer, prompts, Sampling(n_tokens=6), so_far=part)
    with pytest.raises(FileProblem, match="cannot write"):
        keep_profile(found, tmp_path / "nowhere" / "p.npz", part)
    assert part.exists()


def test_nothing_written(writer: LanguageModel, tiny_model: LanguageModel) -> None:
    with pytest.raises(Infeasible, match="wrote nothing"):
        record_profile(writer, [], Sampling(n_tokens=4))
    empty = tiny_model.complete(["a"] * 40, n_tokens=12, seed=batch_seed(0, 0))
    assert any(not text.token_ids for text in empty)  # some end at once, and leave no step
    found = record_profile(tiny_model, ["a"] * 40, Sampling(n_tokens=12), batch=40)
    assert found.about["texts"] < 40


def test_more_steps_than_a_file_may_have_are_refused(writer: LanguageModel) -> None:
    with pytest.raises(InvalidInput, match=r"may have 838,860 steps; 4,195 texts of 200") as caught:
        record_profile(writer, ["w2"] * 4_195, Sampling(n_tokens=200))
    assert caught.value.hint == "ask for 4,194 texts at most."


def test_profiles_from_the_command_line(run: Run, tiny_folder: Path, tmp_path: Path) -> None:
    path, prompts = tmp_path / "p.npz", tmp_path / "prompts.txt"
    prompts.write_text("a b\nc d\n")
    base = ("profile", "--model", str(tiny_folder), "-o", str(path), "--n-tokens", "10")
    code, out, err = run(*base, "--prompts", str(prompts))
    assert (code, err) == (0, "")
    assert " texts by profile(" in out
    assert not (tmp_path / "p.npz.part").exists()
    _, out, _ = run(*base, "--texts", "3", "--json")
    assert json.loads(out)["texts"] == 3
    assert load_profile(path).about["texts"] == 3
    request = ("--n-tokens", "40", "--alpha", ".05", "--profile", str(path), "--json")
    code, out, _ = run("power", "--gamma", ".5", "--delta", "3", *request)
    assert code == 0
    assert json.loads(out)["signal"].startswith("profile(")
    spec = str(tmp_path / "s.json")
    code, _, err = run("plan", *request, "--power", ".5", "--model", str(tiny_folder), "-o", spec)
    assert code == 0
    assert "spec: " in err
    by_model = json.loads(Path(spec).read_text())
    assert run("plan", *request, "--power", ".5", "-o", spec)[0] == 0  # the profile is enough
    assert json.loads(Path(spec).read_text()) == by_model
    elsewhere = ("plan", *request, "--power", ".5", "--model", "smollm2-135m", "-o", spec)
    assert "the spec would be for 'smollm2-135m'" in run(*elsewhere)[2]
    other = ("plan", *request, "--power", ".5", "--vocab-size", "9", "-o", spec)
    assert "whose tokenizer is not the spec's" in run(*other)[2]
    assert (
        "one of --profile, --like and --signal"
        in run("power", "--gamma", ".5", "--delta", "3", *request, "--signal", "dirichlet")[2]
    )


def merging_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose text "ab" is one token, though a model may sample "a" and "b"."""
    vocabulary = {
        token: i for i, token in enumerate(["</s>", "a", "b", "c", "\u0120", "ab", "\u0120c"])
    }
    inner = Tokenizer(models.BPE(vocabulary, [("a", "b"), ("\u0120", "c")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")


def test_a_copy_of_a_text_loses_what_its_tokenizer_merges() -> None:
    """A pair that merges, the leading blank, the special token, and a join with the prompt."""
    end, a, b, c, blank, ab, _ = range(7)
    texts = [[blank, a, b, c, a, end], [b, c, ab, c, a, c], [c, a, c, a, c, a]]
    text = np.repeat(np.arange(3), 6).astype(np.int32)
    nothing = np.zeros(18, np.float32)
    head = np.full((18, 4), 0.25, np.float32)
    ids = np.concatenate(texts).astype(np.int32)
    bare = Profile(head, nothing, nothing, text, ids, nothing, {"model": "none"})
    found = with_copies(bare, merging_tokenizer(), ["c", "ca", "c", "this one was not answered"])
    trip = found.round_trip
    assert trip is not None
    assert trip.ids.tolist() == [ab, c, a, *texts[1], *texts[2]]
    assert trip.step.tolist() == [-1, 3, 4, *range(6, 18)]
    alone, behind = trip.returns & 1 > 0, trip.returns & 2 > 0
    assert np.flatnonzero(~alone).tolist() == [1, 2, 5]
    assert np.flatnonzero(~behind).tolist() == [1, 2, 5, 6]  # "ca" and "b" join to "cab"
    assert found.about["survival"]["copy"] == pytest.approx(14 / 18)
    assert found.about["answered"] == 0.75
    assert found.source == "text"
