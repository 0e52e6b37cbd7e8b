"""The copy of a model that must equal the original; a real GGUF file is read in tests/e2e."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from powermark.errors import PowermarkError
from powermark.models import convert as module
from powermark.models.convert import convert


@pytest.fixture
def gguf(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where transformers is asked for a GGUF file, the small model is read in its place."""

    class Reads:
        def __init__(self, kind: Any) -> None:
            self.kind = kind

        def from_pretrained(self, place: str, *, gguf_file: str, **more: Any) -> Any:
            assert gguf_file == "x.gguf"
            return self.kind.from_pretrained(place, **more)

    monkeypatch.setattr(module, "AutoModelForCausalLM", Reads(LlamaForCausalLM))
    monkeypatch.setattr(module, "AutoTokenizer", Reads(AutoTokenizer))
    return tiny_folder / "x.gguf"


def test_a_converted_model_is_the_same(gguf: Path, tiny_folder: Path, tmp_path: Path) -> None:
    convert(gguf, tmp_path / "out")
    ids = torch.tensor([[2, 3, 4]])
    first, second = (LlamaForCausalLM.from_pretrained(p) for p in (tiny_folder, tmp_path / "out"))
    assert torch.equal(first(ids).logits, second(ids).logits)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").model_max_length == 64


def test_an_unfaithful_copy_is_refused(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "equal", lambda *_: False)
    with pytest.raises(PowermarkError, match=r"x\.gguf was not converted faithfully"):
        convert(gguf, tmp_path / "out")
    assert not (tmp_path / "out").exists()
