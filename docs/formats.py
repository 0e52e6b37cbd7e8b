"""What the fields of specs and profiles mean, for ``words.py``."""

from __future__ import annotations

DESIGN = {
    "gamma": "green share of the vocabulary",
    "delta": "bias on green logits; of a steered plan the largest",
    "n_tokens": "tokens that the detector scores",
    "alpha": "level: bound on the false-positive rate",
    "gamma_prime": "green rate under the mark",
    "kl": "KL(watermarked \\|\\| original), nats per token",
    "critical_count": "green tokens from which on the test rejects",
    "size": "probability that unmarked text has so many, exactly",
    "power": "probability that marked text has so many",
    "normal_power": "what the paper's Eq. (1) says of it; null for a steered plan",
    "information_limit": "least KL per token of any mark with this level and power",
    "efficiency": "`information_limit` / `kl`",
    "edit_rate": "probability that a token is rewritten, where that was asked",
    "survival": "share of positions that keep their signal; null without edits",
    "removal": "share of the text that is replaced in one block, where that was asked",
    "attacked_power": "`power` on edited text; null without edits",
    "context_width": "tokens before one that choose its list",
    "variance_inflation": "overdispersion c of green counts: the signal's own, and what was asked",
    "test": "the exact test, or the paper's z-test",
    "signal": "name of the signal model",
    "profile": "`about` of the [profile](profile.md) that the numbers are from; null without one",
    "standard_errors": "by name, how far the profile's sample lets `gamma_prime`, `kl` and the "
    "powers be off; null without a profile, or with one text",
    "signature": "what was computed, in one line, with the version",
}
PLAN = {
    "method": "how it was solved",
    "solved_for": "the quantity that was left out: `n_tokens`, `alpha`, `power` or `kl`",
    "asked": "what was given, by name",
    "gamma_star": "the gamma above which Eq. (1) never reaches power 1/2",
    "gamma_zero": "the gamma at which this delta costs the most KL",
    "gamma_l": "the smaller of the two gammas that cost the design's plug-in KL at its delta",
    "gamma_h": "the larger of them",
    "tokens_needed": "by power (`0.5`, `0.8`, `0.95`, `0.99`) the first length that reaches it on "
    "untouched text; null beyond ten million tokens, or beyond a steered plan's length",
    "warnings": "sentences that a reader of the plan must know",
    "points": "the authors' designs, for `method` authors; else empty. Not in a spec",
    "steering": "the schedule of a steered plan, as [specs](spec.md#steering) hold it, there in a "
    "field of their own; else null",
    "constant": "of a steered plan: `n_tokens`, `alpha`, `gamma`, `delta`, `kl` and `power` of the "
    "best constant bias; else null. `gamma_zero`, `gamma_l` and `gamma_h` are then that bias's",
}
WINDOW_PLAN = {
    "detector": "the window detector that it was made for",
    "window_size": "size of that detector, at most alpha",
    "window_power": "its power on whole texts",
    "window_attacked_power": "its power with the share `removal` replaced",
    "draws": "simulated texts that these two powers are shares of",
}
STEERING = {
    "n_tokens": "n, the horizon: tokens scored until a new block begins; 1 to 2,000",
    "deltas": "biases, packed as said below",
    "rates": "56 green rates, of the planned model on average, under the biases 50 (k/55)² for "
    "k = 0 to 55; detection computes powers from them, marking needs none",
}
ARRAYS = {
    "head": "the K largest probabilities of each step, descending",
    "tail_mass": "sum of the others",
    "tail_square": "sum of their squares",
    "text": "number of the text that a step belongs to; the steps of a text are in order",
    "ids": "token that was sampled",
    "strength": "share of tokens that the mark changed under which the text was written; 0 "
    "for unmarked text, of which there must be some",
}
ABOUT = {
    "format": "`powermark-profile`",
    "version": "1; a newer one is refused",
    "model": "name of the model; specs are planned for it by this name",
    "model_digest": "digest of its weights; absent of a server's model",
    "tokenizer_digest": "as in [specs](spec.md)",
    "vocab_size": "number of token ids",
    "n_tokens": "tokens at most of a text",
    "temperature": "of sampling",
    "top_k": "of sampling; 0 is all",
    "top_p": "of sampling",
    "seed": "of sampling",
    "batch": "texts written at once",
    "prompts": "digest of the prompts, 12 hexadecimal digits",
    "marks": "digests of the specs that texts were written under, by name; of a server's only",
    "made_by": "program and version",
    "texts": "number of texts",
    "steps": "number of steps",
    "next": "number of the next prompt; only in an unfinished profile, which plans refuse",
    "digest": "over the arrays and all that is said here but `format`, `version` and itself",
}
