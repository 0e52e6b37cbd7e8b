"""Prompts: a text to continue, or the messages of a chat.

A chat is turned into token ids by the model's own chat template. Models that think before they
answer put their thoughts between ``<think>`` and ``</think>``; only what follows is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from powermark.errors import InvalidInput

Message = dict[str, str]  # role and content
Prompt = str | list[Message]  # a text to continue, or a chat to answer
THINK, ANSWER = "<think>", "</think>"  # tokens that begin and end a thought
_FIELDS = {"role", "content"}


def checked_messages(found: Any, where: str) -> list[Message]:
    """Return the messages of a chat; each must have a role and a content."""
    if not isinstance(found, list) or not found:
        raise InvalidInput(f"the messages of {where} must be a list that is not empty.")
    for message in found:
        texts = isinstance(message, dict) and all(isinstance(message.get(k), str) for k in _FIELDS)
        if not texts or not message.keys() <= _FIELDS:
            raise InvalidInput(
                f'each message of {where} needs the texts "role" and "content", and no other.'
            )
    return found


def as_chats(prompts: Sequence[Prompt], system: str | None = None) -> list[Prompt]:
    """Return prompts as chats: a text becomes a user's message.

    ``system`` is put before the messages of each chat; a chat that has a system message is refused.
    """
    chats: list[Prompt] = []
    for prompt in prompts:
        chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        if system is not None:
            if chat[0]["role"] == "system":
                raise InvalidInput("a chat has a system message already; leave `system` out.")
            chat = [{"role": "system", "content": system}, *chat]
        chats.append(chat)
    return chats


def has_chat_template(tokenizer: Any) -> bool:
    """Whether a tokenizer has a chat template, as those of instruct models have."""
    return getattr(tokenizer, "chat_template", None) is not None


def chat_ids(tokenizer: Any, chat: list[Message]) -> list[int]:
    """Return the ids of a chat, up to where the answer begins."""
    from jinja2 import TemplateError

    if not has_chat_template(tokenizer):
        raise InvalidInput(
            "messages need a model with a chat template, and this one has none.",
            hint="use an instruct model, or prompts that are texts to continue.",
        )
    try:
        found = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    except TemplateError as error:  # templates refuse roles they do not know
        raise InvalidInput(f"the model's chat template refuses a chat: {error}.") from None
    return list(found)


class Thoughts:
    """Where the thoughts of a model end and its answers begin, by its tokenizer's tokens."""

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = tokenizer.get_vocab()
        self._begin, self._end = vocabulary.get(THINK), vocabulary.get(ANSWER)

    @property
    def exist(self) -> bool:
        """Whether the model has a token that ends its thoughts."""
        return self._end is not None

    def answer_start(self, ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> int:
        """Return where the answer begins in generated ids: after the thought, or at 0 without one.

        A thought without an end leaves no answer. Some templates begin it within the prompt.
        """
        whole = [*prompt_ids, *ids]
        begun, ended = _last(whole, self._begin), _last(whole, self._end)
        return len(ids) if begun > ended and self.exist else max(ended + 1 - len(prompt_ids), 0)


def _last(ids: list[int], wanted: int | None) -> int:
    """Return the last place of an id; -1 without one."""
    return len(ids) - 1 - ids[::-1].index(wanted) if wanted in ids else -1
