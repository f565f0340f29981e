"""The study: its worlds, its past, what it measures, and that nothing infeasible ever runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import catalogue
from gdcb.instances.grid import features, fit, operators, prior, study
from gdcb.instances.grid.columns import FLEXIBLE, HIGH, LOAD, LOW, N_ZONES, PV, SCHEMA, ZONE
from gdcb.instances.grid.offsets import best_offset
from gdcb.instances.grid.world import Feeder, Zones, planned
from gdcb.protocol import fitting
from gdcb.protocol.block import run_setup
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import build
from gdcb.protocol.task import Task
from gdcb.records import Rows
from gdcb.scalers.neural import Trunk
from gdcb.streams import CONTEXT, LABEL, OUTCOME, WORLD, Streams
from tests.properties import examples

VARIANTS = pytest.mark.parametrize("variant", ["well", "mis"])
SEED = 11


def hours(variant: str, networks: int = 6, rounds: int = 4) -> tuple[Feeder, Zones, Rows]:
    """Return a world with some hours of some networks."""
    world, streams = Feeder(variant), Streams(SEED, N_ZONES)
    group = np.repeat(np.arange(networks), N_ZONES)
    state = world.start(streams.at(WORLD, 0), group)
    seen = [world.context(streams.at(CONTEXT, t), state, t, group) for t in range(rounds)]
    return world, state, Rows.concatenate(seen)


@VARIANTS
def test_contexts_are_what_the_schema_says(variant: str) -> None:
    """Every column within its range, one zone a row, limits where there is something to limit."""
    _, _, rows = hours(variant)
    for name, kind in SCHEMA.columns.items():
        for at in SCHEMA.positions[name]:
            low, high = getattr(kind, "low", 0.0), getattr(kind, "high", 1.0)
            assert ((rows.x[:, at] >= low) & (rows.x[:, at] <= high)).all(), name
    zones = rows.x[:, ZONE : ZONE + N_ZONES]
    assert (zones.sum(axis=1) == 1.0).all()
    assert (zones.argmax(axis=1) == rows.unit % N_ZONES).all()


@VARIANTS
def test_the_mean_is_what_samples_tend_to(variant: str) -> None:
    """20,000 samples of one shed: within 4 standard errors in every row (48 rows, p < 0.004)."""
    world, state, rows = hours(variant, networks=6, rounds=1)
    e = rows.x[:, [FLEXIBLE]] * 0.6
    times = 400
    total = np.zeros(rows.n)
    for t in range(times):
        total += world.sample(Streams(SEED, N_ZONES).at(OUTCOME, t), state, e, rows)[:, 0]
    gap = total / times - world.mean(state, e[:, None], rows)[:, 0]
    assert np.abs(gap).max() < 4.0 * prior.NOISE / np.sqrt(times)


@VARIANTS
def test_the_best_shed_is_the_best_of_a_fine_grid(variant: str) -> None:
    """No shed of 4,001 is worth more than the optimum by 1e-12."""
    world, state, rows = hours(variant)
    best = world.best(state, rows)
    worth = world.mean(state, best[:, None], rows)[:, 0]
    grid = np.linspace(-0.2, 2.5, 4001)[:, None]
    other = world.mean(state, np.broadcast_to(grid, (rows.n, 4001, 1)), rows)
    assert (other.max(axis=1) <= worth + 1e-12).all()
    assert ((best[:, 0] >= 0.0) & (best[:, 0] <= rows.x[:, FLEXIBLE])).all()


def test_the_mean_by_hand() -> None:
    """−VOLL·RATED·τ·log(1 + exp(−m/τ)) − price·e at a margin that stands in the table."""
    world, state, rows = hours("mis", networks=1, rounds=1)
    hidden = np.asarray(rows.hidden)
    shed, margin = 3 * hidden[:, 0], hidden[:, 4]  # the fourth point along the shares
    tau = state.swing[rows.unit]
    lost = state.voll[rows.unit] * 5.02 * tau * np.log1p(np.exp(-margin / tau))
    expected = -lost - world.price(state, rows) * shed
    assert np.allclose(world.mean(state, shed[:, None, None], rows)[:, 0], expected, atol=1e-9)
    nothing = world.mean(state, np.full((rows.n, 1, 1), np.nan), rows)
    assert (nothing == prior.RESERVE).all()


def test_nobody_sheds_less_than_nothing_or_more_than_there_is() -> None:
    """Orders beyond both ends are worth what the ends are."""
    world, state, rows = hours("mis", rounds=1)
    ends = np.stack((np.zeros(rows.n), rows.x[:, FLEXIBLE]), axis=1)[..., None]
    beyond = ends + np.array([-1.0, 5.0])[None, :, None]
    assert np.array_equal(world.mean(state, ends, rows), world.mean(state, beyond, rows))


def test_the_need_moves_with_load_sun_and_heat() -> None:
    """The best shed rises with the load and falls with the sun; rows in which it is inside."""
    world, state, rows = hours("mis", networks=40, rounds=4)
    best = world.best(state, rows)[:, 0]
    inside = (best > 0.01) & (best < rows.x[:, FLEXIBLE] - 0.01)
    assert inside.mean() > 0.5
    names = [SCHEMA.names.index(name) for name in ("load", "temperature", "pv")]
    design = np.column_stack((np.ones(inside.sum()), rows.x[inside][:, names]))
    slopes = np.linalg.lstsq(design, best[inside], rcond=None)[0]
    assert slopes[1] > 0.5 and slopes[2] > 0.005 and slopes[3] < -0.5  # noqa: PT018


@VARIANTS
def test_a_row_does_not_know_who_else_is_asked(variant: str) -> None:
    """μ, optimum, labels' means and features of a row alone are those in a batch, bit for bit."""
    world, state, rows = hours(variant)
    e = np.linspace(0.0, 1.0, 7)[None, :, None] * np.ones((rows.n, 1, 1))
    some = np.array([3, 17, 40])
    few = rows.take(some)
    assert world.mean(state, e[some], few).tobytes() == world.mean(state, e, rows)[some].tobytes()
    assert world.best(state, few).tobytes() == world.best(state, rows)[some].tobytes()
    mine, all_rows = features.activations(few.x), features.activations(rows.x)[some]
    assert mine.tobytes() == all_rows.tobytes()


