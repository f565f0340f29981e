"""Moderation: worlds whose truth is exact, the moderator, the pilot's map, the study."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdcb import Identity, Number, Schema
from gdcb.arms import ArmList
from gdcb.bandits import HierarchicalThompson
from gdcb.errors import InvalidInput
from gdcb.instance import Cells, Instance
from gdcb.instances.moderation import fit, house, learners
from gdcb.instances.moderation.banded import BandedThompson
from gdcb.instances.moderation.columns import (
    ADVICE,
    APPEAL_COST,
    FEATURES,
    POST,
    READING,
    REPORTS,
    SCHEMA,
    SEVERITY,
    VIOLATION_COST,
)
from gdcb.instances.moderation.domain import study
from gdcb.instances.moderation.moderator import AGREES, LEVEL, STRICTER, Moderator, incumbent
from gdcb.instances.moderation.severity import SeverityScaler
from gdcb.instances.moderation.world import Communities, Forum, category, severity
from gdcb.records import Evidence, Rows, Setting
from gdcb.round import init
from gdcb.scalers import Trunk
from gdcb.streams import CONTEXT, DRAW, LABEL, OUTCOME, WORLD, Streams

SEED = 11
BOTH = pytest.mark.parametrize("variant", ["well", "mis"])


def drawn(
    variant: str, replicates: int = 6, t: int = 0, cue: float = 0.0
) -> tuple[Forum, Communities, Rows]:
    """Return a world, its communities and a post of each."""
    world, group = Forum(variant, cue), np.repeat(np.arange(replicates), 8)
    streams = Streams(SEED, 8)
    state = world.start(streams.at(WORLD, 0), group)
    return world, state, world.context(streams.at(CONTEXT, t), state, t, group)


@BOTH
def test_the_mean_is_exact(variant: str) -> None:
    """Average rewards of 20,000 draws a category lie within 4.5 standard errors of the mean.

    144 comparisons of one seed; the chance that an exact mean fails any is below 0.001.
    """
    world, state, rows = drawn(variant)
    instance = study(variant, {}, 10).domain.instance
    many, streams = 500, Streams(SEED, rows.n)
    again = rows.take(np.tile(np.arange(rows.n), many))
    for kind in range(3):
        e = np.column_stack((np.full(again.n, float(kind)), np.zeros(again.n)))
        total = np.zeros((40, rows.n))
        for t in range(40):
            y = world.sample(streams.at(OUTCOME, 100 * kind + t), state, e, again)
            total[t] = instance.reward.reward(y, e, again.x).reshape(many, -1).mean(axis=0)
        expected = world.mean(state, e[: rows.n, None], rows)[:, 0]
        error = total.std(axis=0, ddof=1) / math.sqrt(40)
        assert (np.abs(total.mean(axis=0) - expected) < 4.5 * error + 1e-12).all()


def test_chances_by_hand() -> None:
    """Severity 0.5, thresholds 0.3 and 0.6, 10 logits a unit too lax or too harsh, reach 0.5."""
    world = Forum("well")
    one = np.ones(1)
    state = Communities(
        *(0.3 * one, 0.6 * one, 10 * one, 10 * one, 0.8 * one, 2 * one, 0.5 * one),
        *(np.ones((1, 3)), np.zeros((1, 13))),
    )
    x = np.zeros((1, SCHEMA.width))
    x[0, 12], x[0, VIOLATION_COST], x[0, APPEAL_COST] = 0.5, 2.0, 0.5
    hidden = np.array([[0.0, 0.5, 0.5, 0.0]])
    zero = np.zeros(1, dtype=np.int64)
    rows = Rows(zero, zero, x, hidden=hidden)

    def sigma(z: float) -> float:
        return 1 / (1 + math.exp(-z))

    satisfied, violation, appeal = world.chances(state, rows)
    np.testing.assert_allclose(satisfied[0], [sigma(0.0), sigma(2.0), sigma(1.0)])
    harm = sigma(10 * (0.5 - 0.55)) * 0.7
    np.testing.assert_allclose(violation[0], [harm, 0.5 * harm, 0.03 * harm])
    contest = sigma(0.8 - 3.0)
    np.testing.assert_allclose(appeal[0], [0.02 * contest, 0.35 * contest, contest])
    expected = satisfied[0] - 2.0 * violation[0] - 0.5 * appeal[0]
    e = np.array([[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [np.nan, np.nan]]])
    np.testing.assert_allclose(world.mean(state, e, rows)[0], [*expected, expected[0]])


@BOTH
def test_the_optimum_is_the_best_category(variant: str) -> None:
    """No candidate is worth more than e*, and the floor of an open gate is 0."""
    world, state, rows = drawn(variant)
    best = world.mean(state, world.best(state, rows)[:, None], rows)[:, 0]
    among = world.mean(state, world.candidates(state, rows), rows)
    np.testing.assert_array_equal(among.max(axis=1), best)


@BOTH
def test_every_category_is_best_for_some(variant: str) -> None:
    """Context matters: each of the three is the best for at least one post in twelve."""
    world, state, rows = drawn(variant, 60)
    counts = np.bincount(world.best(state, rows)[:, 0].astype(int), minlength=3)
    assert (counts >= rows.n / 12).all()


def test_in_well_severity_is_in_the_family_and_in_mis_it_is_not() -> None:
    """δ° is the truth in `well`; in `mis` it is near the truth and no closer than it can be."""
    world, state, rows = drawn("well")
    delta = world.true_delta(state, rows)
    assert delta is not None
    np.testing.assert_allclose(delta[:, 0, 0], severity(rows), atol=1e-12)
    other, known, seen = drawn("mis", 60)
    assert other.true_delta(known, seen) is None
    of = study("mis", {}, 10).delta(known, seen)
    assert of.shape == (60, seen.n)
    own = of[seen.group, np.arange(seen.n)]
    off = float(np.sqrt(np.mean((own - severity(seen)) ** 2)))
    assert 0.05 < off < float(severity(seen).std())


def test_mis_contexts_are_the_banks_posts() -> None:
    """The hidden index says which post it is; its features stand in x and its parts make s."""
    world, state, rows = drawn("mis")
    assert rows.hidden is not None
    post = rows.hidden[:, POST].astype(int)
    np.testing.assert_array_equal(rows.x[:, :12], world.posts.x[post])
    made = np.minimum((state.weights * world.posts.parts[post]).sum(axis=1), 1.0)
    np.testing.assert_array_equal(severity(rows), made)


@BOTH
def test_a_replicate_does_not_see_its_neighbours(variant: str) -> None:
    """State, context and mean of the first replicates are the same bytes among more."""
    world, few_state, few = drawn(variant, 3)
    _, many_state, many = drawn(variant, 9)
    assert many.x[:24].tobytes() == few.x.tobytes()
    assert few.hidden is not None
    assert many.hidden is not None
    assert many.hidden[:24].tobytes() == few.hidden.tobytes()
    whole = world.means(many_state, many)[:24]
    assert whole.tobytes() == world.means(few_state, few).tobytes()


def test_the_panel_rates_some_posts_around_their_severity() -> None:
    """In three rounds of ten all, in the past three in ten; the mean is the severity."""
    world, state, rows = drawn("mis", 100)
    streams, e = Streams(SEED, 8), np.zeros((800, 2))

    def rated(t: float) -> Any:
        hidden = np.array(rows.hidden)
        hidden[:, 3] = t
        return world.label(streams.at(LABEL, 5), state, e, replace(rows, hidden=hidden))[:, 0]

    assert np.isfinite(rated(3)).all()
    assert np.isnan(rated(4)).all()
    past = rated(-1)
    assert 0.24 < np.isfinite(past).mean() < 0.36
    off = rated(3) - severity(rows)
    assert abs(off.mean()) < 4 * 0.15 / math.sqrt(800)


# The moderator


def test_the_moderator_by_hand() -> None:
    """Approves 0.94 of what they read, 0.59 a level off; the second one 0.25 less of it."""
    _, _, rows = drawn("mis")
    hidden = np.array(rows.hidden)
    hidden[:, READING], hidden[:, 3] = 0.5, 120.0
    some = replace(rows, hidden=hidden)
    e = np.tile(np.array([[[0.0, 0.1], [1.0, 0.1], [2.0, 0.1]]]), (rows.n, 1, 1))
    first = Moderator("plain", 100).approve(e, some)[0]
    np.testing.assert_allclose(first, [AGREES - LEVEL, AGREES, AGREES - LEVEL])
    # To the second everything is 0.2 more severe: 0.5 reads 0.66 above thresholds, a removal.
    second = Moderator("turnover", 100).approve(e, some)[0]
    np.testing.assert_allclose(
        second, [AGREES - 2 * LEVEL - STRICTER if AGREES > 2 * LEVEL + STRICTER else 0.0,
                 AGREES - LEVEL - STRICTER, AGREES - STRICTER]
    )  # fmt: skip
    before = Moderator("turnover", 121).approve(e, some)[0]
    np.testing.assert_allclose(before, first)


def test_a_plain_moderator_knows_no_more_than_x() -> None:
    """Their reading is the house's, a function of x; a private one reads the severity itself."""
    world, _, rows = drawn("mis")
    assert rows.hidden is not None
    np.testing.assert_allclose(
        rows.hidden[:, READING], world.model.reading(rows.x[:, : REPORTS + 1]), atol=1e-12
    )
    _, _, private = drawn("mis", cue=0.1)
    assert private.hidden is not None
    np.testing.assert_array_equal(private.hidden[:, READING], private.hidden[:, SEVERITY])


