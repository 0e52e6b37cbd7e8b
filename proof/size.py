"""(a) Size: how often text without a mark is called marked, by every detector and scheme.

Texts are of random tokens, by humans, or from templates; under every key they are coloured anew by
the real scheme and judged by the functions that a detector is made of. A test in tests/proof says
that these give the verdicts of ``Detector``.

**What is tested.** Under one key texts share word pairs, so they are not independent; keys are. The
share x of texts that one key rejects lies in [0, 1], and if the promise holds its mean over keys is
at most alpha. Then ``prod (1 + b (x - alpha))`` over keys has a mean of at most 1 for every b from
0 to 1/alpha, and so has its average over a grid of b: an e-value (Waudby-Smith and Ramdas, 2024),
valid whatever the law of x. A size is above its alpha where the e-value reaches the number of all
comparisons over .01: in an honest proof that happens with a probability of at most 1 %.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, Ids, Mask
from powermark.counting import SCORED
from powermark.detection.detection import Evidence
from powermark.detection.scoring import Scores, score_flat
from powermark.detection.text import flat_ids
from powermark.measuring.templates import KINDS, templated
from powermark.statistics.calls import threshold
from powermark.statistics.p_values import log_p_value
from powermark.statistics.windows import WindowTest
from powermark.watermark.compat import COMPAT_SCHEMES
from powermark.watermark.keys import HASH_KEY_LIMIT, HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from proof.ledger import Entry, Ledger, Piece
from proof.scale import ALPHAS, FALSE_ALARM, LENGTHS, SIMULATED_LENGTHS, Scale

DATASETS = ("c4", "lfqa", "wikipedia")
SIMULATED, HUMAN, TEMPLATES = TEXTS = ("simulated", "human", "templates")
SMALL_VOCABULARY = 4_096  # of other tools' schemes, whose cost grows with it
_VOCABULARY = 49_152  # of the embedded model's tokenizer
_DELTA = 2.0  # what the e-value bets on; colours do not depend on it
_SPARE = 40  # tokens beside those that are to count: contexts and repeats
FEW = 20  # texts under a key, of a cell that says little
_BETS = np.geomspace(1e-5, 0.9, 40)  # times 1/alpha


def prove(ledger: Ledger, scale: Scale, data: Path, workers: int) -> list[Entry]:
    """Do the part."""
    return ledger.run("size", list(pieces(scale, data)), workers)


def pieces(scale: Scale, data: Path) -> Iterator[Piece]:
    """Yield blocks of keys of every cell."""
    cells: list[dict[str, Any]] = []
    for width in scale.widths:
        for human, texts in ((False, scale.texts), (True, scale.human)):
            mark = {"scheme": "pm1", "context_width": width, "human": human, "texts": texts}
            cells += [{**mark, "gamma": gamma} for gamma in scale.gammas]
        mark = {"scheme": "pm1", "context_width": width, "human": False, "templates": True}
        cells += [{**mark, "gamma": gamma, "texts": scale.templates} for gamma in scale.gammas]
    for scheme, rule in COMPAT_SCHEMES.items():
        for human, texts, gammas in (
            (False, scale.compat_texts, scale.compat_gammas),
            (True, scale.compat_human, scale.compat_human_gammas),
        ):
            mark = {"scheme": scheme, "context_width": rule.context_width}
            cells += [{**mark, "gamma": gamma, "human": human, "texts": texts} for gamma in gammas]
    for cell in cells:
        for first in range(0, scale.keys, scale.block):
            kind = HUMAN if cell["human"] else TEMPLATES if "templates" in cell else SIMULATED
            name = f"{cell['scheme']}-{cell['context_width']}-{cell['gamma']:g}-{kind}-{first:04d}"
            count = min(scale.block, scale.keys - first)
            settings = {**cell, "first": first, "keys": count}
            yield Piece(name, block, {**settings, "data": str(data) if cell["human"] else ""})


def block(
    *,
    scheme: str,
    context_width: int,
    gamma: float,
    human: bool,
    texts: int | None,
    first: int,
    keys: int,
    data: str,
    templates: bool = False,
) -> list[dict[str, Any]]:
    """Return the rejections under some keys, one number for each key and alpha."""
    vocabulary = _VOCABULARY if scheme == "pm1" else SMALL_VOCABULARY
    spec = WatermarkSpec(
        scheme=scheme,
        gamma=gamma,
        delta=_DELTA,
        context_width=context_width,
        vocab_size=vocabulary,
    )
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    for number in range(first, first + keys):
        rng = np.random.default_rng(seed_of(number, scheme, context_width, gamma))
        secret, value = rng.bytes(32), int(rng.integers(1, HASH_KEY_LIMIT))
        colouring = Watermark(spec, SecretKey(secret) if scheme == "pm1" else HashKey(value)).scheme
        if human:
            sources = {name: _human(data, name, vocabulary, texts) for name in DATASETS}
        elif templates:
            sources = {kind: _templates(kind, texts or 0) for kind in KINDS}
        else:
            sources = {SIMULATED: _random(rng, vocabulary, texts or 0)}
        for source, (ids, offsets) in sources.items():
            scores = score_flat(colouring, ids, offsets)
            for n in LENGTHS if human else SIMULATED_LENGTHS:
                colours = scores.first_colours(n)
                for detector, rejected in rejections(colours, gamma, spec.gamma_prime).items():
                    row = rows.setdefault(
                        (source, n, detector),
                        {"source": source, "n_tokens": n, "detector": detector}
                        | {"texts": [], "rejected": []},
                    )
                    row["texts"].append(colours.shape[0])
                    row["rejected"].append(rejected)
    return list(rows.values())


def seed_of(number: int, scheme: str, context_width: int, gamma: float) -> list[int]:
    """Return the seed of a cell's key number so and so."""
    return [number, context_width, crc32(scheme.encode()), round(1000 * gamma)]


