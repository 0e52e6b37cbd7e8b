"""A corpus with a known share of marked documents, as large as one likes, in little time.

``python -m benchmarks.corpus FOLDER --documents 200000`` writes Parquet files of 10,000 documents
at most with the columns id, token_ids, marked and text, and beside them spec.json and mark.key.

Words follow Zipf's law over the tokens of the embedded model's tokenizer that are whole words with
a blank before, so that texts come back as the same tokens. A marked document is drawn from the
law that the mark gives, exp(delta) times as likely for green tokens, by rejection: a red candidate
is kept with probability exp(-delta). Green is what the real scheme says. ``--model-documents`` of
them are written by the embedded model itself, marked through its own sampler.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from powermark import plan
from powermark.detection.text import flat_ids
from powermark.models import load_tokenizer
from powermark.watermark.keys import SecretKey, load_key
from powermark.watermark.spec import WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark

SHARE, SHORTEST, LONGEST, FILE = 0.03, 100, 500, 10_000
Ids = NDArray[np.int64]


class Sampler:
    """Draws documents of words, some of them marked."""

    def __init__(self, spec: WatermarkSpec, key: SecretKey, tokenizer: Any) -> None:
        self._scheme, self._delta = Watermark(spec, key).scheme, spec.delta
        vocabulary = tokenizer.get_vocab()
        words = {t: w for w, t in vocabulary.items() if w.startswith("Ġ") and w[1:].isascii()}
        whole = [t for t, w in sorted(words.items()) if w[1:].isalpha()]
        texts = [f" {words[t][1:]}" for t in whole]
        ids, offsets = flat_ids(tokenizer, texts)
        alone = np.diff(offsets) == 1
        self._words = np.array(whole, np.int32)[alone]
        assert (ids[offsets[:-1][alone]] == self._words).all()
        self._texts = np.array(texts, object)[alone]
        shares = 1.0 / np.arange(1.0, self._words.size + 1.0)
        self._law = np.cumsum(shares / shares.sum())

    def documents(self, count: int, rng: np.random.Generator) -> tuple[list[Ids], Any]:
        """Return some documents, as places in the list of words, and which are marked."""
        lengths = rng.integers(SHORTEST, LONGEST + 1, count)
        marked = rng.random(count) < SHARE
        plain = np.split(self._draw(int(lengths.sum()), rng), np.cumsum(lengths)[:-1])
        signed = iter(self._marked(int(marked.sum()), rng))
        return [
            next(signed)[:n] if sign else text
            for text, n, sign in zip(plain, lengths.tolist(), marked, strict=True)
        ], marked

    def _draw(self, size: int, rng: np.random.Generator) -> Ids:
        found = np.searchsorted(self._law, rng.random(size))
        return np.asarray(np.minimum(found, self._words.size - 1))

    def _marked(self, rows: int, rng: np.random.Generator) -> Ids:
        h = self._scheme.context_width
        found = np.empty((rows, LONGEST), np.int64)
        found[:, :h] = self._draw(rows * h, rng).reshape(rows, h)
        for step in range(h, LONGEST):
            waiting = np.arange(rows)
            while waiting.size:
                word = self._draw(waiting.size, rng)
                contexts = self._words[found[waiting, step - h : step]]
                green = self._scheme.are_green(contexts, self._words[word])
                kept = green | (rng.random(waiting.size) < np.exp(-self._delta))
                found[waiting[kept], step] = word[kept]
                waiting = waiting[~kept]
        return found

    def table(self, count: int, rng: np.random.Generator, first: int, *, texts: bool) -> pa.Table:
        """Return rows of documents, with their ids and, if wanted, the texts."""
        places, marked = self.documents(count, rng)
        columns = {
            "id": [f"s{first + i}" for i in range(count)],
            "token_ids": pa.array([self._words[place] for place in places]),
            "marked": marked,
        }
        if texts:
            columns["text"] = ["".join(self._texts[place]) for place in places]
        return pa.table(columns)


def write_corpus(
    folder: Path, documents: int, *, seed: int = 0, model_documents: int = 0, texts: bool = True
) -> tuple[Path, Path]:
    """Write a corpus, in eight files or more, and return the files of its spec and key."""
    folder.mkdir(parents=True)
    tokenizer = load_tokenizer()
    spec_file, key_file = folder / "spec.json", folder / "mark.key"
    rng = np.random.default_rng(seed)
    key_file.write_text(f"powermark-key-1:{rng.bytes(32).hex()}\n")  # no secret: equal every time
    key_file.chmod(0o600)
    key = load_key(key_file)
    spec = WatermarkSpec.from_plan(
        plan(n_tokens=150, alpha=1e-3, power=0.95, edit_rate=0.05),
        vocab_size=len(tokenizer),
        tokenizer_digest=digest_of(tokenizer),
    )
    spec.save(spec_file)
    sampler = Sampler(spec, key, tokenizer)
    drawn = documents - model_documents
    size = min(FILE, -(-drawn // 8))
    for number, first in enumerate(range(0, drawn, size)):
        rows = sampler.table(min(size, drawn - first), rng, first, texts=texts)
        pq.write_table(rows, folder / f"{number:05d}.parquet")
    if model_documents:
        own = pa.Table.from_pylist(list(_written(spec, key, model_documents)))
        pq.write_table(own, folder / "model.parquet")
    return spec_file, key_file


def _written(spec: WatermarkSpec, key: SecretKey, documents: int) -> Iterator[dict[str, Any]]:
    """Write documents with the embedded model, 16 at a time, of which the first are marked."""
    from powermark.engines.transformers import WatermarkConfig
    from powermark.generation.prompts import prompts_for
    from powermark.models import load_model

    model = load_model()
    prompts = prompts_for(None, documents)
    for first in range(0, documents, 16):
        mark = first == 0
        texts = model.complete(
            prompts[first : first + 16],
            n_tokens=200,
            seed=first,
            watermarking_config=WatermarkConfig(spec, key, model.tokenizer) if mark else None,
        )
        for i, text in enumerate(texts, first):
            yield {"id": f"m{i}", "text": text.text, "token_ids": text.token_ids, "marked": mark}


def main() -> None:
    """Write a corpus from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--model-documents", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_corpus(
        given.folder, given.documents, seed=given.seed, model_documents=given.model_documents
    )


if __name__ == "__main__":
    main()
