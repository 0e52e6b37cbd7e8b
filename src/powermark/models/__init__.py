"""Language models to mark, measure and demonstrate with: two embedded ones, or any of yours."""

from powermark.models.language_model import Completion, LanguageModel, load_model, load_tokenizer

__all__ = ["Completion", "LanguageModel", "load_model", "load_tokenizer"]
