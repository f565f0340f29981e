"""Keyed streams: who gets which numbers, and whether they have the right distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gdcb import betas
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.streams import DRAW, GATE, Stream, Streams, check_seed, key_of
from tests.parts.builders import bytes_of, fixed, rng_of, stream

SHAPES = (0.3, 1.0, 1.5, 3.0, 20.0, 200.0)
# Shapes at the ends of the range, at the prior, and at either side of 1, where λ has its bend.
EXTREMES = (
    (0.05, 0.05),
    (0.05, 7.0),
    (7.0, 0.05),
    (0.05, 1e6),
    (1e6, 0.3),
    (1e6, 1e6),
    (1.0, 1e6),
    (0.999, 1.001),
    (1.001, 1.002),
)
REJECTED = ((0.3, 0.4), (1.0, 3.0), (2.0, 9.0), (40.0, 30.0))
# 36 in blocks, 36 live, 2 × 9 at the extremes, 1 + 4 more: together a false alarm with 1e-3.
LEVEL = 1e-3 / (36 + 36 + 18 + 1 + 4)
SIZE = 4_000


def shapes_of(seed: int, n: int, k: int) -> Array:
    """Return (n, k) shapes, a third of them below 1."""
    return np.exp(rng_of(seed).uniform(-2.0, 4.0, size=(n, k)))


def test_same_key_same_bytes() -> None:
    """Two streams at one place give the same bytes, call by call."""

    def draws(rng: Stream) -> bytes:
        shape = shapes_of(1, 7, 4)
        return bytes_of(
            rng.uniform(7, 2),
            rng.normal(7),
            rng.beta(shape.reshape(7, 2, 2)),
            rng.uniform(7),
        )

    assert draws(stream(5)) == draws(stream(5))


def test_rekey_forgets_what_was_drawn_before() -> None:
    """A stream that is moved gives what a fresh one gives there, whatever it drew before."""
    used = stream(5, block=3)
    used.beta(shapes_of(2, 9, 6).reshape(9, 2, 3))
    used.normal(11)
    moved = used.rekey((9, DRAW), 4, 100).normal(6, 2)
    assert bytes_of(moved) == bytes_of(Stream((9, DRAW), 4, 100).normal(6, 2))


def test_streams_hands_out_each_place_once_and_again_alike() -> None:
    """`Streams.at` returns the place (seed, stage, round), also when asked a second time."""
    streams = Streams(11, rows_per_replicate=2)
    first = streams.at(GATE, 3).uniform(250, 2)
    streams.at(GATE, 4).uniform(250, 2)
    assert bytes_of(streams.at(GATE, 3).uniform(250, 2)) == bytes_of(first)
    assert bytes_of(Stream((11, GATE), 3, 200).uniform(250, 2)) == bytes_of(first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Stream((1, 2), 3, 10), Stream((2, 2), 3, 10)),
        (Stream((1, 2), 3, 10), Stream((1, 3), 3, 10)),
        (Stream((1, 2), 3, 10), Stream((1, 2), 4, 10)),
    ],
    ids=["seed", "stage", "round"],
)
def test_other_places_have_other_numbers(one: Stream, other: Stream) -> None:
    """Changing the seed, the stage or the round changes every number."""
    assert not (one.uniform(5, 5) == other.uniform(5, 5)).any()


def test_calls_differ_from_one_another() -> None:
    """The second call of one stream is not the first again."""
    rng = stream(1)
    assert not (rng.uniform(20) == rng.uniform(20)).any()


@pytest.mark.parametrize("kind", ["uniform", "normal", "beta"])
@pytest.mark.parametrize("block", [1, 4, 100])
def test_a_row_does_not_depend_on_how_many_rows_there_are(kind: str, block: int) -> None:
    """The first rows of a long batch are, byte for byte, the rows of a short one."""
    shape = shapes_of(3, 13, 6)

    def draws(n: int) -> Array:
        rng = stream(8, block)
        if kind == "beta":
            return rng.beta(shape[:n].reshape(n, 2, 3))
        return np.asarray(getattr(rng, kind)(n, 6))

    for n in (1, 3, 4, 5, 8, 9):
        assert bytes_of(draws(n)) == bytes_of(draws(13)[:n])


@given(
    seed=st.integers(0, 2**32),
    block=st.sampled_from([1, 3, 5, 100]),
    changed=st.integers(0, 8),
    shape=st.lists(st.sampled_from([0.05, 0.3, 0.99, 1.0, 1.5, 30.0]), min_size=4, max_size=4),
)
@fixed
def test_a_row_does_not_depend_on_other_rows_parameters(
    seed: int, block: int, changed: int, shape: list[float]
) -> None:
    """Changing one row's counts leaves all others' draws as they were."""
    before = shapes_of(seed, 9, 4).reshape(9, 2, 2)
    after = before.copy()
    after[changed] = np.reshape(shape, (2, 2))
    rest = np.arange(9) != changed
    one, other = stream(seed, block), stream(seed, block)
    assert bytes_of(one.beta(before)[rest]) == bytes_of(other.beta(after)[rest])
    # Nor does what is drawn afterwards.
    assert bytes_of(one.normal(9)) == bytes_of(other.normal(9))


def test_a_row_does_not_depend_on_whether_any_shape_is_small() -> None:
    """One row's only shape below 1 moves neither the other rows nor what is drawn next."""
    large = np.exp(rng_of(4).uniform(0.0, 9.0, size=(300, 2, 3)))  # a tenth needs a second try
    mixed = large.copy()
    mixed[2, 1, 1] = 0.2
    one, other = stream(3), stream(3)
    rest = np.arange(300) != 2
    assert bytes_of(one.beta(large)[rest]) == bytes_of(other.beta(mixed)[rest])
    assert bytes_of(one.uniform(6)) == bytes_of(other.uniform(6))