@BOTH
@pytest.mark.parametrize("cue", [0.0, 0.12])
def test_everybody_may_read_the_advice(variant: str, cue: float) -> None:
    """It is the house's reading of x, whoever moderates; rivals read it, our scaler does not."""
    world, _, rows = drawn(variant, cue=cue)
    said = world.model.reading(rows.x[:, : REPORTS + 1])
    assert rows.x[:, ADVICE].tobytes() == said.tobytes()
    assert (np.abs(said) < 5.0).all()
    some = np.array([5, 1, 1, 40])
    alone = world.model.reading(rows.x[some, : REPORTS + 1])
    assert alone.tobytes() == said[some].tobytes()
    subject = study(variant, {}, 10)
    assert subject.features == (*FEATURES, "advice")
    scaler: Any = subject.domain.instance.scaler
    assert ADVICE not in scaler.features


def test_the_incumbent_goes_by_profanity_alone() -> None:
    """Thresholds 0.5 and 0.85 on the raw score; no severity goes along."""
    _, state, rows = drawn("mis")
    rows.x[:3, 0] = 0.4, 0.6, 0.9
    found = incumbent(Streams(SEED, 8).at(DRAW, 0), state, rows)
    assert found[:3, 0].tolist() == [0.0, 1.0, 2.0]
    assert (found[:, 1] == 1.0).all()


