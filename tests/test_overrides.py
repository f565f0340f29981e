"""What the gate did by band of context: bands, counts, estimates, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from gdcb.arrays import Array
from gdcb.context import Category, Flag, Number, Schema
from gdcb.errors import InvalidInput
from gdcb.protocol.bands import FATES, MOST, Bands, bands_of, count, fates
from gdcb.protocol.metrics import overrides
from gdcb.protocol.metrics.overrides import ratio, share
from gdcb.protocol.record import Record
from gdcb.protocol.record_checks import check_record
from gdcb.protocol.store import Store
from gdcb.protocol.summary import Entry, document
from gdcb.protocol.task import Settings
from gdcb.records import Executed, to_bytes
from tests import toy_tasks
from tests.properties import examples
from tests.protocol_builders import ground, record
from tests.protocol_builders import settings as settings_of

SCHEMA = Schema(
    {
        "load": Number(0, 1),
        "is_wet": Flag(),
        "day": Category(("mon", "tue", "sun")),
        "stars": Number(1, 5),
        "flat": Number(0, 1),
        "mostly": Number(0, 1),
    }
)


def reference() -> Array:
    rng = np.random.default_rng(1)
    x = np.zeros((200, SCHEMA.width))
    x[:, 0] = rng.uniform(size=200)
    x[:, 1] = rng.integers(2, size=200)
    x[np.arange(200), 2 + rng.integers(3, size=200)] = 1.0
    x[:, 5] = rng.integers(3, 6, size=200)
    x[:, 7] = np.where(np.arange(200) < 150, 0.0, rng.uniform(0.1, 1.0, 200))
    return x


def test_bands_hang_on_the_reference_and_the_kind_of_feature() -> None:
    """Fifths of a number; two of a flag or a level; one a value where they are few."""
    x = reference()
    bands = bands_of(SCHEMA, tuple(SCHEMA.columns), x)
    assert bands.names == SCHEMA.names
    n = dict(zip(bands.names, bands.n.tolist(), strict=True))
    levels = {"is_wet": 2, "day=mon": 2, "day=tue": 2, "day=sun": 2}
    assert n == {"load": 5, **levels, "stars": 3, "flat": 1, "mostly": 2}
    assert bands.is_flag.tolist() == [False, True, True, True, True, False, False, False]
    shares = np.bincount(bands.of(x)[:, 0], minlength=5) / 200
    assert shares == pytest.approx(np.full(5, 0.2), abs=0.01)
    assert bands.edges[5, :2].tolist() == [3.5, 4.5]
    assert (bands.of(x).max(axis=0) + 1 == bands.n).all()  # none is empty


def test_what_lies_outside_the_reference_is_in_the_outer_bands() -> None:
    bands = bands_of(SCHEMA, ("load",), reference())
    x = np.zeros((2, SCHEMA.width))
    x[:, 0] = -9.0, 9.0
    assert bands.of(x)[:, 0].tolist() == [0, 4]


def test_a_category_is_a_feature_for_every_level_and_none_is_counted_twice() -> None:
    bands = bands_of(SCHEMA, ("day", "day=tue", "load"), reference())
    assert bands.names == ("day=mon", "day=tue", "day=sun", "load")


def executed(action: Any, is_null: Any, is_own: Any) -> Executed:
    own = np.array(is_own, dtype=bool)
    return Executed(np.array(action, dtype=float), np.array(is_null, dtype=bool), own, ~own)


def test_what_can_become_of_a_proposal() -> None:
    """Another coordinate changed, a category, and what has no logarithm."""
    before = np.array([[2.0, 1.0], [2.0, 1.0], [-2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    after = [[2.0, 7.0], [4.0, 1.0], [1.0, 1.0], [2.0, 1.0], [9.0, 1.0]]
    ran = executed(after, [0, 0, 0, 0, 1], [0, 0, 0, 1, 0])
    fate, log = fates(before, ran)
    assert [FATES[i] for i in fate] == ["other", "raised", "raised", "passed", "vetoed"]
    assert log[[1, 3, 4]].tolist() == [pytest.approx(np.log(2)), 0.0, 0.0]
    assert np.isnan(log[2])
    fate, log = fates(before, ran, is_ordered=False)
    assert [FATES[i] for i in fate] == ["other", "other", "other", "passed", "vetoed"]
    assert not log.any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 40))
@examples(25)
def test_counts_are_those_of_a_plain_loop(seed: int, replicates: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    group, band = rng.integers(replicates, size=n), rng.integers(MOST, size=(n, 2))
    fate = rng.integers(len(FATES), size=n)
    log = np.where(np.isin(fate, (1, 2)), rng.normal(size=n), 0.0)
    found, expected = np.zeros((2, replicates, 2, MOST, 6))
    for part in (slice(0, n // 2), slice(n // 2, n)):
        count(found, group[part], band[part], fate[part], log[part])
    for i in range(n):
        for f in range(2):
            expected[group[i], f, band[i, f], fate[i]] += 1
            expected[group[i], f, band[i, f], 5] += log[i]
    assert (found[..., :5] == expected[..., :5]).all()
    assert found[..., 5] == pytest.approx(expected[..., 5])


# Estimates


def test_a_ratio_weighs_decisions_alike_and_its_interval_covers() -> None:
    """In 400 runs of 30 replicates of unequal size. By chance fewer than 363 or more than 395
    of 400 intervals at 95 % cover in one run of 5,000."""
    rng, n_covered = np.random.default_rng(4), 0
    for _ in range(400):
        sizes = rng.integers(5, 60, size=30).astype(float)
        found = ratio(rng.binomial(sizes.astype(int), rng.beta(6, 14, 30)).astype(float), sizes)
        assert found is not None
        assert found["low"] is not None
        assert found["high"] is not None
        n_covered += found["low"] <= 0.3 <= found["high"]
    assert 363 <= n_covered <= 395


def test_shares_that_cannot_be() -> None:
    one, two = np.array([0.0, 1.0]), np.array([4.0, 4.0])
    assert ratio(one, np.zeros(2)) is None
    assert ratio(np.array([np.nan, 1.0]), two) is None
    assert ratio(one[:1], two[:1]) == {"mean": 0.0, "low": None, "high": None}
    found = share(one, two)
    assert found is not None
    assert (found["mean"], found["low"], found["high"]) == (0.125, 0.0, 1.0)
    with pytest.raises(InvalidInput, match="as many values, got 2 and 1"):
        ratio(one, two[:1])


def by_hand() -> tuple[Array, Bands]:
    """Return two replicates of ten decisions: a number of two bands, and a flag."""
    schema = Schema({"load": Number(0, 9), "is_wet": Flag()})
    bands = bands_of(schema, ("load", "is_wet"), np.array([[1.0, 0.0], [2.0, 1.0]]))
    counts = np.zeros((2, 2, MOST, 6))
    counts[:, 0, 0] = [4, 0, 0, 0, 0, 0]
    counts[:, 0, 1] = [3, 2, 1, 0, 0, 0.3]
    counts[:, 1, 0] = [5, 1, 1, 0, 0, -0.1]
    counts[:, 1, 1] = [2, 1, 0, 0, 0, 0.4]
    return counts, bands


def test_overrides_by_hand() -> None:
    """3 of 10 changed, all of them in the upper band of the load: 3 of 6, two raised."""
    counts, bands = by_hand()
    found = overrides(counts, bands)
    assert found["whole"]["changed"]["mean"] == pytest.approx(0.3)
    assert found["whole"]["log_ratio"]["mean"] == pytest.approx(0.1)
    load, wet = found["features"]
    assert [load["is_flag"], wet["is_flag"]] == [False, True]
    assert [(band["low"], band["high"]) for band in load["bands"]] == [(None, 1.5), (1.5, None)]
    low, high = load["bands"]
    assert low["changed"]["mean"] == 0
    assert low["log_ratio"] is None
    assert low["decisions"]["mean"] == pytest.approx(0.4)
    assert high["raised"]["mean"] == pytest.approx(2 / 6)
    assert high["lowered"]["mean"] == pytest.approx(1 / 6)
    top = found["highest"]
    assert (top["feature"], top["band"], top["direction"]) == ("load", 1, "raised")
    assert top["changed"]["mean"] == pytest.approx(0.5)


def test_the_highest_band_pays_for_having_been_chosen() -> None:
    """Its interval is wider than its own alone; the counts of another feature are another band."""
    counts, bands = by_hand()
    counts[1, 0, 1, :2] += 1, -1
    counts = np.tile(counts, (20, 1, 1, 1))
    found = overrides(counts, bands)
    alone, chosen = found["features"][0]["bands"][1]["changed"], found["highest"]["changed"]
    assert chosen["mean"] == alone["mean"]
    # Four bands: t of 39 degrees at 1 − 0.05/8 over t at 1 − 0.05/2.
    wider = (chosen["high"] - chosen["low"]) / (alone["high"] - alone["low"])
    assert wider == pytest.approx(stdtrit(39, 1 - 0.05 / 8) / stdtrit(39, 0.975))
    counts[:, 1, 1] = [0, 0, 3, 0, 0, -1]
    top = overrides(counts, bands)["highest"]
    assert (top["feature"], top["band"], top["direction"]) == ("is_wet", 1, "lowered")


def test_without_a_gate_nothing_is_highest() -> None:
    counts, bands = by_hand()
    counts[..., 1:] = 0
    found = overrides(counts, bands)
    assert found["highest"] is None
    assert found["whole"]["changed"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    with pytest.raises(InvalidInput, match="expected counts of 2 features, got 1"):
        overrides(counts[:, :1], bands)


# In records, documents and parts


def counted(episodes: int = 5, replicates: int = 2) -> Record:
    """Return a record with overrides that agree with its rate: 3 of 10 decisions."""
    made = record(episodes, replicates)
    counts, _ = by_hand()
    return replace(made, overridden=np.full((episodes, replicates), 0.3), overrides=counts)


def test_a_document_has_them_where_they_were_counted() -> None:
    entries = {"B4": Entry("GDCB", counted), "B1": Entry("x", lambda: record(5, 2))}
    floor, bands = ground(5, 2), by_hand()[1]
    found = document(settings_of(5, 2), entries, floor, None, bands)["methods"]
    assert found["B4"]["overrides"]["highest"]["feature"] == "load"
    assert found["B1"]["overrides"] is None
    json.dumps(found, allow_nan=False)
    assert document(settings_of(5, 2), entries, floor)["methods"]["B4"]["overrides"] is None


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ((0, 0, 0, 0), -1.0, "that count decisions, got -1 to"),
        ((0, 0, 0, 0), 3.5, "that count decisions"),
        ((0, 0, 0, 0), np.nan, "that count decisions"),
        ((1, 1, 0, 0), 6.0, "the same decisions for every feature"),
    ],
)
def test_counts_that_cannot_be_are_refused(where: Any, value: float, message: str) -> None:
    made = counted()
    check_record("B4", made, ground(5, 2))
    assert made.overrides is not None
    made.overrides[where] = value
    with pytest.raises(InvalidInput, match=message):
        check_record("B4", made, ground(5, 2))


def test_counts_that_do_not_agree_with_the_rate_are_refused() -> None:
    made = counted()
    made.overridden[3, 1] = 0.4
    with pytest.raises(InvalidInput, match=r"add up to the share overridden, got a gap of 0\.2"):
        check_record("B4", made, ground(5, 2))
    made = counted()
    made.overrides = np.zeros((3, 2, 5, 6))
    with pytest.raises(InvalidInput, match=r"of shape \(2, features, bands, 6\), got \(3, 2, 5, 6"):
        check_record("B4", made, ground(5, 2))


def parts(folder: Path) -> Store:
    return Store(folder, Settings("str", "well", (), 4, 203, 0, ("B1",), "0.1.0"))


def test_they_are_kept_in_parts_and_joined(tmp_path: Path) -> None:
    """By replicate, the same bytes again; a record without them stays without."""
    with parts(tmp_path) as store:
        made = [toy_tasks.episodes(store.settings.task(block, "B1")) for block in (0, 1, 2)]
        for block, one in enumerate(made):
            store.write(store.settings.task(block, "B1"), one)
        joined = store.record("B1")
        blocks = [one.overrides for one in made if isinstance(one, Record)]
        assert joined.overrides is not None
        assert (joined.overrides == np.concatenate([b for b in blocks if b is not None])).all()
        assert to_bytes(store.record("B1")) == to_bytes(joined)
        for block, one in enumerate(made):
            assert isinstance(one, Record)
            store.write(store.settings.task(block, "B1"), replace(one, overrides=None))
        assert store.record("B1").overrides is None
        store.write(store.settings.task(0, "B1"), made[0])
        with pytest.raises(InvalidInput, match="overrides is not in every block"):
            store.record("B1")