@pytest.mark.parametrize("k", [1, 3, 25, 20_000])
def test_beta_does_not_depend_on_how_it_is_cut(k: int) -> None:
    """Entries are computed some thousands at a time; a row's bytes do not show it.

    20,000 arms do not fit in one piece's usual size.
    """
    n = max(3, 30_000 // k)
    counts = shapes_of(9, n, 2 * k).reshape(n, 2, k)
    whole = stream(5, block=7).beta(counts)
    assert np.isfinite(whole).all()
    first = n // 3
    assert bytes_of(stream(5, block=7).beta(counts[:first])) == bytes_of(whole[:first])
    used = stream(5, block=7)
    used.beta(counts[:, :, :1])
    assert bytes_of(used.rekey((5, 2), 0, 7).beta(counts)) == bytes_of(whole)


@pytest.mark.parametrize("block", [1, 100])
def test_no_rows_have_no_draws(block: int) -> None:
    """An empty batch is a batch."""
    rng = stream(1, block)
    assert rng.beta(np.ones((0, 2, 3))).shape == (0, 3)
    assert rng.uniform(0, 2).shape == rng.normal(0, 2).shape == (0, 2)


def test_beta_leaves_its_counts_and_earlier_draws_alone() -> None:
    """A draw is not written over by the next one, nor are the counts."""
    counts = shapes_of(4, 50, 6).reshape(50, 2, 3)
    kept, rng = counts.copy(), stream(2)
    first = rng.beta(counts)
    before = first.copy()
    rng.beta(counts + 1.0)
    assert bytes_of(first, counts) == bytes_of(before, kept)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_counts_are_refused(bad: float) -> None:
    """Counts that are not finite and above 0 have no Beta law."""
    counts = np.full((5, 2, 3), 2.0)
    counts[1, 1, 2] = bad
    with pytest.raises(InvalidInput, match="expected finite counts above 0, got"):
        stream(1).beta(counts)


def test_counts_that_no_candidate_fits_are_refused() -> None:
    """Where α + β is no float any more the search for a candidate ends, with a message."""
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match="out of range"):
        stream(1).beta(np.full((1, 2, 1), 1.7e308))


def test_blocks_have_keys_of_their_own() -> None:
    """Row 0 of the second block is not row 0 of the first, and each block starts afresh."""
    out = stream(4, block=5).uniform(12, 3)
    assert not (out[:5] == out[5:10]).any()
    assert not (out[:2] == out[10:]).any()
    # The boundary falls between rows 4 and 5: with one row more a block it moves.
    wider = stream(4, block=6).uniform(12, 3)
    assert (out[:5] == wider[:5]).all()
    assert not (out[5:] == wider[5:]).any()


def test_replicates_per_block_is_counted_in_rows() -> None:
    """With two rows a replicate a block holds 200 rows: replicate 99 is in it, 100 is not."""
    out = Streams(7, rows_per_replicate=2).at(DRAW, 0).uniform(202)
    alone = Streams(7, rows_per_replicate=2).at(DRAW, 0).uniform(200)
    assert (out[:200] == alone).all()
    assert not (out[200:] == alone[:2]).any()