# Scaler and learner


def test_the_head_starts_from_the_pilots() -> None:
    """One hidden unit max(x, 0), θ₀ = (0.1, 0.5). A label 0.9 at x = 1 leaves 0.3 to explain.

    λ = 1, φ = (1, 1): (φφᵀ + I)θ = 0.3·φ, so θ = (0.1, 0.1) and δ(1) = 0.6 + 0.2.
    """
    trunk = Trunk(np.zeros(1), np.ones(1), (np.ones((1, 1)),), (np.zeros(1),))
    scaler = SeverityScaler(features=(0,), link="identity", trunk=trunk, start=(0.1, 0.5))
    zero, x = np.zeros(1, dtype=np.int64), np.array([[1.0]])
    state = scaler.init(2)
    assert scaler.predict(state, zero, x)[0, 0, 0] == pytest.approx(0.6)
    scaler.observe(state, zero, x, np.zeros((1, 2)), np.array([[0.9]]), np.ones(1))
    scaler.observe(state, zero, x, np.zeros((1, 2)), np.array([[np.nan]]), np.ones(1))
    assert scaler.publish(state, zero).tolist() == [0]
    assert scaler.predict(state, zero, x)[0, 0, 0] == pytest.approx(0.8)
    assert scaler.predict(state, zero + 1, x)[0, 0, 0] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"start": (0.1,)}, "start: expected 2 numbers, the intercept first, got 1"),
        ({"start": (0.1, math.nan)}, "start: expected a finite number"),
        ({"start": (0.1, 0.5), "link": "exp"}, "link 'identity' and no centre"),
        ({"start": (0.1, 0.5), "centre": (0.0,)}, "link 'identity' and no centre"),
        ({"start": (0.1, 0.5), "n_arms": 3}, "one number a row"),
    ],
)
def test_a_severity_that_makes_no_sense(fields: dict[str, Any], message: str) -> None:
    """Settings are refused when it is built."""
    trunk = Trunk(np.zeros(1), np.ones(1), (np.ones((1, 1)),), (np.zeros(1),))
    good: dict[str, Any] = {"features": (0,), "link": "identity", "trunk": trunk}
    with pytest.raises(InvalidInput, match=message):
        SeverityScaler(**(good | fields))