def test_the_margin_at_what_planning_finds_is_the_planned_one() -> None:
    """Where it lies among the solved sheds; and labels scatter around it by their noise."""
    world, state, rows = hours("mis", networks=20, rounds=10)
    found = planned(rows)
    inside = (found > 0.0) & (found < 0.85 * rows.x[:, FLEXIBLE])
    margin = world.margin(rows.take(np.flatnonzero(inside)), found[inside][:, None])[:, 0]
    assert np.allclose(margin, prior.PLANNED, atol=1e-9)
    assert inside.mean() > 0.5
    label = world.label(Streams(SEED, N_ZONES).at(LABEL, 0), state, found[:, None], rows)
    assert abs((label[:, 0] - found).std() / prior.LABEL_NOISE - 1.0) < 0.1


@VARIANTS
def test_the_best_offset_of_the_family(variant: str) -> None:
    """In `well` it is δ*; in `mis` no other head of the family is nearer to what is planned."""
    world, state, _ = hours(variant, networks=5, rounds=1)
    _, _, reference = hours(variant, networks=20, rounds=1)
    found = best_offset(world, state, reference)
    assert found.shape == (5, reference.n)
    if variant == "well":
        mine = Rows(np.zeros(reference.n, dtype=np.int64), reference.group, reference.x)
        star = world.true_delta(state, mine)
        assert star is not None
        assert np.allclose(found[0], star[:, 0, 0], atol=1e-12)
        return
    assert np.abs(found.mean(axis=1)).max() < 0.3
    phi = features.activations(reference.x)
    from gdcb.instances.grid.offsets import _planned

    target = _planned(world, state, reference)
    left = (target - found) - (target - found).mean(axis=1, keepdims=True)
    assert np.abs(left @ phi).max() / reference.n < 1e-6


