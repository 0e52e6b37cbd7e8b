"""The size part: its shortcuts give a detector's verdicts, and its alarm can ring."""

import json
from pathlib import Path
from re import findall
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest

from powermark.detection.detector import Detector
from powermark.detection.scoring import score_flat
from powermark.measuring.templates import KINDS
from powermark.statistics.calls import DETECTORS
from powermark.watermark.compat import COMPAT_SCHEMES
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from proof import size
from proof.ledger import Ledger
from proof.scale import ALPHAS, SCALES
from proof.shop import words
from tests.detection.marked import marked_ids

SPEC = WatermarkSpec(gamma=0.5, delta=0.7, context_width=2, vocab_size=500)
KEY = SecretKey(bytes(32))


@pytest.mark.parametrize("detector", DETECTORS)
def test_verdicts_are_a_detectors(detector: str) -> None:
    rng, n = np.random.default_rng(0), 40
    texts = np.array([marked_ids(SPEC, KEY, n + 40, rng) for _ in range(60)])
    offsets = np.arange(0, texts.size + 1, texts.shape[1])
    scores = score_flat(Watermark(SPEC, KEY).scheme, texts.ravel(), offsets)
    colours = scores.first_colours(n)
    assert colours.shape == (60, n)
    ends = [scores.positions(i)[n - 1] + 1 for i in range(60)]
    ids = np.concatenate([text[:end] for text, end in zip(texts, ends, strict=True)])
    cut = np.concatenate([[0], np.cumsum(ends)])
    rate = SPEC.gamma_prime
    wanted = [
        int((Detector(SPEC, KEY, alpha=a, detector=detector).find(ids, cut).verdict == 0).sum())  # type: ignore[arg-type]
        for a in ALPHAS
    ]
    assert size.rejections(colours, SPEC.gamma, rate)[detector] == wanted
    assert wanted[0] > 0


def test_the_alarm_rings_for_a_size_above_its_alpha_and_not_below() -> None:
    """At 4,000 comparisons; of honest ones less than one in 10,000 runs of this test would fail."""
    rng, limit = np.random.default_rng(1), np.log(4_000 / 0.01)
    for alpha in ALPHAS:
        honest = rng.binomial(4_000, alpha, 250) / 4_000
        assert size.log_evidence(honest, alpha) < limit
        wrong = rng.binomial(4_000, 1.5 * alpha, 250) / 4_000
        assert size.log_evidence(wrong, alpha) > limit
    keyed = rng.beta(0.05, 0.95, 250)  # keys that differ wildly, but are right on average
    assert size.log_evidence(keyed, 0.05) < limit


def test_the_full_scale_is_what_the_page_says() -> None:
    texts: dict[tuple[str, int, float, bool], int] = {}
    templates = set()
    for piece in size.pieces(SCALES["full"], Path("data")):
        s = piece.settings
        if s.get("templates"):
            templates.add((s["context_width"], s["gamma"]))
            continue
        cell = (s["scheme"], s["context_width"], s["gamma"], s["human"])
        texts[cell] = texts.get(cell, 0) + s["keys"] * (s["texts"] or 1)
    ours = {cell: count for cell, count in texts.items() if cell[0] == "pm1"}
    gammas = (0.1, 0.25, 0.5, 0.75, 0.9)
    assert templates == {(h, g) for h in (0, 1, 2, 4) for g in gammas}
    assert ours.keys() == {("pm1", h, g, x) for h in (0, 1, 2, 4) for g in gammas for x in (0, 1)}
    assert all(count >= 10**6 for cell, count in ours.items() if not cell[3])
    assert all(count >= 200 for cell, count in texts.items() if cell[3])  # keys on human text
    theirs = {(cell[0], *cell[2:]) for cell in texts if cell[0] != "pm1"}
    cells = [(g, False) for g in (0.25, 0.5, 0.75)] + [(g, True) for g in (0.25, 0.5)]
    assert theirs == {(scheme, *cell) for scheme in COMPAT_SCHEMES for cell in cells}


def test_schemes_have_seeds_of_their_own() -> None:
    """The names of some are of one length."""
    seeds = [size.seed_of(0, scheme, 1, 0.25) for scheme in COMPAT_SCHEMES]
    assert len({tuple(seed) for seed in seeds}) == len(COMPAT_SCHEMES)


def test_every_cell_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for name in size.DATASETS:
        rows = rng.integers(2, 200, (6, 500)).tolist()
        lines = [json.dumps({"text": words(row)}) for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    # words of the small corpus, characters of templates
    tokenizer = SimpleNamespace(
        encode=lambda text, **_: [crc32(t.encode()) % 40_000 for t in findall(r"w\d+|\S", text)]
    )
    monkeypatch.setattr("powermark.models.load_tokenizer", lambda: tokenizer)
    entries = size.prove(Ledger(tmp_path / "ledger"), SCALES["tiny"], tmp_path, 1)
    rows = size.table(entries)
    assert {row["scheme"] for row in rows} == {"pm1", *COMPAT_SCHEMES}
    assert {row["source"] for row in rows} == {size.SIMULATED, *size.DATASETS, *KINDS}
    assert {row["detector"] for row in rows} == set(DETECTORS)
    assert all(row["holds"] for row in rows)
    [one] = [
        row
        for row in rows
        if (row["source"], row["scheme"], row["detector"]) == ("c4", "pm1", "count")
        and (row["n_tokens"], row["alpha"]) == (400, 0.05)
    ]
    assert (one["keys"], one["texts"]) == (4, 16)