def test_units_share_within_a_band_and_not_across() -> None:
    """Unit 0 sees rewards of 1 for arm 0 in band 1: unit 1 expects more there, nowhere else."""
    instance = Instance(
        Schema({"x": Number()}), ArmList(names=("a", "b")), Identity(), [], cells=Cells((0.5,))
    )
    bandit = BandedThompson(table=((0.2, 0.4), (0.6, 0.8)), sd=1.0, between=1.0, noise=1.0)
    state = init(instance, bandit, np.zeros(2, dtype=np.int64)).bandit
    at = Setting(np.arange(4))  # unit 0: bands 0, 1; unit 1: bands 0, 1
    nominal = instance.space.nominal
    before = bandit.mean(state, at, nominal)
    np.testing.assert_allclose(before, [[0.2, 0.4], [0.6, 0.8], [0.2, 0.4], [0.6, 0.8]])
    one = np.ones(1, dtype=np.int64)
    bandit.update(state, Evidence(one, 0 * one, np.zeros((1, 1)), np.ones(1), None, np.ones(1)))
    after = bandit.mean(state, at, nominal)
    # Precision 1/2 and shift 1/2 reach the pool: μ = (0.6 + 0.5)/1.5; unit 0 then adds its row.
    mu = 1.1 / 1.5
    assert after[3, 0] == pytest.approx(mu)
    assert after[1, 0] == pytest.approx(0.5 * mu + 0.5)
    others = np.ones((4, 2), dtype=bool)
    others[[1, 3], 0] = False
    np.testing.assert_array_equal(after[others], before[others])


def test_equal_bands_are_the_plain_learner() -> None:
    """With the same prior in every band it is `HierarchicalThompson`, to the bit."""
    arms, group = ArmList(names=("a", "b", "c")).build(), np.array([0, 1, 0, 1, 2, 3])
    plain = HierarchicalThompson(prior_mean=(0.1, 0.2, 0.3), sd=0.5, between=0.3, noise=0.6)
    banded = BandedThompson(table=((0.1, 0.2, 0.3),) * 2, sd=0.5, between=0.3, noise=0.6)
    rng = np.random.default_rng(0)
    cell, arm, y = rng.integers(0, 6, 50), rng.integers(0, 3, 50), rng.normal(size=50)
    seen = Evidence(cell, arm, np.zeros((50, 1)), y, None, np.ones(50))
    states = [one.init(group, arms) for one in (plain, banded)]
    for one, state in zip((plain, banded), states, strict=True):
        one.update(state, seen)
        one.decay(state, 0.5, np.array([1, 4]))
    at = Setting(np.arange(6))
    np.testing.assert_array_equal(
        plain.mean(states[0], at, arms.nominal), banded.mean(states[1], at, arms.nominal)
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ((), "expected one tuple of numbers a band"),
        (((0.1, 0.2), (0.1,)), "as many numbers in every band"),
        (((0.1, math.nan),), "expected a finite number"),
        (((0.1, 0.2),), "expected 3 numbers a band, one an arm; got 2"),
        (((0.1, 0.2, 0.3),) * 3, "it has 3 bands, and the instance's cells another"),
    ],
)
def test_a_table_that_makes_no_sense(table: Any, message: str) -> None:
    """Refused when it is built, or where its instance's cells are others."""
    with pytest.raises(InvalidInput, match=message):
        BandedThompson(table=table).init(
            np.array([0, 1, 0, 1]), ArmList(names=("a", "b", "c")).build()
        )


# The pilot


def test_the_stored_map_is_what_the_module_makes() -> None:
    """Made again in small, it is the same twice; the stored one reads fresh posts better.

    The whole fit is a long walk of L-BFGS, whose last digits hang on the processor's products: it
    is compared by what it reads, within 0.03 of severity on the average.
    """
    small = [house.as_json(fit.fit(n_rounds=2, n_posts=200, n_steps=20)) for _ in range(2)]
    assert small[0] == small[1]
    again, stored = fit.fit(), house.stored()
    _, _, rows = drawn("mis", 100)
    x = rows.x[:, : REPORTS + 1]
    gap = again.reading(x) - stored.reading(x)
    assert float(np.sqrt(np.mean(gap**2))) < 0.03
    np.testing.assert_allclose(again.levels, stored.levels, atol=0.02)
    np.testing.assert_allclose(again.weights, stored.weights, atol=0.05)


