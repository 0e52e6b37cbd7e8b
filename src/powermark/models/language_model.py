"""A language model with its tokenizer, and plain batched completion of prompts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from powermark.checks import count, in_interval
from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.models.catalog import CATALOG, DEFAULT_MODEL
from powermark.models.chat import Prompt, Thoughts, chat_ids, has_chat_template
from powermark.models.drawing import Draw, TopP
from powermark.watermark.spec import digest_of

if TYPE_CHECKING:
    import torch

    from powermark.models.prompt_cache import PromptCache

_SAMPLED = 64  # values of a tensor that go into a model's digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A model's text after a prompt; ``finished`` if the model ended it.

    ``thinking_ids`` come before the text's ``token_ids``, for models that think first.
    """

    prompt_ids: list[int]
    token_ids: list[int]
    text: str
    finished: bool
    thinking_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A transformers model in evaluation mode and its tokenizer.

    ``add_bos`` says whether a prompt gets a beginning-of-sequence token; None leaves that to the
    tokenizer. ``read`` caches prompts, for experiments that write after the same ones repeatedly.
    """

    name: str
    model: Any
    tokenizer: Any
    add_bos: bool | None
    read: PromptCache | None = field(default=None, repr=False, compare=False)

    @property
    def tokenizer_digest(self) -> str:
        """The digest that a spec for this model has."""
        return digest_of(self.tokenizer)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that identify a model: its weights' names, shapes and a sample.

        The sample is evenly spaced values of every tensor, so that large models take no time.
        """
        digest = blake2b(digest_size=16, person=b"pm-model")
        for name, weights in sorted(self.model.state_dict().items()):
            flat = weights.detach().reshape(-1)
            some = flat[:: max(1, flat.numel() // _SAMPLED)][:_SAMPLED].float().cpu().numpy()
            digest.update(f"{name} {tuple(weights.shape)}".encode() + some.tobytes())
        return digest.hexdigest()

    @property
    def end_ids(self) -> set[int | None]:
        """The ids that end a text."""
        ends = self.model.generation_config.eos_token_id
        return set(ends) if isinstance(ends, list) else {ends}

    @property
    def vocab_size(self) -> int:
        """Number of token ids; the logits may be wider."""
        return len(self.tokenizer)

    @property
    def chats(self) -> bool:
        """Whether the model has a chat template, as instruct models have."""
        return has_chat_template(self.tokenizer)

    def encode(self, prompt: Prompt) -> list[int]:
        """Return a prompt's ids, at least one; a chat's are those of the chat template."""
        if not isinstance(prompt, str):
            return chat_ids(self.tokenizer, prompt)
        ids = self.tokenizer.encode(prompt, add_special_tokens=self.add_bos is None)
        start = self.tokenizer.bos_token_id
        if self.add_bos:
            ids = [start, *ids]
        if not ids:
            ids = [self.tokenizer.eos_token_id if start is None else start]
        return list(ids)

    def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        n_tokens: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        watermarking_config: Any = None,
        on_step: Callable[[], object] = lambda: None,
        stop: Callable[[torch.Tensor], bool] = lambda ids: False,  # noqa: ARG005
    ) -> list[Completion]:
        """Continue each text, or answer each chat, by up to ``n_tokens`` tokens, in one batch.

        Parameters
        ----------
        temperature
            0 takes the likeliest token at each step.
        top_k, top_p, min_p
            Truncation before sampling; 0, 1 and 0 for none. ``min_p`` is a share of the likeliest
            token's probability.
        repetition_penalty
            Divides positive logits of tokens in prompt and text, and multiplies negative ones.
        seed
            Makes the batch repeatable; the caller's own random state is left alone.
        watermarking_config
            :class:`powermark.engines.transformers.WatermarkConfig`, to mark the text, or another
            object whose ``construct_processor(columns, device)`` returns a logits processor.
        on_step
            Called after each step.
        stop
            Called after each step with all ids, (prompts, length); True ends all texts.
        """
        import torch

        from powermark.models.attention import grouped_heads

        count("n_tokens", n_tokens)
        in_interval(
            "temperature", temperature, 0.0 if temperature == 0 else 0.01, 100.0, closed="both"
        )
        count("top_k", top_k, at_least=0)
        in_interval("top_p", top_p, 0.0, 1.0, closed="high")
        in_interval("min_p", min_p, 0.0, 1.0, closed="low")
        in_interval("repetition_penalty", repetition_penalty, 0.1, 10.0, closed="both")
        if seed is not None:
            in_interval("seed", seed, 0, 2**63, closed="low")
        ids = [self.encode(prompt) for prompt in prompts]
        width = max(map(len, ids), default=0)
        self.check_length(width + n_tokens)
        pads = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        pad = next(token for token in pads if token is not None)
        processors = _warpers(temperature, top_k, top_p, min_p, repetition_penalty)
        if watermarking_config is not None:
            columns = self.model.config.get_text_config().vocab_size
            processors.append(watermarking_config.construct_processor(columns, self.model.device))
        if temperature > 0:
            processors.append(Draw())
        given = torch.tensor([[pad] * (width - len(row)) + row for row in ids])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
        with torch.random.fork_rng(), torch.no_grad(), grouped_heads(self.model):
            torch.manual_seed(secrets.randbits(63) if seed is None else seed)
            output = self.model.generate(
                given,
                attention_mask=mask,
                past_key_values=self.read and self.read(self.model, given, mask),
                max_new_tokens=n_tokens,
                pad_token_id=pad,
                num_beams=1,
                num_return_sequences=1,
                do_sample=False,  # Draw has drawn already
                temperature=None,
                top_k=None,
                top_p=None,
                logits_processor=processors,
                stopping_criteria=[_Watch(on_step, stop)],
            )
        thoughts = Thoughts(self.tokenizer)
        rows = zip(ids, output[:, width:], strict=True)
        return [self._completion(prompt, new, thoughts) for prompt, new in rows]

    def check_length(self, length: int) -> None:
        """Refuse more tokens than the model has positions for."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        if longest is not None and length > longest:
            raise InvalidInput(
                f"prompt and text may have {longest} tokens with {self.name}; got {length}."
            )

    def _completion(
        self, prompt_ids: list[int], new: torch.Tensor, thoughts: Thoughts
    ) -> Completion:
        """Cut a row before its end-of-sequence token, and its thought off."""
        ids, ends = new.tolist(), self.end_ids
        length = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        start = thoughts.answer_start(ids[:length], prompt_ids)
        return Completion(
            prompt_ids=prompt_ids,
            thinking_ids=ids[:start],
            token_ids=ids[start:length],
            text=self._text([*prompt_ids, *ids[:start]], ids[start:length]),
            finished=length < len(ids),
        )

    def _text(self, prompt_ids: list[int], ids: list[int]) -> str:
        """Decode what follows a prompt; some tokenizers drop the space before a lone first word."""
        decode = partial(self.tokenizer.decode, skip_special_tokens=True)
        before, whole = (decode(part) for part in (prompt_ids, prompt_ids + ids))
        return str(whole.removeprefix(before) if whole.startswith(before) else "") or str(
            decode(ids)
        )


def _warpers(
    temperature: float, top_k: int, top_p: float, min_p: float, repetition_penalty: float
) -> list[Any]:
    """Return the processors before a mark, in transformers' order; no truncation at 0."""
    from transformers.generation import logits_process as steps

    found: list[Any] = []
    if repetition_penalty != 1.0:
        found.append(steps.RepetitionPenaltyLogitsProcessor(float(repetition_penalty)))
    if temperature not in (0.0, 1.0):
        found.append(steps.TemperatureLogitsWarper(float(temperature)))
    if temperature > 0 and top_k > 0:
        found.append(steps.TopKLogitsWarper(top_k))
    if temperature > 0 and top_p < 1.0:
        found.append(TopP(top_p))
    if temperature > 0 and min_p > 0.0:
        found.append(steps.MinPLogitsWarper(min_p))
    return found


class _Watch:
    """A stopping criterion that reports each step, and stops if ``stop`` says so."""

    def __init__(self, on_step: Callable[[], object], stop: Callable[[torch.Tensor], bool]) -> None:
        self._on_step, self._stop = on_step, stop

    def __call__(self, input_ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        self._on_step()
        return (input_ids[:, 0] >= 0).bool() & self._stop(input_ids)  # ids always are


def load_model(name: str = DEFAULT_MODEL) -> LanguageModel:
    """Return a model: embedded by name, from a folder, or from the Hugging Face hub.

    Examples
    --------
    ``load_model()``, ``load_model("gemma3-270m")``, ``load_model("./my-model")``,
    ``load_model("openai-community/gpt2")``
    """
    place = _place(name)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return LanguageModel(
        name=name,
        model=load_part(AutoModelForCausalLM, name, place).eval(),
        tokenizer=load_part(AutoTokenizer, name, place),
        add_bos=CATALOG[name].add_bos if name in CATALOG else None,
    )


def _place(name: str) -> str:
    """Return the folder of an embedded model, or the name itself."""
    try:
        for needed in ("torch", "transformers", "filelock"):
            if find_spec(needed) is None:
                raise ImportError(name=needed)
        from powermark.models.store import model_folder
    except ImportError as error:
        raise MissingExtra(
            f"running a model needs {error.name}, which is not installed.",
            hint="pip install 'powermark[transformers]'",
        ) from None
    return str(model_folder(name)) if name in CATALOG else name


def load_part(
    kind: Any, name: str, place: str, known: Iterable[str] = CATALOG, **settings: Any
) -> Any:
    """Return a model or tokenizer of transformers' class ``kind``, from a folder or the hub."""
    from transformers.utils import logging

    local, shown = Path(place).is_dir(), logging.is_progress_bar_enabled()
    if local:
        logging.disable_progress_bar()
    try:
        return kind.from_pretrained(place, local_files_only=local, **settings)
    except Exception as error:  # the loaders raise exceptions of any type
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileProblem(
            f"cannot load the model {name!r}: {reason}",
            hint=f"name one of {', '.join(known)}, a model folder, or a model of a hub that "
            f"this machine can reach.",
        ) from None
    finally:
        if shown:
            logging.enable_progress_bar()