# Blocks drawn by themselves -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "normal", "beta"])
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (1, 2), (1, 3), (2, 5), (8, 4)])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_block_alone_is_the_block_of_a_long_run(kind: str, rows: int, k: int, first: int) -> None:
    """Replicates 100·b to 100·b + 149 drawn by themselves, in several rounds and calls: bit for bit
    those of one run of all. Few numbers a block come from Philox, many from SFC64."""
    start, n = 100 * rows * first, 150 * rows
    counts = shapes_of(31, start + n, 2 * k).reshape(start + n, 2, k)
    alone = Streams(7, rows_per_replicate=rows, first_block=first)
    whole = Streams(7, rows_per_replicate=rows)

    def draws(streams: Streams, t: int, own: Array) -> Array:
        rng = streams.at(DRAW, t)
        rng.normal(own.shape[0])  # an earlier call of the same round
        if kind == "beta":
            return rng.beta(own)
        return np.asarray(getattr(rng, kind)(own.shape[0], k))

    for t in (3, 4, 3):
        found, expected = draws(alone, t, counts[start:]), draws(whole, t, counts)
        assert bytes_of(found) == bytes_of(expected[start:])
        if first:
            assert not (found[:50] == expected[:50]).any()


@pytest.mark.parametrize(("alpha", "beta"), REJECTED)
def test_later_tries_of_a_block_alone_are_those_of_a_long_run(alpha: float, beta: float) -> None:
    """Every first candidate is rejected (w = 0): the hash knows how many entries came before."""
    counts = np.tile(np.array([[alpha] * 3, [beta] * 3]), (400, 1, 1))
    uniforms = np.stack((rng_of(32).random((400, 3)), np.zeros((400, 3))), axis=1)
    work = betas.workspace(3)
    whole = betas.beta(counts, uniforms, 0x5EED, work)
    for before in (1, 150, 399):
        alone = betas.beta(counts[before:], uniforms[before:], 0x5EED, work, before=3 * before)
        assert bytes_of(alone) == bytes_of(whole[before:])
        other = betas.beta(counts[before:], uniforms[before:], 0x5EED, work)
        assert not (other == whole[before:]).all()


@pytest.mark.parametrize("block", [-1, 0.5, 1.0, True, "1", None])
def test_bad_blocks_are_refused(block: Any) -> None:
    """A block is a whole number from 0 up."""
    with pytest.raises(InvalidInput, match="first_block: expected a whole number >= 0, got"):
        Streams(7, first_block=block)


def test_blocks_may_be_numpy_s_numbers() -> None:
    """As they come out of an array."""
    one, other = Streams(7, first_block=np.int64(2)), Streams(7, first_block=2)  # type: ignore[arg-type]
    assert bytes_of(one.at(DRAW, 0).uniform(9)) == bytes_of(other.at(DRAW, 0).uniform(9))


@pytest.mark.parametrize("kind", ["uniform", "normal", "beta"])
def test_a_live_row_depends_on_its_batch_and_its_place_only(kind: str) -> None:
    """Row i of a live batch (block 1) is the i-th key of the batch, however it is computed."""
    counts = shapes_of(6, 5, 8).reshape(5, 2, 4)
    key = (3, key_of("batch-1"))

    def draws(n: int, own: Array) -> Array:
        rng = Stream(key, DRAW, 1)
        if kind == "beta":
            return rng.beta(own[:n])
        return np.asarray(getattr(rng, kind)(n, 4))

    whole = draws(5, counts)
    for n in range(1, 5):
        assert bytes_of(draws(n, counts)) == bytes_of(whole[:n])
    other = np.full_like(counts, 0.4)
    other[3] = counts[3]
    assert bytes_of(draws(5, other)[3]) == bytes_of(whole[3])
    assert len({row.tobytes() for row in whole}) == 5


def test_key_of_is_fixed_for_ever() -> None:
    """The key of an id is stored in ledgers: it is BLAKE2b's first 8 bytes, little endian."""
    assert key_of("decision-1") == key_of("decision-1")
    assert key_of("decision-1") != key_of("decision-2")
    assert key_of("") == int.from_bytes(bytes.fromhex("e4a6a0577479b2b4"), "little")


def check_law(draws: Array, alpha: float, beta: float) -> None:
    """Compare draws with SciPy's law by Kolmogorov and Smirnov at the family's level.

    With a tiny β much of the mass lies closer to 1 than floats do, and with a tiny α closer to 0:
    the largest distance is sought where a float can tell a draw from 0 and 1.
    """
    law, n = stats.beta(alpha, beta), draws.size
    assert ((draws >= 0.0) & (draws <= 1.0)).all()
    x = np.sort(draws)
    inside = (x > 1e-290) & (x < 1.0 - 1e-9)
    below, cdf = np.flatnonzero(inside), law.cdf(x[inside])
    distance = max(((below + 1) / n - cdf).max(), (cdf - below / n).max())
    p = stats.kstwo.sf(distance, n)
    assert p > LEVEL, f"p = {p:g}"