def unexplained(trunk: Trunk, rows: Rows, label: Array) -> float:
    """Return the variance of labels that the best head of each network leaves on a trunk."""
    phi, left = trunk.forward(rows.x[:, list(features.POSITIONS)]), 0.0
    for g in np.unique(rows.group):
        mine = rows.group == g
        x, y = (v[mine] - v[mine].mean(axis=0) for v in (phi, label[:, 0]))
        head = np.linalg.solve(x.T @ x + fit.PENALTY * np.eye(x.shape[1]), x.T @ y)
        left += float(((y - x @ head) ** 2).sum())
    return left / rows.n


def test_the_stored_map_is_what_fit_makes() -> None:
    """Made anew from the same pilot worlds, it leaves as much of what planning finds, to 1 %.

    The fit of a network ends where the last digits of the processor's BLAS lead it: with the
    kernels of four processors its outputs differ by up to 0.17, and what it leaves by 0.2 %.
    """
    made, kept = fit.fit(), features.stored()
    for name in ("mean", "scale"):
        assert np.allclose(made["trunk"][name], kept["trunk"][name], atol=2e-6)
    rows, label = fit.pilot()
    old = unexplained(features.trunk(), rows, label)
    new = unexplained(features.trunk().read(made["trunk"]), rows, label)
    assert new == pytest.approx(old, rel=0.01)
    level = sum(label[rows.group == g].var() for g in range(fit.NETWORKS)) / fit.NETWORKS
    assert old < 0.3 * level
    assert np.allclose(made["head"]["mean"], kept["head"]["mean"], atol=0.05)


def test_the_dispatcher_s_table() -> None:
    """Steps of net load by hand, and never more than there is."""
    x = np.zeros((3, SCHEMA.width))
    x[:, LOAD], x[:, PV], x[:, FLEXIBLE] = (3.5, 4.3, 5.0), (0.0, 0.2, 0.0), (1.0, 1.0, 0.6)
    rows = Rows(np.arange(3), np.zeros(3, dtype=np.int64), x)
    assert operators.own(rows)[:, 0].tolist() == [0.1, 0.5, 0.6]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hours": 3}, "grid has the option calls, not hours"),
        ({"calls": 0}, "calls: expected a whole number >= 1, got 0"),
        ({"calls": True}, "calls: expected a whole number >= 1, got True"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    """By name."""
    with pytest.raises(InvalidInput, match=message):
        study("mis", options, 10)
    with pytest.raises(InvalidInput, match="variant: expected one of well, mis"):
        study("real", {}, 10)


@pytest.fixture(scope="module", autouse=True)
def known() -> Any:
    """Let the protocol find the study, whether it is listed yet or not."""
    before = catalogue.STUDIES.get("grid")
    catalogue.STUDIES["grid"] = "grid"
    yield
    if before is None:
        del catalogue.STUDIES["grid"]


@VARIANTS
def test_it_runs_and_ours_is_first(variant: str) -> None:
    """Four methods, 10 networks, 40 hours: parts sum up, the past has labels, GDCB leads."""
    subject = catalogue.study("grid", variant, {"calls": 400}, 40)
    priors = fitting.fitted_priors(subject, groups=8, contexts=40)
    tuned: dict[str, Any] = {}
    for key, found in priors.items():
        tuned.setdefault(key.split()[0], found | fitting.START)
    excess = {}
    for key in ("B1", "B4", "A1", "A3"):
        task = Task("grid", variant, (("calls", 400),), SEED, 40, 0, 10, key)
        shared = shared_by(task)
        record = run_setup(build(shared.study, key, tuned), shared, task)
        total = record.parts[..., 0]
        assert np.allclose(total, record.parts[..., 1:].sum(axis=-1), atol=1e-9)
        assert np.isfinite(total).all()
        excess[key] = float((total - shared.floor).sum(axis=0).mean())
    assert shared.floor.min() > -1e-9
    history = shared.history
    assert history.label is not None and np.isfinite(history.label).all()  # noqa: PT018
    assert history.log.unit.size == 400 * 10
    assert min(excess, key=lambda key: excess[key]) == "B4"
    for measure in subject.measures:
        e = history.log.action
        value = measure.of(shared.world.state, e, history.rows)
        assert value.shape == (e.shape[0],)
        assert np.isfinite(value).all()


def test_measures_by_hand() -> None:
    """A shed of nothing in an hour whose margin is 0 is broken with a chance of one half."""
    world, state, rows = hours("mis", networks=1, rounds=1)
    hidden = np.asarray(rows.hidden).copy()
    hidden[:, 1 : 1 + world.table.n_shares] -= hidden[:, 1:2]
    flat = Rows(rows.unit, rows.group, rows.x, hidden=hidden)
    found = {
        one.name: one.of(state, np.zeros((rows.n, 1)), flat)
        for one in study("mis", {}, 10).measures
    }
    assert np.allclose(found["at_risk"], 0.5)
    assert (found["shed"] == 0.0).all()
    assert np.allclose(found["margin"], 0.0)
    assert (found["broken"] == 0.0).all()
    none = study("mis", {}, 10).measures[2].of(state, np.full((rows.n, 1), np.nan), rows)
    assert (none == 0.0).all()


wild = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-1.0, 3.0),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0]),
)


