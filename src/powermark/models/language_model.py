"""A language model with its tokenizer, and plain batched completion of prompts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from powermark.checks import count, in_interval
from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.models.catalog import CATALOG, DEFAULT_MODEL
from powermark.models.drawing import DrawnLast
from powermark.watermark.spec import digest_of

if TYPE_CHECKING:
    import torch

    from powermark.models.prompt_cache import PromptCache

_SAMPLED = 64  # values of a tensor that go into a model's digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model wrote after a prompt; ``finished`` if it ended by itself."""

    prompt_ids: list[int]
    token_ids: list[int]
    text: str
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A transformers model in evaluation mode and its tokenizer.

    ``add_bos`` says whether a prompt gets a beginning-of-sequence token; None leaves that to the
    tokenizer, as its makers set it. ``read`` keeps prompts that it has read, for experiments that
    write after the same ones again and again.
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
        """32 hexadecimal digits that tell models apart: their weights' names, shapes and a sample.

        Evenly spaced values of every tensor, so that large models take no time.
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

    def encode(self, prompt: str) -> list[int]:
        """Return a prompt's ids, at least one."""
        ids = self.tokenizer.encode(prompt, add_special_tokens=self.add_bos is None)
        start = self.tokenizer.bos_token_id
        if self.add_bos:
            ids = [start, *ids]
        if not ids:
            ids = [self.tokenizer.eos_token_id if start is None else start]
        return list(ids)

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n_tokens: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        watermarking_config: Any = None,
        on_step: Callable[[], object] = lambda: None,
        stop: Callable[[torch.Tensor], bool] = lambda ids: False,  # noqa: ARG005
    ) -> list[Completion]:
        """Continue each prompt by up to ``n_tokens`` tokens, all in one batch.

        Parameters
        ----------
        temperature
            0 takes the likeliest token at each step.
        top_k, top_p
            Truncation before sampling; 0 and 1 for none.
        seed
            Makes the batch repeatable; the caller's own random state is left alone.
        watermarking_config
            :class:`powermark.integrations.transformers.WatermarkConfig`, to mark the text.
        on_step
            Called after each step.
        stop
            Called after each step with all ids, (prompts, length); True ends the writing.
        """
        import torch

        count("n_tokens", n_tokens)
        in_interval(
            "temperature", temperature, 0.0 if temperature == 0 else 0.01, 100.0, closed="both"
        )
        count("top_k", top_k, at_least=0)
        in_interval("top_p", top_p, 0.0, 1.0, closed="high")
        if seed is not None:
            in_interval("seed", seed, 0, 2**63, closed="low")
        ids = [self.encode(prompt) for prompt in prompts]
        width = max(map(len, ids), default=0)
        self.check_length(width + n_tokens)
        pads = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        pad = next(token for token in pads if token is not None)
        if temperature > 0:
            watermarking_config = DrawnLast(watermarking_config)
        given = torch.tensor([[pad] * (width - len(row)) + row for row in ids])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(secrets.randbits(63) if seed is None else seed)
            output = self.model.generate(
                given,
                attention_mask=mask,
                past_key_values=self.read and self.read(self.model, given, mask),
                max_new_tokens=n_tokens,
                pad_token_id=pad,
                num_beams=1,
                num_return_sequences=1,
                do_sample=False,  # tokens are drawn by DrawnLast
                temperature=None,
                top_k=None,
                top_p=None,
                logits_processor=_warpers(temperature, top_k, top_p),
                watermarking_config=watermarking_config,
                stopping_criteria=[_Watch(on_step, stop)],
            )
        return [self._completion(row, new) for row, new in zip(ids, output[:, width:], strict=True)]

    def check_length(self, length: int) -> None:
        """Refuse more tokens than the model has places for."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        if longest is not None and length > longest:
            raise InvalidInput(
                f"prompt and text may have {longest} tokens with {self.name}; got {length}."
            )

    def _completion(self, prompt_ids: list[int], new: torch.Tensor) -> Completion:
        """Cut a row at its end-of-sequence token, which is dropped with the padding after it."""
        ids, ends = new.tolist(), self.end_ids
        length = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        return Completion(
            prompt_ids=prompt_ids,
            token_ids=ids[:length],
            text=self._text(prompt_ids, ids[:length]),
            finished=length < len(ids),
        )

    def _text(self, prompt_ids: list[int], ids: list[int]) -> str:
        """Decode what follows a prompt; some tokenizers drop the space before a lone first word."""
        before, whole = (self.tokenizer.decode(part) for part in (prompt_ids, prompt_ids + ids))
        return str(whole.removeprefix(before) if whole.startswith(before) else "") or str(
            self.tokenizer.decode(ids)
        )


def _warpers(temperature: float, top_k: int, top_p: float) -> list[Any]:
    """Return what comes before a mark, in transformers' own order; nothing at temperature 0."""
    from transformers.generation import logits_process as steps

    found: list[Any] = []
    if temperature not in (0.0, 1.0):
        found.append(steps.TemperatureLogitsWarper(float(temperature)))
    if temperature > 0 and top_k > 0:
        found.append(steps.TopKLogitsWarper(top_k))
    if temperature > 0 and top_p < 1.0:
        found.append(steps.TopPLogitsWarper(top_p))
    return found


class _Watch:
    """A stopping criterion that is told of each step, and stops when it is told to."""

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


def load_tokenizer(name: str = DEFAULT_MODEL) -> Any:
    """Return the tokenizer of a model, without its weights; quickly where it is on this machine."""
    place = _place(name)
    file = Path(place) / "tokenizer.json"
    if file.is_file():
        from powermark.models.tokenizer import FileTokenizer

        return FileTokenizer(file)
    from transformers import AutoTokenizer

    return load_part(AutoTokenizer, name, place)


def _place(name: str) -> str:
    """Return the folder of an embedded model; another name is itself."""
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
    except Exception as error:  # the loaders of weights and tokenizers raise whatever they like
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileProblem(
            f"cannot load the model {name!r}: {reason}",
            hint=f"name one of {', '.join(known)}, a model folder, or a model of a hub that "
            f"this machine can reach.",
        ) from None
    finally:
        if shown:
            logging.enable_progress_bar()
