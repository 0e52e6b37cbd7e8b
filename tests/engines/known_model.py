"""A causal language model whose next-token distributions are drawn from a known Dirichlet law."""

from typing import Any

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from tests.engines.letters import Letters

__all__ = ["KnownConfig", "KnownModel", "Letters"]


class KnownConfig(PretrainedConfig):  # type: ignore[misc]
    model_type = "known"
    num_hidden_layers = 1


class KnownModel(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """Each position's distribution is Dirichlet(concentration) over the first vocab_size ids.

    Columns beyond, as in padded embeddings, have logits of -20: as good as never sampled. The
    distributions depend on nothing but the seed, so marked and unmarked runs see the same ones.
    """

    config_class = KnownConfig

    def __init__(self, vocab_size: int, *, width: int, concentration: float, seed: int) -> None:
        super().__init__(KnownConfig(vocab_size=width))
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self._law = torch.distributions.Gamma(torch.full((vocab_size,), concentration), 1.0)
        self._width = width
        self._state = torch.Generator().manual_seed(seed).get_state()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,  # noqa: ARG002
        **_: Any,
    ) -> CausalLMOutputWithPast:
        with torch.random.fork_rng():
            torch.set_rng_state(self._state)
            draws = self._law.sample(torch.Size([input_ids.shape[0]]))
            self._state = torch.get_rng_state()
        logits = torch.full((input_ids.shape[0], 1, self._width), -20.0)
        shares = draws / draws.sum(dim=-1, keepdim=True)
        logits[:, 0, : draws.shape[-1]] = shares.clamp_min(1e-30).log()
        return CausalLMOutputWithPast(logits=logits)

    def prepare_inputs_for_generation(
        self,
        input_ids: torch.Tensor,
        **kwargs: Any,  # noqa: ARG002  # by this name transformers knows that others may come
    ) -> dict[str, torch.Tensor]:
        return {"input_ids": input_ids}
