"""What the page says of each scenario of faults and concurrency: what is done, in a line."""

from __future__ import annotations

LOST = {
    "faults": "Every scenario is compared with the same work left alone. Something is **lost** "
    "where the two end with other results, or where a damaged file is taken for a whole one. What "
    "goes wrong must be said in a sentence (*last words*), so tracebacks are counted too.",
    "concurrency": "Two processes are started at once on the same cache, file or folder. Something "
    "is **lost** where a result is missing, half-written or other than it should be.",
}
DONE = {
    "kill-runner": "the paper's experiments are killed at random moments, started again",
    "kill-scan": "a scan of a corpus is killed at random moments, started again",
    "kill-small-scan": "a scan smaller than a partition is killed whenever it has kept something",
    "kill-profile": "the recording of a profile is killed at random moments, started again",
    "kill-server": "a server is killed under load and started again; every question is answered, "
    "and rightly",
    "full-disk-spec": "no room for a spec; then there is",
    "full-disk-key": "no room for a key; then there is, and the key is whole",
    "full-disk-report": "no room for an HTML report; then there is",
    "full-disk-profile": "the disk fills up under a profile; then there is room",
    "full-disk-scan": "the disk fills up under a scan; then there is room",
    "full-disk-texts": "the disk fills up under the texts of `verify`; then there is room",
    "full-output": "a command prints to a device that is full",
    "read-only-cache": "the cache cannot be written: detection does without, a model is refused",
    "clock-jumps": "every command that writes a file, with a clock that jumps by thirty years",
    "clock-jumps-server": "a server whose clock jumps by thirty years answers as before",
    "idle-flood": "a server with 1,024 descriptors answers under as many connections that say "
    "nothing",
    "slow-readers": "the same under connections that ask for a large file and never read it",
    "combining-marks": "a server answers while others have it normalise megabytes of marks",
    "served-secrets": "a key, tokens and a link beside the specs are not served; among the "
    "examples they keep the server from starting",
    "damaged-spec": "a spec is cut, zeroed, overwritten or has a bit turned",
    "damaged-key": "the same to a key, beside the spec that it goes with",
    "damaged-profile": "the same to a profile",
    "damaged-cache": "the same to a table that p-values follow from",
    "damaged-records": "the same to the texts that a long job has written so far",
    "damaged-scan": "the same to a finished part of a scan, and to its job",
    "damaged-model": "the same to a model's tokenizer, config and weights; of a config only what "
    "changes the weights is seen, of weights only tracebacks count: others are another model",
    **{
        f"bomb-{name}": f"{what}; read with at most a gigabyte, refused"
        for name, what in {
            "csv-columns": "a CSV header of 400 million columns",
            "csv-lines": "a CSV row of 300 million lines",
            "csv-field": "a CSV field of 2 GB",
            "csv-rows": "CSV rows of five million columns",
            "csv-rejects": "two million bad rows in a file that breaks off",
            "jsonl-line": "a line of JSON of 500 MB",
            "jsonl-nested": "lists in lists, five million a line",
            "jsonl-texts-as-ids": "a long text and a million empty ones in place of token ids",
            "text": "a text of 4 GB",
            "parquet-text": "a text of 400 MB in Parquet",
            "parquet-texts": "several of 190 MB",
            "parquet-repeated": "a dictionary with one text of 20 MB for 1,000 rows",
            "parquet-list": "a list of 100 million token ids in 48 bytes",
            "detect-text": "`detect`: a text of 4 GB",
            "detect-jsonl-line": "`detect`: a line of 1 GB",
            "detect-jsonl-ids": "`detect`: five million token ids on one line",
            "detect-csv-field": "`detect`: a CSV field without an end",
            "detect-parquet-text": "`detect`: a text of 40 million characters in some kilobytes",
            "audit-text": "`audit`: a text of 4 GB",
            "audit-jsonl-line": "`audit`: a line of 1 GB",
            "audit-parquet-text": "`audit`: a text of 40 million characters in some kilobytes",
            "profile": "a profile of 2 GB",
            "spec": "a spec of 4 GB",
            "key": "a key of 4 GB",
        }.items()
    },
    **{
        f"drafts-{kind}": f"a {kind} mark, in every way of transformers to verify drafts"
        for kind in ("constant", "steered")
    },
    "table": "two make the same table in the cache",
    "model": "two fetch the same model into the cache",
    "key": "two make a key of the same name: one is refused",
    "scan": "two scan into the same folder: one is kept out, or finds it done",
    "profile": "two record the same profile to the same file",
}
