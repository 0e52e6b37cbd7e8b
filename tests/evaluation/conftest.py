from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from powermark.models import LanguageModel, load_model

VOCAB = 200


@pytest.fixture(scope="session")
def writer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 200 words that never ends a text by itself."""
    path = tmp_path_factory.mktemp("writer")
    vocabulary = {"<s>": 0, "</s>": 1} | {f"w{i}": i for i in range(2, VOCAB)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="w2"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>"
    ).save_pretrained(path)
    torch.manual_seed(1)
    shape = LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=None,
        initializer_range=1.0,
    )  # fmt: skip
    LlamaForCausalLM(shape).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def writer(writer_folder: Path) -> LanguageModel:
    return load_model(str(writer_folder))


@pytest.fixture
def prompts_file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"w{i} w{i + 1} w{i + 2}\n" for i in range(2, 40)))
    return path