@examples(60)
@given(proposals=st.lists(wild, min_size=1, max_size=12), seed=st.integers(0, 10**6))
def test_nothing_infeasible_is_ever_executed(proposals: list[float], seed: int) -> None:
    """Whatever an adversary proposes: what runs is within the limits, and its margin not < 0."""
    instance, world = study("mis", {}, 10).domain.instance, Feeder("mis")
    streams, group = Streams(seed, N_ZONES), np.repeat(np.arange(2), N_ZONES)
    state = world.start(streams.at(WORLD, 0), group)
    rows = world.context(streams.at(CONTEXT, 0), state, 0, group)
    e = np.resize(np.array(proposals), (rows.n, 1))
    verdict = instance.chain.apply(instance.chain.draw(streams.at(1, 0), rows.n), e, rows)
    executed = turn.execute(instance, verdict, rows)
    ran = ~executed.is_null
    shed: Array = executed.action[:, 0]
    assert np.isnan(shed[~ran]).all()
    assert (shed[ran] >= rows.x[ran, LOW]).all()
    assert (shed[ran] <= rows.x[ran, HIGH]).all()
    assert (shed[ran] <= rows.x[ran, FLEXIBLE]).all()
    some = rows.take(np.flatnonzero(ran))
    if some.n:
        assert world.margin(some, shed[ran][:, None]).min() > -1e-9
    impossible = rows.x[:, LOW] > rows.x[:, HIGH]
    assert executed.is_null[impossible].all()


def test_the_readme_says_the_prior_as_it_is() -> None:
    """Every number of its table is the constant that the row names."""
    from pathlib import Path

    import gdcb.instances.grid

    text = (Path(gdcb.instances.grid.__file__).parent / "README.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|") and "`" in line]
    seen = 0
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = [name.strip("` ") for name in cells[-1].split(",")]
        if not hasattr(prior, names[0]):
            continue
        said = [cell.removesuffix(", exp").split(" to ") for cell in cells[2:4] if cell]
        for name, numbers in zip(names, said, strict=True):
            value = getattr(prior, name)
            assert [float(one) for one in numbers] == list(np.atleast_1d(value)), name
            seen += 1
    assert seen == 17
