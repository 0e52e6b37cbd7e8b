"""Near-identical documents, and the effective number of independent ones among the rest.

**Copies.** Two documents are merged if MinHash estimates their Jaccard index at .5 or more, that is
if they share half of their n-grams. Groups are transitive. Candidates agree in four consecutive
bytes of their sketches, found by sorting: time grows like m log m, memory by some 60 bytes a
document. The first document represents its group; that choice does not depend on a key.

**Effective number.** The calls of m documents without a mark have, over keys, the variance
``a (1 - a) (m + sum of t_ij)``, where t_ij is the correlation of two calls. It is that of
``m / (1 + (m - 1) t)`` independent documents, where t is the mean of t_ij over pairs. For the count
t_ij follows from the share of n-grams that two documents have in common, ``r = s / sqrt(n_i n_j)``:
r is the correlation of their green counts, and that of the two calls is

    t(r) = (P(X > z, Y > z) - a^2) / (a (1 - a))       X, Y normal with correlation r, P(X > z) = a

with d/dr P = exp(-z^2 / (1 + r)) / (2 pi sqrt(1 - r^2)) (Plackett, 1954). Windows and e-values
depend on a few places of a text. Documents that share those places (a header) agree more than r
says, so their correlation is simulated: n-grams get random colours and the detector judges the
documents, 400 times. The larger correlation is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from scipy.sparse.csgraph import connected_components

from powermark.checks import Array, Ids, Mask
from powermark.corpus.sketches import LANES, Sketches

ALIKE = 0.5  # share of a sketch's bytes that copies have in common
_BAND = 4  # bytes that candidates have in common
_AT_ONCE = 2**20  # pairs compared at a time
_ROUNDS = 400  # random colourings
_BLOCK = 50  # of them in memory at a time
_JUDGED = 256  # documents judged in each

# maps uniform draws for the n-grams of one document, (rounds, n), to whether it is called
Judge = Callable[[NDArray[np.float32]], Mask]


def heads_of(minima: NDArray[np.uint8]) -> Ids:
    """Return the first document of each document's group: itself if it has no copies."""
    documents = len(minima)
    groups: Ids = np.arange(documents)
    # a document without n-grams has the same byte everywhere, and no copies
    sketched = np.flatnonzero((minima != minima[:, :1]).any(axis=1))
    for first in range(0, LANES, _BAND):
        band = np.ascontiguousarray(minima[:, first : first + _BAND]).view(np.uint32)[:, 0]
        order = sketched[np.argsort(band[sketched], kind="stable")]
        after = np.flatnonzero(band[order[:-1]] == band[order[1:]])
        pairs = [
            _alike(minima, order[some], order[some + 1])
            for some in np.array_split(after, after.size // _AT_ONCE + 1)
        ]
        left, right = groups[np.concatenate(pairs, axis=1)]
        edges = sparse.coo_array((np.ones(left.size), (left, right)), (documents, documents))
        groups = connected_components(edges, directed=False)[1].astype(np.int64)[groups]
    _, heads, place = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(heads[place])


def _alike(minima: NDArray[np.uint8], left: Ids, right: Ids) -> Ids:
    same = (minima[left] == minima[right]).mean(axis=1) >= ALIKE
    return np.stack([left[same], right[same]])


@dataclass(frozen=True, slots=True)
class Copies:
    """The groups of a corpus, and a sample of documents with the overlap of each pair.

    ``heads`` is the first document of each document's group. ``weights`` of the sample's pairs make
    each group count once; they are 0 within a group.
    """

    heads: Ids
    weights: Array
    overlaps: Array
    sample: Sketches

    @classmethod
    def of(cls, sketches: Sketches) -> Copies:
        """Group documents by their sketches."""
        heads = heads_of(sketches.minima)
        own = heads[sketches.sampled]
        shares = 1.0 / np.bincount(heads, minlength=1)[own]
        weights = np.outer(shares, shares) * (own[:, None] != own)
        return cls(heads, weights, _overlaps(sketches), sketches)

    @property
    def first(self) -> Mask:
        """Which documents are the first of their group."""
        return np.asarray(self.heads == np.arange(self.heads.size))

    def effective(self, size: float, judge: Judge | None = None) -> float:
        """Return the effective number of independent documents, for calls of this size.

        ``judge`` is for detectors other than the count; its size is at most ``size``.
        """
        groups, total = int(self.first.sum()), self.weights.sum()
        if not total or not 0.0 < size < 1.0:
            return float(groups)
        agreement = float((self.weights * call_correlation(self.overlaps, size)).sum() / total)
        if judge is not None:
            measured = self._measured(judge) / (size * (1.0 - size))
            agreement = max(agreement, min(measured, 1.0))
        return groups / (1.0 + (groups - 1) * agreement)

    def _measured(self, judge: Judge) -> float:
        """Return the mean covariance of calls under random colourings, by groups."""
        ends = np.cumsum(self.sample.lengths)
        some = np.arange(0, ends.size, ends.size // _JUDGED + 1)
        weights = self.weights[np.ix_(some, some)]
        if not weights.any():
            return 0.0
        distinct, places = np.unique(self.sample.grams, return_inverse=True)
        spans = [places[ends[i] - self.sample.lengths[i] : ends[i]] for i in some]
        rng = np.random.default_rng(0)  # a repeated scan gives the same
        called = np.empty((_ROUNDS, some.size))
        for rounds in np.split(np.arange(_ROUNDS), _ROUNDS // _BLOCK):
            draws = rng.random((_BLOCK, distinct.size), np.float32)
            called[rounds] = np.stack([judge(draws[:, span]) for span in spans], axis=1)
        called -= called.mean(axis=0)
        return float((weights * (called.T @ called)).sum() / (_ROUNDS - 1) / weights.sum())


def call_correlation(overlaps: Array, size: float) -> Array:
    """Return t(r): the correlation of two calls of a size, of counts with these correlations."""
    z = special.ndtri(1.0 - size)
    angles = np.linspace(0.0, np.pi / 2.0, 2_001)  # r = sin(angle)
    slopes = np.exp(-z * z / (1.0 + np.sin(angles))) / (2.0 * np.pi)
    areas = np.concatenate([[0.0], np.cumsum((slopes[1:] + slopes[:-1]) / 2.0) * angles[1]])
    return np.interp(overlaps, np.sin(angles), areas / (size * (1.0 - size)))


def _overlaps(sketches: Sketches) -> Array:
    """Return ``s / sqrt(n_i n_j)`` of each pair of sampled documents."""
    documents = sketches.sampled.size
    _, columns = np.unique(sketches.grams, return_inverse=True)
    rows = np.repeat(np.arange(documents), sketches.lengths)
    held = sparse.csr_array(
        (np.ones(rows.size), (rows, columns)), (documents, int(columns.max(initial=0)) + 1)
    )
    shared: Array = (held @ held.T).toarray()
    # only the n-grams of a long document with the smallest hashes are kept
    kept = sketches.lengths / np.maximum(sketches.sizes, 1)
    shared /= np.maximum(np.minimum(kept[:, None], kept), 1e-9)
    spread = np.sqrt(np.maximum(sketches.sizes, 1.0))
    return np.asarray(np.minimum(shared / np.outer(spread, spread), 1.0))
