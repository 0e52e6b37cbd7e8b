"""What every field means that powermark writes, prints or answers; ``fields.py`` makes tables."""

from __future__ import annotations

from formats import ABOUT, ARRAYS, DESIGN, PLAN, STEERING

DETECTION = {
    "source": "where the text came from: a file, a line, or what the request called it",
    "verdict": "`watermarked` if p is at most alpha; else `no watermark found` where `power` is .8 "
    "or more, `inconclusive` where it is not",
    "p": "p-value, corrected for the number of keys; exact for the count, else an upper bound",
    "bits": "-log2 of p",
    "alpha": "level",
    "detector": "which test",
    "tokens": "tokens of the text",
    "scored": "of them, those that count",
    "repeated": "those that do not, because token and green list were there before",
    "green": "green ones among those that count",
    "green_rate": "`green` / `scored`; null where none counts",
    "green_rate_low": "lower end of its 95 % interval (Clopper and Pearson)",
    "green_rate_high": "upper end",
    "gamma": "green share, expected of unmarked text",
    "gamma_prime": "green rate of marked text by the plan, or by the plug-in without one",
    "bet": "green rate that the running evidence bets on: `gamma_prime`, or the plan's own",
    "z": "z-score; guarantees nothing. Null with several keys, or where no token counts",
    "p_mid": "mid-p of the count, corrected for keys; guarantees nothing",
    "marked_share": "share of the counted tokens that the green rate suggests were marked; null "
    "where no token counts, or the mark has no strength",
    "power": "probability that this test finds a marked text with as many counted tokens",
    "tokens_needed": "counted tokens with which the count finds four marked texts in five; null "
    "where there is no such number, and for other detectors",
    "span_start": "first token of the most marked stretch; null where nothing is gained",
    "span_stop": "one past its last",
    "key": "name of the key that fits best; null for a key without a name",
    "keys_tried": "number of keys",
    "looks": "keys times detectors times other looks; `p` and `p_mid` are multiplied by it",
    "warnings": "sentences that a reader of the verdict must know",
    "signature": "detector, spec, keys, alpha and version in one line",
}
VERIFICATION = {
    "checks": "a Check for each quantity",
    "n_tokens": "tokens scored of each text",
    "alpha": "level",
    "gamma": "green share",
    "delta": "bias, or the largest of a steered mark",
    "read": "what was judged: copies of the `text`, or the sampled `ids`",
    "texts": "texts written with the mark, and as many without",
    "marked": "of the marked ones, those with `n_tokens` that count",
    "unmarked": "of the unmarked ones likewise",
    "notes": "sentences that a reader must know",
    "signature": "what was measured, in one line",
    "speed": "with `--endpoint`, tokens per second: `marked`, `unmarked`, and the share `lost`; "
    "else null",
    "about": "`model`, `sampling` and `prompts` as they were given, `spec` and `key` (digest and "
    "fingerprint), `date` and `version`",
    "broken": "names of the checks that failed",
    "outcome": "`kept`, `broken`, `not enough texts`, or `unknown` where a check has nothing to "
    "rest on",
}
CHECK = {
    "name": "`gamma_prime`, `kl`, `power`, `size`, `attacked_power`; the last three begin with "
    "`window_` for a plan made for a window detector",
    "promised": "by the plan; for `size` alpha",
    "plug_in": "by the plug-in",
    "profile": "by the profile that was given; else null",
    "measured": "an Estimate",
    "by_ids": "an Estimate from the sampled ids, beside what is judged; null without one",
    "holds": "null where too little was measured, or is known of the promise, to say",
    "texts_needed": "texts that would decide if they are found as often; null where `holds` is not",
}
ESTIMATE = {
    "value": "what was measured; null where nothing was",
    "low": "lower end of its interval; all intervals together hold at 95 %. Null where unknown",
    "high": "upper end",
    "texts": "texts it rests on",
}
MARK = {
    "mark": "label: the first digits of the spec's digest, with `.1`, `.2` and so on where one "
    "spec has several keys",
    "spec": "the first digits of the spec's digest",
    "documents": "documents scanned",
    "distinct": "documents once near-identical ones are merged; shares and calls are of these",
    "merged": "`documents` - `distinct`",
    "largest_group": "documents in the largest group of near-identical ones",
    "effective": "independent documents whose calls would vary as much from key to key",
    "tokens": "their tokens",
    "scored": "those that count",
    "verdicts": "documents by verdict",
    "share": "estimated share of marked distinct documents; null where none is long enough to tell",
    "share_low": "lower end of its 95 % interval",
    "share_high": "upper end",
    "share_at_least": "lower end that asks nothing of the power",
    "fdr": "false-discovery rate of all calls",
    "level": "this mark's part of it",
    "bh_threshold": "largest p that Benjamini and Hochberg call; null where they call none",
    "bh_calls": "distinct documents that they call",
    "holm_threshold": "largest p that Holm calls; null where he calls none",
    "holm_calls": "distinct documents that he calls",
    "p_histogram": "documents by p, in 20 bins of .05",
    "signatures": "of the detectors",
}
ROW = {  # others are a detection's
    "id": "the document's own, or its place, `file:number`",
    "mark": MARK["mark"],
    "spec": MARK["spec"],
    "log_e": "natural logarithm of the e-value at the end of the text, corrected for keys",
    "size": "probability that unmarked text with as many counted tokens is called watermarked; "
    "exact for the count, alpha for others",
    "char_start": "first character (Unicode code point) of the most marked stretch, blanks left "
    "out; for texts called watermarked, without `--normalise`",
    "char_stop": "one past its last",
    "holm": "whether Holm calls it; only in `calls.*`",
    "copy_of": "id of the first document of its group, null for that one; only in `calls.*`",
}
AUDIT_ROW = {
    "length": "counted tokens taken of each text",
    "alpha": "level",
    "size": "what an ideal colouring gives, at most alpha; of the e-value alpha itself",
    "texts": "texts that are long enough",
    "rejections": "of them, those that the given key calls marked",
    "rate": "`rejections` / `texts`",
    "low": "lower end of its 95 % interval",
    "high": "upper end",
    "keys": "keys tried: the given one and fresh ones",
    "mean_rate": "mean rate over keys",
    "least_rate": "least",
    "median_rate": "median",
    "worst_rate": "largest",
    "chance_worst_rate": "the largest of so many, in the median, if texts shared nothing",
    "kind": "`all`, or where there are several kinds of text one of them: a template, or a file's "
    "or folder's name",
    "detector": "what called them",
}
WORDS: dict[str, dict[str, str]] = {
    "Design": DESIGN,
    "Plan": PLAN,
    "Compared": {
        "model": "signal model",
        "promised": "`gamma`, `delta`, `n_tokens`, `alpha`, `kl`, `power`, `attacked_power` of "
        "its plan; null where it has none",
        "on_profile": "`gamma_prime`, `kl`, `power`, `attacked_power` of that plan by the profile",
    },
    "Curve": {
        "over": "what varies",
        "points": "a Plan each, or a Design where gamma and delta are both known; values that no "
        "design reaches are left out",
    },
    "steering": STEERING,
    "Detection": DETECTION,
    "tokens": {
        "statement": "the verdict in plain words",
        "pieces": "a Piece for each token",
        "evidence": "log E after each token that counts",
    },
    "Piece": {
        "text": "the token's characters",
        "state": "`green`, `red`, or why it does not count: `no context`, `repeated`, `special`",
    },
    "Verdict": {
        "p": "p-value rounded up to a power of ten",
        "power": "rounded to one digit",
    },
    "Batch": {"results": "as of `/v1/detect` for each text, in order; or `source` and `error`"},
    "stream": {
        "detected": "whether the evidence reached 1/alpha",
        "detected_at": "tokens until then; null if it never did",
        "tokens": "tokens read",
        "scored": "of them, those that count",
        "green": "green ones among these",
        "log_e": "the most evidence so far, in nats",
        "alpha": "probability of ever calling an unmarked stream marked",
    },
    "Verification": VERIFICATION,
    "Check": CHECK,
    "Estimate": ESTIMATE,
    "summary": {
        "rejects": "rows and files left out",
        "files_not_read": "files among them",
        "marks": "a MarkSummary for each mark",
        "this_run": "`documents`, `tokens` and `seconds`; with `--json` only, not in the file",
    },
    "MarkSummary": MARK,
    "row": ROW,
    "Reject": {
        "place": "`file:number`, or the file",
        "reason": "one sentence",
        "file": "whether the rest of a file was left out",
        "again": "whether the same command would try it again",
        "more": "rows of the file that this line counts and that are not listed; 0 in other lines",
    },
    "Audit": {
        "rows": "an AuditRow for each kind of text, detector, length and level",
        "rejected": "the texts that the given key calls marked anywhere: their sources; in Python "
        "their places",
        "shared": "the n-grams that the most texts have: token ids, number of texts, whether green",
        "context_width": "tokens before one that choose its list",
        "signature": "what was measured, in one line",
    },
    "AuditRow": AUDIT_ROW,
    "Assumptions": {
        "gamma": "green share",
        "delta": "bias",
        "gamma_prime": "green rate of marked text",
        "texts": "texts of 8 or more counted tokens that count at this strength",
        "lags": "a Lags for each range of distances",
        "quarters": "green rate in each quarter of a text; equal if stationary",
        "drift": "last quarter less the first",
        "drift_error": "its standard error",
        "inflation": "variance inflation c by length; constant for long texts if assumed rightly",
    },
    "Lags": {
        "first": "least distance of two counted tokens",
        "last": "largest",
        "correlation": "of their green indicators; falls to 0 if assumed rightly",
        "error": "its standard error, by leaving out texts",
        "information": "mutual information of the two, in nats",
    },
    "profile": ARRAYS,
    "about": ABOUT,
    "record": {
        "index": "number of the prompt",
        "prompt": "what was continued, or the messages that were answered",
        "text": "what was written",
        "prompt_ids": "token ids of the prompt",
        "token_ids": "of the text",
        "finished": "whether the model ended the text itself",
        "lost_ids": "tokens that are not found again when the text is tokenised",
        "seed": "of sampling",
        "kl": "KL of each step, in nats; with `--record-kl`",
        "green_rate": "green rate of each step; with `--record-kl`",
        "certainty": "probability of the likeliest token at each step; with `--record-kl`",
        "thinking": "what a model that thinks first wrote before the text; absent without thoughts",
        "signature": "model, mark, settings and version in one line",
    },
    "step": {
        "text": "new characters",
        "state": "of the last token: as a Piece's, or `ended`",
        "scored": "tokens that count so far",
        "green": "green ones among them",
        "log_e": "evidence so far, in nats",
        "detected_at": "counted tokens until it reached 1/alpha; null before",
    },
    "green list": {
        "scheme": "name of the scheme",
        "key_fingerprint": "of the key; null for a hash key",
        "gamma": "green share",
        "vocab_size": "token ids that have a colour",
        "context": "token ids",
        "green": "the ids that are green after them",
    },
    "loaded": {
        "version": "of powermark",
        "scope": "of the client: `detect` or `inspect`",
        "model": "name of the model that writes; null without one",
        "chat": "whether that model has a chat template",
        "specs": "of each `name`, `detects` (`texts`, `token ids` or `nothing`), `spec` (as its "
        "[file](spec.md)) and `verification` (a Verification, or null)",
        "profiles": "`name` and [about](profile.md#about) of each",
        "references": "`name` and about of each "
        "[reference profile](../profiles.md#reference-profiles)",
        "examples": "`name` and `text` of each",
    },
    "error": {
        "code": "a word for programs",
        "message": "one sentence",
        "hint": "what to do; absent where there is nothing to say",
    },
}
