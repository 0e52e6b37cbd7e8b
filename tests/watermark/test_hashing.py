"""The hash is SipHash, its two implementations agree, and its colours look like coin tosses."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from powermark.errors import InvalidInput
from powermark.watermark import hash_kernels as kernels
from powermark.watermark import hashing
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1, threshold
from tests import golden

FALSE_ALARM = 1e-6  # of each statistical test below, were the hash ideal
KEY = SecretKey(bytes(range(32)))
VOCAB = 50_257


def green_mask(key: SecretKey, contexts: np.ndarray, gamma: float) -> np.ndarray:
    scheme = Pm1(key, gamma=gamma, vocab_size=VOCAB, context_width=contexts.shape[1])
    return scheme.green_masks(contexts)


def seeds(rng: np.random.Generator, size: int) -> hashing.Seeds:
    return rng.integers(0, 2**64, size, dtype=np.uint64)


@pytest.mark.parametrize(("length", "digest"), golden.pairs("siphash.csv"))
def test_siphash_of_its_authors(length: str, digest: str) -> None:
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    message = np.frombuffer(bytes(range(int(length))), dtype="<u4")
    want = int.from_bytes(bytes.fromhex(digest), "little")
    assert int(hashing.siphash(key, message)) == want
    compiled = kernels.siphash(
        np.uint64(key[0]), np.uint64(key[1]), message[None, :].astype(np.uint32)
    )
    assert int(compiled[0]) == want


@pytest.mark.parametrize("h", [0, 1, 2, 3, 4, 9])
def test_numpy_and_numba_agree_on_every_bit(h: int) -> None:
    """One million (key, context, token, gamma) over all context widths."""
    rng = np.random.default_rng(h)
    rows = 1_000_000 // 6 // 4
    for gamma in (0.01, 0.25, 0.5, 0.9418449208606035):
        key = SecretKey(rng.bytes(32))
        contexts = rng.integers(0, 2**32, (rows, h))
        tokens = rng.integers(0, 2**32, rows)
        bits = hashing.mix(hashing.siphash(key.siphash_key, contexts), tokens)
        scheme = Pm1(key, gamma=gamma, vocab_size=VOCAB, context_width=h)
        np.testing.assert_array_equal(scheme.are_green(contexts, tokens), bits < threshold(gamma))
    mask = green_mask(key, contexts[:3], 0.3)
    reference = hashing.siphash(key.siphash_key, contexts[:3])[:, None]
    want = hashing.mix(reference, np.arange(VOCAB)[None, :]) < threshold(0.3)
    np.testing.assert_array_equal(mask, want)


def test_every_input_bit_flips_every_output_bit_half_the_time() -> None:
    """82 input bits x 32 output bits: the largest deviation, Bonferroni corrected."""
    rng, size = np.random.default_rng(7), 200_000
    s, t = seeds(rng, size), rng.integers(0, 2**18, size)
    base = hashing.mix(s, t)
    flipped = [hashing.mix(s ^ np.uint64(1 << b), t) for b in range(64)]
    flipped += [hashing.mix(s, t ^ (1 << b)) for b in range(18)]
    worst = 0.0
    for other in flipped:
        change = (base ^ other)[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
        worst = max(worst, float(np.abs(change.mean(axis=0) - 0.5).max()))
    limit = stats.norm.isf(FALSE_ALARM / (2 * 82 * 32)) * 0.5 / np.sqrt(size)
    assert worst < limit


@pytest.mark.parametrize("gamma", [0.05, 0.25, 0.5, 0.942])
def test_share_of_green_per_context_is_binomial(gamma: float) -> None:
    """400 neighbouring contexts (ids 0 to 399): sum of squared z-scores, both tails."""
    counts = green_mask(KEY, np.arange(400)[:, None], gamma).sum(axis=1)
    z = (counts - VOCAB * gamma) / np.sqrt(VOCAB * gamma * (1 - gamma))
    p = stats.chi2.sf(float((z**2).sum()), 400)
    assert FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2


@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.942])
@pytest.mark.parametrize("offset", [1, 2, 3, 256, 4096, 32_768])
def test_tokens_are_coloured_independently(gamma: float, offset: int) -> None:
    """Joint colours of tokens t and t + offset over 100 contexts, against independence."""
    mask = green_mask(KEY, np.arange(100)[:, None], gamma)
    check_independence(mask[:, :-offset].ravel(), mask[:, offset:].ravel(), gamma)


@pytest.mark.parametrize("gamma", [0.25, 0.942])
@pytest.mark.parametrize(("position", "step"), list(itertools.product((0, 1, 3), (1, 65_536))))
def test_neighbouring_contexts_are_independent(gamma: float, position: int, step: int) -> None:
    rng = np.random.default_rng(position)
    contexts = rng.integers(0, VOCAB, (80, 4))
    moved = contexts.copy()
    moved[:, position] += step
    lists = [green_mask(KEY, c, gamma).ravel() for c in (contexts, moved)]
    check_independence(lists[0], lists[1], gamma)


def test_order_of_a_context_matters() -> None:
    contexts = np.random.default_rng(3).integers(0, VOCAB, (80, 2))
    lists = [green_mask(KEY, c, 0.5).ravel() for c in (contexts, contexts[:, ::-1])]
    check_independence(lists[0], lists[1], 0.5)


@pytest.mark.parametrize("bit", [0, 7, 128, 255])
def test_keys_one_bit_apart_are_independent(bit: int) -> None:
    secret = bytearray(range(32))
    secret[bit // 8] ^= 1 << bit % 8
    other, contexts = SecretKey(bytes(secret)), np.arange(80)[:, None]
    lists = [green_mask(k, contexts, 0.25).ravel() for k in (KEY, other)]
    check_independence(lists[0], lists[1], 0.25)


def test_zero_tokens_do_not_weaken_the_key() -> None:
    """After token 0 multiplicative schemes give every key the same list; SipHash does not."""
    contexts = np.zeros((1, 4), dtype=np.int64)
    rng = np.random.default_rng(0)
    lists = np.array([green_mask(SecretKey(rng.bytes(32)), contexts, 0.5)[0] for _ in range(60)])
    check_independence(lists[:-1].ravel(), lists[1:].ravel(), 0.5)


def check_independence(a: np.ndarray, b: np.ndarray, gamma: float) -> None:
    """Chi-square of the four joint colours against gamma^2, ...; three degrees of freedom."""
    observed = np.bincount(2 * a.astype(int) + b, minlength=4)
    share = np.array([1 - gamma, gamma])
    expected = np.outer(share, share).ravel() * a.size
    assert stats.chi2.sf(float(((observed - expected) ** 2 / expected).sum()), 3) > FALSE_ALARM


def published_vectors() -> list[list[str]]:
    """The rows of the table in docs/pm1.md, the only place where the vectors are written."""
    page = (Path(__file__).parents[2] / "docs" / "pm1.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if len(row) == 6][1:]


@pytest.mark.parametrize("row", published_vectors(), ids=lambda row: row[0])
def test_vectors_are_frozen(row: list[str]) -> None:
    context = [] if row[0] == "(empty)" else [int(token) for token in row[0].split()]
    ids = np.array([context], dtype=np.int64)
    seed = hashing.siphash(KEY.siphash_key, ids)
    assert f"{int(seed[0]):016x}" == row[1]
    bits = hashing.mix(np.repeat(seed, 3), [0, 1, 50_256])
    assert [f"{int(x):08x}" for x in bits] == row[2].split()
    green = np.flatnonzero(green_mask(KEY, ids, 0.25)[0])
    assert green[:8].tolist() == [int(token) for token in row[3].split()]
    assert (green.size, int(green.sum())) == (int(row[4]), int(row[5]))


def test_the_vectors_say_it_all() -> None:
    assert len(published_vectors()) == 5
    assert KEY.siphash_key == (0x92B99588AC489581, 0x6B9C1D102043BBC2)
    assert KEY.fingerprint == "79f432ef11e07472"


@pytest.mark.parametrize("bad", [[-1], [2**32], [0.5]])
def test_token_ids_are_whole_and_32_bit(bad: list[float]) -> None:
    with pytest.raises(InvalidInput, match="tokens must be"):
        hashing.mix(np.zeros(1, np.uint64), bad)


def test_no_tokens_no_colours() -> None:
    assert hashing.mix(np.zeros(0, np.uint64), []).shape == (0,)
    scheme = Pm1(KEY, gamma=0.5, vocab_size=VOCAB, context_width=2)
    assert scheme.are_green(np.zeros((0, 2), np.int64), []).shape == (0,)