def rejections(colours: Mask, gamma: float, rate: float) -> dict[str, list[int]]:
    """Return how many rows of colours each detector calls marked, for every alpha."""
    texts, n = colours.shape
    flat = Scores(
        ids=np.zeros(colours.size, np.int64),
        offsets=np.arange(0, colours.size + 1, n),
        state=np.full(colours.size, SCORED, np.uint8),
        green=colours.ravel(),
    )
    log_ps = {
        "count": log_p_value(colours.sum(axis=1), np.full(texts, n), gamma),
        "evalue": -Evidence.of(flat, gamma, rate).highest,
    }
    found = {
        name: [int((log_p <= np.log(alpha)).sum()) for alpha in ALPHAS]
        for name, log_p in log_ps.items()
    }
    for kind in ("winmax", "winmax-c"):
        statistics = WindowTest(kind, n, gamma).statistics(colours)
        limits = [threshold(kind, n, gamma, alpha) for alpha in ALPHAS]
        found[kind] = [int(limit.rejects(statistics).sum()) for limit in limits]
    return found


def text_of(source: str) -> str:
    """Return which of TEXTS a row's source is."""
    if source in KINDS:
        return TEMPLATES
    return SIMULATED if source == SIMULATED else HUMAN


def _random(rng: np.random.Generator, vocabulary: int, texts: int) -> tuple[Ids, Ids]:
    length = SIMULATED_LENGTHS[-1] + _SPARE
    return rng.integers(0, vocabulary, texts * length), np.arange(0, texts * length + 1, length)


@cache
def _human(data: str, name: str, vocabulary: int, texts: int | None) -> tuple[Ids, Ids]:
    """Return the token ids of a dataset, by the embedded model's tokenizer or a small one."""
    lines = Path(data, f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line)["text"] for line in lines][:texts]
    if vocabulary == SMALL_VOCABULARY:
        return flat_ids(_small_tokenizer(data), found)
    from powermark.models import load_tokenizer

    return flat_ids(load_tokenizer(), found)


@cache
def _templates(kind: str, texts: int) -> tuple[Ids, Ids]:
    """Return the token ids of one kind of template, by the embedded model's tokenizer."""
    from powermark.models import load_tokenizer

    return flat_ids(load_tokenizer(), templated(kind, texts, np.random.default_rng(0)))


