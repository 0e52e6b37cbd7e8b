"""Sketches of documents, to estimate how much evidence they share.

Two documents depend on one another through the n-grams (context and token) that both have: a key
colours those once. For every document a scan keeps MinHash values of its n-grams (Broder, 1997),
one byte each (Li and Koenig, 2010), and for some documents the n-grams themselves as 32-bit hashes.
Of a long document it keeps the n-grams with the smallest hashes, so that two documents keep the
same of those they share. The hashes are public functions of token ids and independent of the key.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Ids
from powermark.corpus import ngram_kernels as kernels
from powermark.watermark.hashing import mix

VERSION = 1
LANES = 32  # bytes of a document's sketch
SAMPLE = 128  # documents of a batch whose n-grams are kept
GRAMS = 512  # n-grams kept of one of them
_SALTS, _FACTORS = (mix(np.arange(LANES, dtype=np.uint64), i) for i in (0, 1))
_FACTORS |= np.uint32(1)


class Sketches(NamedTuple):
    """Sketches of some documents.

    ``minima`` has a row for each. ``sampled`` are the documents whose n-grams are kept, ``sizes``
    the number of different n-grams that each of these has, ``lengths`` the number that is kept, and
    ``grams`` their hashes, in the order of the text, end to end.
    """

    minima: NDArray[np.uint8]
    sampled: Ids
    sizes: Ids
    lengths: Ids
    grams: NDArray[np.uint32]

    @classmethod
    def of(cls, ids: Ids, offsets: Ids, context_width: int) -> Self:
        """Sketch documents stored end to end."""
        width = context_width + 1
        sampled = _some(offsets.size - 1, SAMPLE)
        sizes, kept = [], []
        for i in sampled.tolist():
            found = kernels.grams(ids[offsets[i] : offsets[i + 1]], width)
            distinct, first = np.unique(found, return_index=True)
            sizes.append(distinct.size)
            kept.append(found[np.sort(first[:GRAMS])])
        return cls(
            kernels.minima(ids, offsets, width, _SALTS, _FACTORS),
            sampled,
            np.array(sizes, np.int64),
            np.array([len(each) for each in kept], np.int64),
            np.concatenate([np.zeros(0, np.uint32), *kept]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self], limit: int) -> Self:
        """Return all documents in order, and the n-grams of at most ``limit`` of them."""
        starts = np.cumsum([0, *(len(part.minima) for part in parts)])
        sampled = [part.sampled + start for part, start in zip(parts, starts, strict=False)]
        minima = np.concatenate([np.zeros((0, LANES), np.uint8), *(part.minima for part in parts)])
        none = np.zeros(0, np.int64)
        whole = cls(
            minima,
            np.concatenate([none, *sampled]),
            np.concatenate([none, *(part.sizes for part in parts)]),
            np.concatenate([none, *(part.lengths for part in parts)]),
            np.concatenate([np.zeros(0, np.uint32), *(part.grams for part in parts)]),
        )
        return whole.thinned(limit)

    def thinned(self, limit: int) -> Self:
        """Return the sketches with the n-grams of at most ``limit`` documents."""
        chosen = np.zeros(self.sampled.size, bool)
        chosen[_some(chosen.size, limit)] = True
        return self._replace(
            sampled=self.sampled[chosen],
            sizes=self.sizes[chosen],
            lengths=self.lengths[chosen],
            grams=self.grams[np.repeat(chosen, self.lengths)],
        )

    def to_bytes(self) -> bytes:
        """Return an npz file of these sketches, without np.savez's time stamps."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, array in self._asdict().items():
                np.save(member := io.BytesIO(), array)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read what :meth:`to_bytes` wrote."""
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [io.BytesIO(archive.read(f"{name}.npy")) for name in cls._fields]
        return cls(*(np.load(member, allow_pickle=False) for member in members))


def _some(documents: int, limit: int) -> Ids:
    """Choose ``limit`` places at random, the same every time, in order."""
    return np.sort(np.argsort(mix(np.arange(documents, dtype=np.uint64), 2))[:limit])
