"""What the fields of specs and profiles mean, for ``words.py``."""

from __future__ import annotations

DESIGN = {
    "gamma": "green share of the vocabulary",
    "delta": "bias on green logits; of a steered plan the largest",
    "n_tokens": "tokens that the detector scores",
    "alpha": "level: bound on the false-positive rate",
    "gamma_prime": "green rate under the mark",
    "kl": "KL(watermarked \\|\\| original), nats per token that counts",
    "critical_count": "green tokens from which on the test rejects; of windows the count's",
    "size": "probability that the test rejects unmarked text",
    "power": "probability that the test rejects marked text",
    "normal_power": "power of the count by the paper's Eq. (1); null for a steered plan and for "
    "other detectors",
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
    "spread": "how marked texts of other lengths vary: rows of a length, the green rate of so many "
    "tokens and the correlation of two; null where tokens are independent, and in plans of 0.1",
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
    "tokens_needed": "by power (`0.5`, `0.8`, `0.95`, `0.99`) the first length at which the count "
    "reaches it on untouched text; null beyond ten million tokens, or beyond a steered plan's "
    "length; empty for other detectors",
    "warnings": "sentences that a reader of the plan must know",
    "points": "the authors' designs, for `method` authors; else empty. Not in a spec",
    "steering": "the schedule of a steered plan, as [specs](spec.md#steering) hold it, there in a "
    "field of their own; else null",
    "constant": "of a steered plan: `n_tokens`, `alpha`, `gamma`, `delta`, `kl` and `power` of the "
    "best constant bias; else null. `gamma_zero`, `gamma_l` and `gamma_h` are then that bias's",
    "kl_cap": "of a steered plan: nats that no step can exceed; else, and without a cap, null",
    "detector": "the test that `size`, `power` and `attacked_power` are of. Those of `evalue` are "
    "of rejecting within `n_tokens`. Not in plans for the count of 0.1",
    "draws": "of a plan for windows only: simulated texts that its powers are shares of",
    "bet": "of a plan for the e-value only: green rate that the evidence bets on",
    "least_tokens": "of a plan for the e-value only: tokens, all green, of the shortest text that "
    "is found",
    "coverage": "of a plan with lengths only: share of answers that is found, each at its own "
    "length",
    "attacked_coverage": "the same after edits; of a plan with lengths and edits only",
    "lengths": "of a plan with lengths only: `mean` and quantiles (`q5` to `q95`) of the tokens "
    "that count in answers",
    "power_by_length": "of a plan with lengths only: power at some numbers of tokens that count, "
    "after edits if there are any",
}
STEERING = {
    "n_tokens": "n, the horizon: tokens scored until a new block begins; 1 to 2,000",
    "deltas": "biases, packed as said below",
    "rates": "for each of some groups of the planned model's texts 56 green rates under the biases "
    "50 (k/55)² for k = 0 to 55; detection computes powers from them, marking needs none. In "
    "schedules of 0.1 one list, of all texts",
    "weights": "share of the texts that each group has; not in 0.1",
    "lost": "share of its tokens whose signal a copy of the text loses; not in 0.1",
    "skipped": "tokens at the beginning of a text that neither count nor are a context: 1, or 0 in "
    "schedules of 0.1, which do not say it",
}
ARRAYS = {
    "head": "the K largest probabilities of each step, descending",
    "tail_mass": "sum of the others",
    "tail_square": "sum of their squares",
    "text": "number of the text that a step belongs to; the steps of a text are in order",
    "ids": "token that was sampled",
    "strength": "share of tokens that the mark changed under which the text was written; 0 "
    "for unmarked text, of which there must be some",
    "copies_text": "number of the text that a token of the copies belongs to, in order",
    "copies_ids": "its id",
    "copies_step": "number of the step that sampled it; -1 where the tokenizer chose another token",
    "copies_returns": "1 if the step's id comes back from the exact text, plus 2 if it comes back "
    "from the prompt and the text together",
}
ABOUT = {
    "format": "`powermark-profile`",
    "version": "2, or 1 without copies; a newer one is refused",
    "model": "name of the model; specs are planned for it by this name",
    "model_digest": "digest of its weights; absent of a server's model",
    "tokenizer_digest": "as in [specs](spec.md)",
    "vocab_size": "number of token ids",
    "n_tokens": "tokens at most of a text",
    "temperature": "of sampling",
    "top_k": "of sampling; 0 is all",
    "top_p": "of sampling",
    "min_p": "of sampling; absent if 0",
    "repetition_penalty": "of sampling; absent if 1",
    "chat": "true if prompts were chats, answered through the chat template; absent otherwise",
    "seed": "of sampling",
    "batch": "texts written at once",
    "prompts": "digest of the prompts, 12 hexadecimal digits",
    "marks": "digests of the specs that texts were written under, by name; of a server's only",
    "made_by": "program and version",
    "texts": "number of texts",
    "steps": "number of steps",
    "answered": "share of the prompts that the model wrote something for; 1 if absent",
    "survival": "share of the ids that come back from a `copy` without special tokens and outer "
    "blanks, from the exact `text`, and from the text `behind_prompt`; not in version 1",
    "typical": "mean over unmarked texts and standard deviation between them, of `certainty` (the "
    "likeliest token's probability), of `scored_share` and of `tokens`; not in version 1",
    "randomness": "of the steps of unmarked text: mean `entropy` in nats, the tail counted as "
    "equally likely tokens, and the shares whose likeliest token is above .99 (`above_99`) and "
    ".999 (`above_999`); computed anew for profiles without it",
    "reference": "of a [reference profile](../profiles.md#reference-profiles): its `name`, the "
    "recorded `model` with its `model_digest`, `tokenizer_digest` and `vocab_size`, the source of "
    "its `prompts`, the recording's `digest`, and what was `kept` of each distribution; it then "
    "has no `model`, `model_digest`, `tokenizer_digest` and `vocab_size` of its own",
    "sharpened": "where each distribution became p^(1/`tau`), normalised: the mean `entropy` that "
    "was asked for, and the digest of the profile it is `from`",
    "source": "what a plan's detector is given, `text` or `ids`; in plans only",
    "next": "number of the next prompt; only in an unfinished profile, which plans refuse",
    "digest": "over the arrays and all that is said here but `format`, `version` and itself",
}
