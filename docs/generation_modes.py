"""Every way in which transformers generates, and whether a mark is in the text or is refused.

``tests/engines/test_generation_modes.py`` tries each; cog shows them in ``engines.md``.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Outcome = Literal["marked", "refused", "refused by transformers"]


class Mode(NamedTuple):
    """A way to generate: options of ``generate()``, and what a spec of either kind gets."""

    name: str
    options: dict[str, Any]
    constant: Outcome = "marked"
    steered: Outcome = "marked"


SAMPLE: dict[str, Any] = {"do_sample": True, "top_k": 0}
GREEDY: dict[str, Any] = {"do_sample": False}
# values that the tests put in
ASSISTANT, OTHER_ASSISTANT, OTHER_TOKENIZER = "a model", "another model", "its tokenizer"
_REFUSED: dict[str, Any] = {"constant": "refused", "steered": "refused"}
_MOVED: dict[str, Any] = {
    "constant": "refused by transformers",
    "steered": "refused by transformers",
}
_ASSISTED: dict[str, dict[str, Any]] = {
    "assisted by a model": {"assistant_model": ASSISTANT},
    "assisted by an early exit": {"assistant_early_exit": 1},
    "assisted by prompt lookup": {"prompt_lookup_num_tokens": 4},
}
_OTHER = {
    "assistant_model": OTHER_ASSISTANT,
    "assistant_tokenizer": OTHER_TOKENIZER,
    "tokenizer": "the tokenizer",
}

MODES = [
    Mode("sampling", SAMPLE),
    Mode("greedy search", GREEDY),
    Mode("beam search", GREEDY | {"num_beams": 3}),
    Mode("beam sampling", SAMPLE | {"num_beams": 3}),
    Mode("several texts a prompt", SAMPLE | {"num_return_sequences": 3}),
    *(Mode(f"sampling, {name}", SAMPLE | given) for name, given in _ASSISTED.items()),
    *(Mode(f"greedy search, {name}", GREEDY | given) for name, given in _ASSISTED.items()),
    Mode("sampling, assisted by a model of another tokenizer", SAMPLE | _OTHER, **_REFUSED),
    Mode("greedy search, assisted by a model of another tokenizer", GREEDY | _OTHER, **_REFUSED),
    Mode("contrastive search", GREEDY | {"penalty_alpha": 0.6, "top_k": 4}, **_MOVED),
    Mode("DoLa", GREEDY | {"dola_layers": "low"}, **_MOVED),
    Mode("constrained beam search", GREEDY | {"num_beams": 3, "force_words_ids": [[5]]}, **_MOVED),
    Mode("group beam search", GREEDY | {"num_beams": 4, "num_beam_groups": 2}, **_MOVED),
    Mode("continuous batching, context width 1", {}, steered="refused"),
    Mode("continuous batching, a wider context", {}, **_REFUSED),
]  # fmt: skip


def table() -> None:
    """Write all modes as a table."""
    import cog  # type: ignore[import-not-found]  # runs this

    cog.outl("| way to generate | constant spec | steered spec |")
    cog.outl("|---|---|---|")
    for mode in MODES:
        cog.outl(f"| {mode.name} | {mode.constant} | {mode.steered} |")
