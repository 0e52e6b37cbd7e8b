"""Language models to mark, measure and demonstrate with: two embedded ones, or your own.

language_model.py  LanguageModel, load_model(): batched completion of prompts
chat.py            Prompt: a text to continue or a chat; templates, thoughts
drawing.py         TopP, Draw: truncation, and drawing a token with one uniform number
attention.py       grouped_heads(): faster attention on a CPU
prompt_cache.py    PromptCache: keys and values of prompts, for experiments
tokenizer.py       load_tokenizer(); FileTokenizer: tokenizer.json without transformers
gguf_tokenizer.py  write_tokenizer(): tokenizer.json from a GGUF file
encoder.py         load_encoder(): for BERTScore
catalog.py         the models available by name
store.py           the cache of those models on disk
fetch.py           downloads them with pip
convert.py         converts them from GGUF
"""

from powermark.models.language_model import Completion, LanguageModel, load_model
from powermark.models.tokenizer import load_tokenizer

__all__ = ["Completion", "LanguageModel", "load_model", "load_tokenizer"]