@pytest.mark.parametrize("beta", SHAPES)
@pytest.mark.parametrize("alpha", SHAPES)
@pytest.mark.parametrize("block", [1, 1000], ids=["live", "blocks"])
def test_beta_has_its_law(block: int, alpha: float, beta: float) -> None:
    """Beta draws follow SciPy's law, live and in blocks (false alarm 1e-3 in all)."""
    counts = np.tile(np.array([[alpha, 2.0], [beta, 2.0]]), (SIZE, 1, 1))
    check_law(stream(22, block).beta(counts)[:, 0], alpha, beta)


@pytest.mark.parametrize(("alpha", "beta"), EXTREMES)
@pytest.mark.parametrize("block", [1, 1000], ids=["live", "blocks"])
def test_beta_has_its_law_at_the_extremes(block: int, alpha: float, beta: float) -> None:
    """So do draws at the ends of the range of counts (false alarm 1e-3 in all)."""
    counts = np.tile(np.array([[alpha, 2.0], [beta, 2.0]]), (SIZE, 1, 1))
    check_law(stream(24, block).beta(counts)[:, 0], alpha, beta)


def test_beta_has_its_law_where_floats_end() -> None:
    """At 1e-3 a quarter of the mass lies below 1e-300, and so do as many draws."""
    counts = np.full((SIZE, 2, 1), 1e-3)
    check_law(stream(24, 1000).beta(counts)[:, 0], 1e-3, 1e-3)


@pytest.mark.parametrize(("alpha", "beta"), REJECTED)
def test_later_tries_have_the_law_too(alpha: float, beta: float) -> None:
    """With w at its end every first candidate is rejected; all draws come from hashed tries."""
    counts = np.tile(np.array([[alpha], [beta]]), (SIZE, 1, 1))
    u = rng_of(25).random((SIZE, 1))
    draws = betas.beta(counts, np.stack((u, np.zeros_like(u)), axis=1), 0x5EED, betas.workspace(1))
    check_law(draws[:, 0], alpha, beta)
    odds = np.log(alpha / beta) + np.log(u / (1.0 - u)) / np.sqrt(alpha * beta)
    assert abs(stats.spearmanr(odds, draws).statistic) < 4.5 / np.sqrt(SIZE)  # alarm 3e-5 in all


def test_beta_of_one_and_one_is_its_uniform() -> None:
    """Cheng's candidate for Beta(1, 1) is u: λ = 1, W = u/(1−u), x = W/(1+W); kept for any w."""
    u, w = rng_of(26).random((2, 50, 4))
    draws = betas.beta(np.ones((50, 2, 4)), np.stack((u, w), axis=1), 1, betas.workspace(4))
    np.testing.assert_allclose(draws, u, rtol=1e-13)


def test_beta_columns_are_uncorrelated() -> None:
    """Second tries are hashed by place without tying columns to each other.

    15 correlations of 20,000 normal scores each; each within 4.5/√n, false alarm 1e-4 in all.
    """
    counts = np.tile(
        [[0.3, 1.0, 1.5, 0.5, 9.0, 2.0], [2.0, 3.0, 1.5, 0.5, 7.0, 30.0]], (20_000, 1, 1)
    )
    ranks = stats.rankdata(stream(23, 5000).beta(counts), axis=0)
    correlation = np.asarray(np.corrcoef(stats.norm.ppf(ranks / 20_001.0), rowvar=False))
    assert np.abs(correlation[np.triu_indices(6, 1)]).max() < 4.5 / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (-1, "expected 0 to 2"),
        (2**64, "expected 0 to 2"),
        (1.0, "expected a whole number, got 1.0"),
        (True, "expected a whole number, got True"),
        ("7", "expected a whole number, got '7'"),
        (None, "expected a whole number, got None"),
        (np.float64(3), "expected a whole number"),
    ],
)
def test_bad_seeds_are_refused(seed: Any, message: str) -> None:
    """A seed is a whole number in 0..2⁶⁴−1."""
    with pytest.raises(InvalidInput, match=message):
        check_seed(seed)
    with pytest.raises(InvalidInput, match=message):
        Streams(seed)


@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.int64(5), np.uint64(2**64 - 1)])
def test_good_seeds_are_taken(seed: Any) -> None:
    """The ends of the range and NumPy's own integers are seeds."""
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int
    assert Streams(seed).at(DRAW, 0).uniform(2).shape == (2,)