@cache
def _small_tokenizer(data: str) -> Any:
    """Return a byte-pair tokenizer of few tokens, learnt on the datasets themselves."""
    from tokenizers import ByteLevelBPETokenizer

    files = [str(Path(data, f"{name}.jsonl")) for name in DATASETS]
    learnt = ByteLevelBPETokenizer()
    learnt.train(files, vocab_size=SMALL_VOCABULARY, show_progress=False)
    return SimpleNamespace(encode=lambda text, **_: learnt.encode(text).ids)


def log_evidence(shares: Array, alpha: float) -> float:
    """Return the log e-value against "the mean share is at most alpha"."""
    bets = _BETS[:, None] / alpha
    logs = np.log1p(bets * (shares - alpha)).sum(axis=1)
    return float(np.logaddexp.reduce(logs) - np.log(logs.size))


def table(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return one row for each source, mark, detector, length and alpha."""
    blocks: dict[tuple[Any, ...], list[tuple[list[int], list[list[int]]]]] = {}
    for entry in entries:
        mark = tuple(entry.settings[name] for name in ("scheme", "context_width", "gamma"))
        for row in entry.found:
            key = (row["source"], *mark, row["detector"], row["n_tokens"])
            blocks.setdefault(key, []).append((row["texts"], row["rejected"]))
    rows = [
        row
        for key in sorted(blocks)
        for row in _rows(
            key,
            np.concatenate([np.array(texts) for texts, _ in blocks[key]]),
            np.concatenate([np.array(rejected) for _, rejected in blocks[key]]),
        )
    ]
    limit = np.log(len(rows) / FALSE_ALARM)
    return [{**row, "holds": row["log_evidence"] < limit} for row in rows]


def _rows(
    key: tuple[Any, ...], texts: NDArray[Any], rejected: NDArray[Any]
) -> Iterator[dict[str, Any]]:
    names = ("source", "scheme", "context_width", "gamma", "detector", "n_tokens")
    if not texts.all():
        return  # under some key no text of this length has enough tokens that count
    for column, alpha in enumerate(ALPHAS):
        shares = rejected[:, column] / texts
        error = 1.96 * shares.std(ddof=1) / np.sqrt(shares.size)
        yield dict(zip(names, key, strict=True)) | {
            "alpha": alpha,
            "keys": int(shares.size),
            "texts": int(texts.sum()),
            "rejected": int(rejected[:, column].sum()),
            "size": float(shares.mean()),
            "low": max(0.0, float(shares.mean() - error)),
            "high": float(shares.mean() + error),
            "median_key": float(np.median(shares)),
            "p95_key": float(np.quantile(shares, 0.95)),
            "worst_key": float(shares.max()),
            "log_evidence": log_evidence(shares, alpha),
        }


def thin(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the cells, whatever their gamma, that have few texts under some key, or none."""
    fewest: dict[tuple[Any, ...], int] = {}
    for entry in entries:
        for row in entry.found:
            mark = (entry.settings["scheme"], entry.settings["context_width"])
            cell = (row["source"], row["n_tokens"], *mark)
            fewest[cell] = min(fewest.get(cell, FEW), *row["texts"])
    names = ("source", "n_tokens", "scheme", "context_width", "texts")
    return [
        dict(zip(names, (*cell, texts), strict=True))
        for cell, texts in sorted(fewest.items())
        if texts < FEW
    ]


class Simulated(NamedTuple):
    """How many cells of random tokens there are, texts in each, and seconds that a text took."""

    cells: int
    texts: int
    seconds: float


def simulated(entries: Sequence[Entry], *, ours: bool) -> Simulated | None:
    """Return what simulation under pm1, or under other tools' schemes, took; None without any."""
    mine = [
        entry
        for entry in entries
        if not entry.settings["human"]
        and not entry.settings.get("templates")
        and (entry.settings["scheme"] == "pm1") == ours
    ]
    names = ("scheme", "context_width", "gamma")
    cells = len({tuple(entry.settings[name] for name in names) for entry in mine})
    texts = sum(entry.settings["texts"] * entry.settings["keys"] for entry in mine)
    if not texts:
        return None
    return Simulated(cells, texts // cells, sum(entry.seconds for entry in mine) / texts)