def test_the_houses_reading_is_better_than_profanity() -> None:
    """On posts of the bank it explains over half of severity's variance, profanity a tenth."""
    world, _, rows = drawn("mis", 100)
    reading, s = world.model.reading(rows.x[:, : REPORTS + 1]), severity(rows)
    assert np.corrcoef(reading, s)[0, 1] ** 2 > 0.5
    assert np.corrcoef(rows.x[:, 0], s)[0, 1] ** 2 < 0.15


# The study


@BOTH
@pytest.mark.parametrize("kind", ["plain", "private", "turnover"])
def test_every_study_is_whole(variant: str, kind: str) -> None:
    """Measures, specification and words are there; the past has labels and the same gate."""
    subject = study(variant, {"moderator": kind, "rows": 64}, 20)
    world, group, streams = subject.domain.world, np.repeat(np.arange(2), 8), Streams(SEED, 8)
    state = world.start(streams.at(WORLD, 0), group)
    history = subject.past(subject.domain.instance, world, state, group, streams)
    assert history.log.unit.size == 128
    assert history.label is not None
    rows = world.context(streams.at(CONTEXT, 0), state, 0, group)
    e = np.column_stack((np.full(16, 2.0), np.ones(16)))
    for measure in subject.measures:
        value = measure.of(state, e, rows)
        assert value.shape == (16,)
        assert ((value >= 0) & (value <= 1)).all()
    assert len(subject.specification) == 9
    assert ("oracle_knows" in subject.about) == (variant == "mis" or kind == "private")


def test_measures_by_hand() -> None:
    """Over-removal is a removal below the community's own threshold; nothing ran is no removal."""
    subject = study("mis", {}, 20)
    _, state, rows = drawn("mis", 40)
    by_name = {measure.name: measure for measure in subject.measures}
    assert list(by_name) == ["satisfaction", "violation_rate", "appeal_rate", "over_removal_rate"]
    removed, nothing = np.tile([2.0, 0.5], (320, 1)), np.full((320, 2), np.nan)
    mild = severity(rows) <= state.remove
    found = by_name["over_removal_rate"].of(state, removed, rows)
    np.testing.assert_array_equal(found, mild.astype(float))
    assert not by_name["over_removal_rate"].of(state, nothing, rows).any()
    allowed = by_name["satisfaction"].of(state, np.zeros((320, 2)), rows)
    np.testing.assert_array_equal(by_name["satisfaction"].of(state, nothing, rows), allowed)
    assert category(np.array([[[np.nan, 1.0], [2.0, 1.0]]])).tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("variant", "options", "message"),
    [
        ("well", {"manager": "plain"}, "has the options moderator, posts and rows, not manager"),
        ("well", {"moderator": "angry"}, "moderator: expected one of plain, private, turnover"),
        ("well", {"rows": 0}, "rows: expected a whole number >= 1, got 0"),
        ("well", {"posts": "own.csv"}, "posts: in 'well' severity is not a text's"),
        ("mis", {"posts": "none.csv"}, "none.csv: cannot be read"),
        ("odd", {}, "variant: expected one of well, mis"),
    ],
)
def test_options_that_make_no_sense(variant: str, options: dict[str, Any], message: str) -> None:
    """Each is refused by name."""
    with pytest.raises(InvalidInput, match=message):
        study(variant, options, 10)


def test_posts_of_ones_own_are_drawn(tmp_path: Path) -> None:
    """Contexts come from the file, with its reach, and severities are the file's times a weight."""
    path = tmp_path / "own.csv"
    lines = [f"you are a fool number {i},{i / 30:.3f},0.5" for i in range(30)]
    path.write_text("text,severity,reach\n" + "\n".join(lines) + "\n", encoding="utf-8")
    subject = study("mis", {"posts": str(path)}, 10)
    world: Any = subject.domain.world
    group, streams = np.repeat(np.arange(4), 8), Streams(SEED, 8)
    state = world.start(streams.at(WORLD, 0), group)
    rows = world.context(streams.at(CONTEXT, 0), state, 0, group)
    assert rows.hidden is not None
    assert set(rows.x[:, 12].tolist()) == {0.5}
    post = rows.hidden[:, POST]
    expected = np.minimum(state.weights[:, 0] * np.round(post / 30, 3), 1.0)
    np.testing.assert_allclose(severity(rows), expected)
    assert str(path) in subject.about["real"][0]
    assert subject.domain.instance.cells.edges == learners.EDGES
