"""Recording a profile with a small random model, and planning with it from the command line."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from powermark.calibration.profile_file import load_profile
from powermark.errors import Infeasible
from powermark.evaluation.profile import Recorder, record_profile
from powermark.models import LanguageModel
from tests.interfaces.test_cli import Run, run
from tests.models.test_language_model import folder, model

__all__ = ["folder", "model", "run"]  # fixtures, used below by name


def test_what_is_recorded_is_what_was_sampled_from(model: LanguageModel) -> None:
    prompts = ["a b", "c", "d e f"]
    found = record_profile(model, prompts, n_tokens=8, temperature=0.7, seed=1, batch=3)
    assert found.about["temperature"] == 0.7
    assert found.about["tokenizer_digest"] == model.tokenizer_digest
    written = model.complete(prompts, n_tokens=8, temperature=0.7, seed=1)
    for number, text in enumerate(written):
        mine = found.text == number
        assert found.ids[mine].tolist() == text.token_ids
        ids = torch.tensor([text.prompt_ids + text.token_ids])
        logits = model.model(ids).logits[0, len(text.prompt_ids) - 1 : -1]
        want = (logits / 0.7).softmax(dim=-1).sort(descending=True).values.detach().numpy()
        np.testing.assert_allclose(found.head[mine], want, atol=1e-5)
    np.testing.assert_allclose(found.tail_mass, 0.0, atol=1e-6)


def test_batches_and_nothing_written(model: LanguageModel) -> None:
    steps: list[None] = []
    found = record_profile(
        model, ["a", "b", "c"], n_tokens=4, batch=2, on_step=lambda: steps.append(None)
    )
    assert steps
    assert found.about["steps"] == found.ids.size
    with pytest.raises(Infeasible, match="wrote nothing"):
        record_profile(model, [], n_tokens=4)
    recorder = Recorder()
    assert recorder.to_dict() == {}
    recorder.validate()
    assert copy.deepcopy(recorder) is recorder  # what generate() copies must still be ours


def test_profiles_from_the_command_line(run: Run, folder: Path, tmp_path: Path) -> None:
    path, prompts = tmp_path / "p.npz", tmp_path / "prompts.txt"
    prompts.write_text("a b\nc d\n")
    base = ("profile", "--model", str(folder), "-o", str(path), "--n-tokens", "10")
    code, out, err = run(*base, "--prompts", str(prompts))
    assert (code, err) == (0, "")
    assert " texts by profile(" in out
    _, out, _ = run(*base, "--texts", "3", "--json")
    assert json.loads(out)["texts"] == 3
    assert load_profile(path).about["texts"] == 3
    request = ("--n-tokens", "40", "--alpha", ".05", "--profile", str(path), "--json")
    code, out, _ = run("power", "--gamma", ".5", "--delta", "3", *request)
    assert code == 0
    assert json.loads(out)["signal"].startswith("profile(")
    spec = str(tmp_path / "s.json")
    code, _, err = run("plan", *request, "--power", ".5", "--model", str(folder), "-o", spec)
    assert code == 0
    assert "spec: " in err
    other = ("plan", *request, "--power", ".5", "--vocab-size", "9", "-o", spec)
    assert "whose tokenizer is not the spec's" in run(*other)[2]
    assert (
        "either --profile or --signal"
        in run("power", "--gamma", ".5", "--delta", "3", *request, "--signal", "dirichlet")[2]
    )
