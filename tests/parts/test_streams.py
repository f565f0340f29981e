"""Keyed streams: who gets which numbers, and whether they have the right distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.streams import DRAW, GATE, Stream, Streams, check_seed, key_of
from tests.parts.builders import bytes_of, fixed, rng_of, stream

SHAPES = (0.3, 1.0, 1.5, 3.0, 20.0, 200.0)
# 8 gamma + 36 beta in blocks + 36 beta live; together they raise a false alarm with 1e-3.
LEVEL = 1e-3 / (8 + 36 + 36)
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
            rng.gamma(shape),
            rng.beta(shape.reshape(7, 2, 2)),
            rng.uniform(7),
        )

    assert draws(stream(5)) == draws(stream(5))


def test_rekey_forgets_what_was_drawn_before() -> None:
    """A stream that is moved gives what a fresh one gives there, whatever it drew before."""
    used = stream(5, block=3)
    used.gamma(shapes_of(2, 9, 3))
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


@pytest.mark.parametrize("kind", ["uniform", "normal", "gamma", "beta"])
@pytest.mark.parametrize("block", [1, 4, 100])
def test_a_row_does_not_depend_on_how_many_rows_there_are(kind: str, block: int) -> None:
    """The first rows of a long batch are, byte for byte, the rows of a short one."""
    shape = shapes_of(3, 13, 6)

    def draws(n: int) -> Array:
        rng = stream(8, block)
        if kind == "gamma":
            return rng.gamma(shape[:n])
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
    """Changing one row's gamma or beta parameters leaves all others' draws as they were."""
    before = shapes_of(seed, 9, 4)
    after = before.copy()
    after[changed] = shape
    rest = np.arange(9) != changed
    one, other = stream(seed, block), stream(seed, block)
    assert (one.gamma(before)[rest] == other.gamma(after)[rest]).all()
    pair = (9, 2, 2)
    assert (one.beta(before.reshape(pair))[rest] == other.beta(after.reshape(pair))[rest]).all()
    # Nor does what is drawn afterwards.
    assert bytes_of(one.normal(9)) == bytes_of(other.normal(9))


def test_a_row_does_not_depend_on_whether_any_shape_is_small() -> None:
    """One row's only shape below 1 moves neither the other rows nor what is drawn next."""
    large = np.full((300, 3), 1.1)  # some 40 of the 900 first tries are rejected
    mixed = large.copy()
    mixed[2, 1] = 0.2
    one, other = stream(3), stream(3)
    rest = np.arange(300) != 2
    assert (one.gamma(large)[rest] == other.gamma(mixed)[rest]).all()
    assert bytes_of(one.uniform(6)) == bytes_of(other.uniform(6))


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


def check_law(draws: Array, law: Any) -> None:
    """Compare draws with SciPy's law by Kolmogorov and Smirnov at the family's level."""
    p = stats.kstest(draws, law.cdf).pvalue
    assert p > LEVEL, f"p = {p:g}"


@pytest.mark.parametrize("shape", [*SHAPES, 0.7, 0.99])
def test_gamma_has_its_law(shape: float) -> None:
    """Gamma draws follow SciPy's law, beside columns of other shapes (false alarm 1e-3 in all)."""
    shapes = np.tile([shape, 0.6, 5.0], (SIZE, 1))
    check_law(stream(21, block=1000).gamma(shapes)[:, 0], stats.gamma(shape))


@pytest.mark.parametrize("beta", SHAPES)
@pytest.mark.parametrize("alpha", SHAPES)
@pytest.mark.parametrize("block", [1, 1000], ids=["live", "blocks"])
def test_beta_has_its_law(block: int, alpha: float, beta: float) -> None:
    """Beta draws follow SciPy's law, live and in blocks (false alarm 1e-3 in all)."""
    counts = np.tile(np.array([[alpha, 2.0], [beta, 2.0]]), (SIZE, 1, 1))
    check_law(stream(22, block).beta(counts)[:, 0], stats.beta(alpha, beta))


def test_gamma_columns_are_uncorrelated() -> None:
    """Rejected entries share their row's spares without tying columns to each other.

    15 correlations of 20,000 normal scores each; each within 4.5/√n, false alarm 1e-4 in all.
    """
    shapes = np.tile([0.3, 1.0, 1.5, 0.5, 1.0, 2.0], (20_000, 1))
    ranks = stats.rankdata(stream(23, 5000).gamma(shapes), axis=0)
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
