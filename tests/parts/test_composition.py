"""Compositions: `locate` inverts `compose`, Lipschitz bounds hold, gains solve Riccati."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from gdcb import Agent, Bounds, CurveThompson, Number, Schema
from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.composition import Add, Composition, Identity, KalmanGain, Multiply, Prompt
from gdcb.errors import InvalidInput
from gdcb.kalman.riccati import gain, riccati
from tests.builders import pricing
from tests.parts.builders import bytes_of, fixed, rng_of

LIST = ArmList(values=(0.8, 0.9, 1.0, 1.15, 1.25)).build()
GRID = Grid({"rate": (0.05, 0.1, 0.2), "tenor": (12.0, 24.0)}).build()
TOOLS = ArmList(names=("search", "calculator", "none")).build()
N = 3

factors = st.floats(1e-6, 1e6)
offsets = st.floats(-1e3, 1e3)


def deltas(values: st.SearchStrategy[float], n_arms: int, q: int) -> st.SearchStrategy[Array]:
    """Draw δ (N, 1 or K, q)."""

    def shaped(flat: list[float], k: int) -> Array:
        return np.array(flat).reshape(N, n_arms, q)[:, :k]

    size = N * n_arms * q
    flat = st.lists(values, min_size=size, max_size=size)
    return st.builds(shaped, flat, st.sampled_from([1, n_arms]))


def inverts(phi: Composition, arms: Arms, delta: Array, x: Array, tolerance: float) -> None:
    """Check that every composed action is located at its arm, or at one of the same action."""
    e = phi.compose(arms, delta, x)
    assert e.shape == (N, arms.n, len(phi.columns(arms)))
    found = phi.locate(arms, e, delta, x)
    assert (found.steps <= tolerance).all()
    own = np.take_along_axis(e, found.arm[..., None], axis=1)
    np.testing.assert_allclose(own, e, rtol=1e-9, atol=tolerance)
    gap = np.abs(e[:, :, None] - e[:, None]).max(axis=-1) / np.abs(e).max(initial=1e-12)
    gap[:, np.arange(arms.n), np.arange(arms.n)] = np.inf
    alone = gap.min(axis=-1) > 1e-9
    assert (found.arm == np.arange(arms.n))[alone].all()


@given(delta=deltas(factors, LIST.n, 1), base=st.lists(factors, min_size=2 * N, max_size=2 * N))
@fixed
def test_locate_inverts_multiply(delta: Array, base: list[float]) -> None:
    """With a base of two columns, for any δ > 0, shared or an arm's own."""
    x = np.array(base).reshape(N, 2)
    inverts(Multiply(base=(0, 1)), LIST, delta, x, 1e-9)


@given(delta=deltas(st.floats(0.01, 100), GRID.n, 1))
@fixed
def test_locate_inverts_multiply_beside_a_passing_coordinate(delta: Array) -> None:
    """The rate is scaled, the tenor passes through, and both are found again."""
    phi, x = Multiply(base=(0,)), np.full((N, 1), 3.0)
    e = phi.compose(GRID, delta, x)
    assert (e[..., 1] == GRID.coords[:, 1]).all()
    inverts(phi, GRID, delta, x, 1e-9)


@given(delta=deltas(offsets, LIST.n, 1))
@fixed
def test_locate_inverts_add(delta: Array) -> None:
    """For any offset, shared or an arm's own."""
    inverts(Add(), LIST, delta, np.zeros((N, 1)), 1e-9)


@given(delta=deltas(offsets, GRID.n, 1))
@fixed
def test_locate_inverts_add_beside_a_passing_coordinate(delta: Array) -> None:
    """The first coordinate is moved, the second passes."""
    e = Add().compose(GRID, delta, np.zeros((N, 1)))
    assert (e[..., 1] == GRID.coords[:, 1]).all()
    inverts(Add(), GRID, delta, np.zeros((N, 1)), 1e-9)


@given(delta=deltas(offsets, TOOLS.n, 1), severity=st.booleans())
@fixed
def test_locate_inverts_identity(delta: Array, severity: bool) -> None:
    """The category is the arm, whatever its severity."""
    phi = Identity(severity=severity)
    found = phi.locate(TOOLS, phi.compose(TOOLS, delta, np.zeros((N, 1))), delta, np.zeros((N, 1)))
    assert (found.arm == [0, 1, 2]).all()
    assert (found.steps == 0).all()


@given(delta=deltas(st.floats(-1, 2), TOOLS.n, 1))
@fixed
def test_locate_inverts_prompt(delta: Array) -> None:
    """The inverse of a prompt is its tool; the examples are whole and within 0..4."""
    phi, x = Prompt(examples=4, template=7), np.zeros((N, 1))
    e = phi.compose(TOOLS, delta, x)
    assert np.isin(e[..., 1], range(5)).all()
    assert (e[..., 2] == 7).all()
    assert (phi.locate(TOOLS, e, delta, x).arm == [0, 1, 2]).all()


def test_multiply_by_hand() -> None:
    """base 100, δ 2: arms 0.9, 1.1 run at 180, 220; 212 is the arm 212/200 = 1.06.

    1.06 is 0.04/0.2 = 0.2 steps from 1.1.
    """
    arms = ArmList(values=(0.9, 1.1)).build()
    phi, delta, x = Multiply(base=(0,)), np.array([[[2.0]]]), np.array([[100.0]])
    np.testing.assert_allclose(phi.compose(arms, delta, x).ravel(), [180.0, 220.0])
    found = phi.locate(arms, np.array([[[212.0]]]), delta, x)
    assert found.arm[0, 0] == 1
    assert found.coord[0, 0, 0] == pytest.approx(1.06)
    assert found.steps[0, 0] == pytest.approx(0.2)


def test_an_arm_judges_an_action_by_its_own_delta() -> None:
    """Arms 1, 2 with δ 10, 1: an action of 9 is 0.9 of arm 1, 0.1 steps off; for arm 2 it is 9."""
    arms = ArmList(values=(1.0, 2.0)).build()
    delta, x = np.array([[[10.0], [1.0]]]), np.zeros((1, 1))
    found = Multiply().locate(arms, np.array([[[9.0]]]), delta, x)
    assert found.arm[0, 0] == 0
    assert found.steps[0, 0] == pytest.approx(0.1)
    assert found.coord[0, 0, 0] == pytest.approx(0.9)


def test_distance_is_the_largest_over_coordinates() -> None:
    """(0.12·3, 30) under δ = 3 is (0.12, 30): max(0.02/0.1, 6/12) = ½ step from (0.1, 24)."""
    delta, x = np.array([[[3.0]]]), np.zeros((1, 1))
    found = Multiply().locate(GRID, np.array([[[0.36, 30.0]]]), delta, x)
    assert GRID.names[int(found.arm[0, 0])] == "rate=0.1 tenor=24"
    assert found.steps[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("phi", [Multiply(), Add()], ids=["multiply", "add"])
@pytest.mark.parametrize("arms", [LIST, GRID], ids=["list", "grid"])
def test_nearest_arm_is_the_brute_force_nearest(arms: Arms, phi: Any, shared: bool) -> None:
    """For random actions, every arm's distance computed by itself: the smallest is found."""
    rng = rng_of(1)
    delta = rng.uniform(0.5, 2.0, size=(20, 1 if shared else arms.n, 1))
    span = arms.coords.max(axis=0)
    e = rng.uniform(0.0, 1.5, size=(20, 6, arms.n_coords)) * span
    found = phi.locate(arms, e, delta, np.zeros((20, 1)))
    for i, j in np.ndindex(20, 6):
        gap = np.empty(arms.n)
        for k in range(arms.n):
            here = e[i, j].copy()
            own = delta[i, 0 if shared else k, 0]
            here[0] = here[0] / own if isinstance(phi, Multiply) else here[0] - own
            gap[k] = arms.distance(here, np.array(k))
        assert found.steps[i, j] == pytest.approx(gap.min(), abs=1e-12)
        assert gap[found.arm[i, j]] == pytest.approx(gap.min(), abs=1e-12)


def test_duplicates_in_a_product_grid_locate_to_the_first() -> None:
    """Arms with the same product compose to the same action, which is the first of them."""
    levels = (0.8, 1.0, 1.25)
    arms = Grid({"A": levels, "B": levels}, combine="product").build()
    delta, x = np.array([[[1.7]]]), np.array([[93.0]])
    phi = Multiply(base=(0,))
    found = phi.locate(arms, phi.compose(arms, delta, x), delta, x)
    coords = arms.coords[:, 0]
    assert found.arm[0].tolist() == [int(np.flatnonzero(coords == c)[0]) for c in coords]


@pytest.mark.parametrize("phi", [Identity(), Prompt()], ids=["identity", "prompt"])
def test_unknown_categories_are_comparable_to_no_arm(phi: Any) -> None:
    """A category beyond the arms has arm −1."""
    e = np.full((1, 1, len(phi.columns(TOOLS))), 5.0)
    assert phi.locate(TOOLS, e, np.zeros((1, 1, 1)), np.zeros((1, 1))).arm.tolist() == [[-1]]


def test_column_names() -> None:
    """One number a coordinate, named or numbered; categories carry their levels."""
    assert [c.name for c in Multiply().columns(LIST)] == ["action"]
    assert [c.name for c in Add(names=("r", "t")).columns(GRID)] == ["r", "t"]
    assert [c.name for c in Add().columns(GRID)] == ["action_0", "action_1"]
    assert Identity("verdict").columns(TOOLS)[0].levels == TOOLS.names
    assert [c.name for c in Prompt().columns(TOOLS)] == ["tool", "examples", "template"]
    with pytest.raises(InvalidInput, match=r"composition\.names: expected 2 names"):
        Multiply(names=("one",)).columns(GRID)


# Lipschitz -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phi", "arms", "q"),
    [
        (Multiply(), LIST, 1),
        (Multiply(base=(0, 1)), LIST, 1),
        (Multiply(base=(0,)), GRID, 1),
        (Multiply(base=(0,)), GRID, 2),
        (Add(), LIST, 1),
        (Add(), GRID, 2),
        (Identity(), TOOLS, 1),
        (Identity(severity=False), TOOLS, 1),
    ],
)
def test_lipschitz_bounds_hold_and_are_tight(phi: Any, arms: Arms, q: int) -> None:
    """‖Φ(a, δ₁) − Φ(a, δ₂)‖ ≤ L·‖δ₁ − δ₂‖ on random pairs, and some pair nearly reaches L."""
    rng = rng_of(2)
    x = rng.uniform(0.5, 2.0, size=(N, 2))
    largest = 0.0
    for _ in range(300):
        one, other = rng.normal(size=(2, N, 1, q))
        if q == 2 and rng.uniform() < 0.5:
            other[..., rng.integers(2)] = one[..., rng.integers(2)]
        bound = max(phi.lipschitz(arms, one, x), phi.lipschitz(arms, other, x))
        gap = np.linalg.norm(phi.compose(arms, one, x) - phi.compose(arms, other, x), axis=-1)
        moved = np.linalg.norm(one - other, axis=-1)
        assert (gap <= bound * moved * (1 + 1e-9)).all()
        largest = max(largest, float((gap / np.maximum(moved, 1e-12)).max()))
    assert largest >= 0.9 * phi.lipschitz(arms, one, x)


def test_a_prompt_has_no_lipschitz_bound() -> None:
    """The number of examples jumps: the bound is infinite and says so."""
    assert Prompt().lipschitz(TOOLS, np.zeros((1, 1, 1)), np.zeros((1, 1))) == float("inf")


# Kalman gains --------------------------------------------------------------------------------

MODES = ArmList(names=("calm", "brisk")).build()
GAIN = KalmanGain(
    transition=(((1.0, 1.0), (0.0, 1.0)), ((1.0, 0.5), (0.0, 0.9))),
    measurement=(((1.0, 0.0),), ((1.0, 0.0),)),
    process=(((0.1, 0.0), (0.0, 0.01)), ((2.0, 0.1), (0.1, 1.0))),
    noise=(((1.0,),), ((0.5,),)),
)
spread = st.floats(0.01, 100)


def system(seed: int) -> tuple[Array, Array, Array, Array]:
    """Return a random system; its covariances' eigenvalues span up to six decades."""
    rng = rng_of(seed)
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    f = rng.normal(size=(n, n))
    f *= rng.uniform(0.3, 1.5) / np.abs(np.linalg.eigvals(f)).max()
    decades = seed % 4

    def covariance(size: int) -> Array:
        turn = np.linalg.qr(rng.normal(size=(size, size)))[0]
        out = turn @ np.diag(10.0 ** rng.uniform(-decades, decades, size)) @ turn.T
        return np.asarray(out + out.T) / 2

    return f, rng.normal(size=(m, n)), covariance(n), covariance(m)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_riccati_is_scipy_s(start: int) -> None:
    """On random systems, badly conditioned ones among them, P agrees to 1e-8 of its size."""
    for seed in range(start, start + 50):
        f, h, q, r = system(seed)
        expected = linalg.solve_discrete_are(f.T, h.T, q, r)
        gap = np.abs(riccati(f, h, q, r) - expected).max()
        assert gap <= 1e-8 * np.abs(expected).max(), seed


def test_riccati_by_hand() -> None:
    """F = H = Q = R = 1: P = P − P²/(P+1) + 1, so P² = P + 1, the golden ratio; K = 1/P."""
    one = np.ones((1, 1))
    p = riccati(one, one, one, one)
    golden = (1 + 5**0.5) / 2
    assert p[0, 0] == pytest.approx(golden, rel=1e-14)
    assert gain(one, p, one)[0, 0] == pytest.approx(1 / golden, rel=1e-14)


def test_riccati_solves_each_system_by_itself() -> None:
    """A batch gives each system the bytes that it has alone."""
    rng = rng_of(4)
    f, h = 0.9 * rng.normal(size=(6, 3, 3)), rng.normal(size=(6, 1, 3))
    q, r = np.tile(np.eye(3), (6, 1, 1)), np.ones((6, 1, 1))
    batch = riccati(f, h, q, r)
    for i in range(6):
        alone = riccati(f[i], h[i], q[i], r[i])
        np.testing.assert_array_equal(batch[i], alone)


@pytest.mark.parametrize("batched", ["f", "h", "q", "r"])
def test_riccati_broadcasts(batched: str) -> None:
    """One matrix a system and the others shared: leading axes broadcast, as documented."""
    parts = {"f": 0.5 * np.eye(2), "h": np.ones((1, 2)), "q": np.eye(2), "r": np.eye(1)}
    single = riccati(**parts)
    parts[batched] = np.tile(parts[batched], (3, 1, 1))
    out = riccati(**parts)
    assert out.shape == (3, 2, 2)
    np.testing.assert_allclose(out, np.tile(single, (3, 1, 1)), rtol=1e-14)


def undetectable(seed: int, turned: bool) -> tuple[Array, Array]:
    """Return (F, H) with an unstable mode that H never sees, in a turned basis if asked."""
    rng = rng_of(seed)
    f = np.diag([rng.uniform(1.0, 3.0), 0.5, 0.3])
    f[1, 2] = 0.2
    h = np.array([[0.0, 1.0, 0.5]])
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] if turned else np.eye(3)
    return turn @ f @ turn.T, h @ turn.T


@pytest.mark.parametrize("turned", [False, True], ids=["plain", "turned"])
def test_undetectable_systems_are_nan(turned: bool) -> None:
    """An unstable mode that is never measured has no steady state: NaN, in any basis."""
    for seed in range(20):
        f, h = undetectable(seed, turned)
        assert np.isnan(riccati(f, h, np.eye(3), np.eye(1))).all(), seed


@pytest.mark.parametrize("seed", [1, 7, 11])
def test_undetectable_systems_leave_the_others_alone(seed: int) -> None:
    """In a batch the sound system keeps the bytes that it has alone."""
    f, h = undetectable(seed, turned=True)
    sound = 0.5 * np.eye(3)
    q, r = np.tile(np.eye(3), (2, 1, 1)), np.ones((2, 1, 1))
    out = riccati(np.stack((f, sound)), np.stack((h, h)), q, r)
    assert bytes_of(out[1]) == bytes_of(riccati(sound, h, np.eye(3), np.eye(1)))


@given(delta=deltas(spread, MODES.n, 2))
@fixed
def test_locate_inverts_kalman_gain(delta: Array) -> None:
    """Every mode's gain is located at its mode, or at one with the same gain."""
    x = np.zeros((N, 1))
    e = GAIN.compose(MODES, delta, x)
    assert e.shape == (N, 2, 2)
    assert np.isfinite(e).all()
    found = GAIN.locate(MODES, e, delta, x)
    assert (found.steps == 0).all()
    differ = np.abs(e[:, 0] - e[:, 1]).max(axis=-1) > 0
    assert (found.arm[differ] == [0, 1]).all()


@given(delta=deltas(spread, MODES.n, 2), c=st.floats(0.1, 10))
@fixed
def test_only_the_ratio_of_covariances_matters(delta: Array, c: float) -> None:
    """K(cQ, cR) = K(Q, R) to 1e-9."""
    x = np.zeros((N, 1))
    one, other = GAIN.compose(MODES, delta, x), GAIN.compose(MODES, c * delta, x)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_covariances_are_confined() -> None:
    """Scales outside [low, high] are taken to its ends."""
    x = np.zeros((1, 1))
    outside = GAIN.compose(MODES, np.array([[[1e-9, 1e9]]]), x)
    ends = GAIN.compose(MODES, np.array([[[1e-3, 1e3]]]), x)
    assert bytes_of(outside) == bytes_of(ends)


def test_gain_columns_and_distance_by_hand() -> None:
    """Columns are the entries row by row; 0.1 off in the larger entry is 2 steps of 0.05."""
    assert [c.name for c in GAIN.columns(MODES)] == ["gain_00", "gain_10"]
    delta, x = np.ones((1, 1, 2)), np.zeros((1, 1))
    e = GAIN.compose(MODES, delta, x)[:, :1] + [0.1, -0.03]
    found = GAIN.locate(MODES, e, delta, x)
    assert found.arm[0, 0] == 0
    assert found.steps[0, 0] == pytest.approx(2.0)


def test_an_undetectable_mode_is_no_action() -> None:
    """Its gain is NaN, so that gates veto it, and no action is located there."""
    blind = KalmanGain(
        transition=(((1.0, 0.0), (0.0, 1.2)), ((0.5, 0.0), (0.0, 0.5))),
        measurement=(((1.0, 0.0),), ((1.0, 0.0),)),
        process=(((1.0, 0.0), (0.0, 1.0)),) * 2,
        noise=(((1.0,),),) * 2,
    )
    delta, x = np.ones((1, 1, 2)), np.zeros((1, 1))
    e = blind.compose(MODES, delta, x)
    assert np.isnan(e[0, 0]).all()
    assert np.isfinite(e[0, 1]).all()
    assert blind.locate(MODES, e, delta, x).arm.tolist() == [[-1, 1]]


@given(delta=deltas(spread, MODES.n, 2), angle=st.floats(0, 2 * np.pi))
@fixed
def test_gain_lipschitz_holds_locally(delta: Array, angle: float) -> None:
    """For a small step of δ in any direction ‖ΔK‖ ≤ L·‖Δδ‖, 1 % allowed for curvature."""
    x = np.zeros((N, 1))
    delta = np.broadcast_to(delta, (N, MODES.n, 2))
    bound = GAIN.lipschitz(MODES, delta, x)
    step = 1e-5 * delta.min() * np.array([np.cos(angle), np.sin(angle)])
    gap = np.linalg.norm(
        GAIN.compose(MODES, delta + step, x) - GAIN.compose(MODES, delta - step, x), axis=-1
    )
    assert (gap <= 1.01 * bound * 2 * np.linalg.norm(step) + 1e-12).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Prompt(examples=-1), "composition.examples: expected a number >= 0"),
        (lambda: Prompt(template=-1), "composition.template: expected a number >= 0"),
        (lambda: KalmanGain((), (), (), (), step=0.0), "composition.step: expected a number > 0"),
        (lambda: KalmanGain((((1.0,),),), (), (), ()), "one F, H, Q and R a mode"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


def test_a_prompt_is_rendered_with_as_many_examples_as_it_asks_for() -> None:
    """Relevance 0.6 of 4 examples: floor(2.4 + ½) = 2, fewer where fewer are known."""
    phi = Prompt(examples=4, template=2)
    e = phi.compose(TOOLS, np.array([[[0.6], [0.0], [1.0]]]), np.zeros((1, 1)))[0]
    assert e[:, 1].tolist() == [2.0, 0.0, 4.0]
    text = phi.render(TOOLS, e[0], "why?", ("a", "b", "c"))
    assert text == "[template 2] Use the tool 'search'.\nExample: a\nExample: b\nQuery: why?"
    assert "Example" not in phi.render(TOOLS, e[1], "why?", ("a",))


def test_a_base_of_zero_is_decided_without_a_warning() -> None:
    """What runs there is no multiple of the base: no arm is credited with it."""
    instance = pricing(context=Schema({"base": Number(0, 1000)}), gate=Bounds(low=50, high=300))
    agent = Agent(instance, CurveThompson(), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case = agent.decide({"base": 0})
        assert case.executed == {"price": 50.0}
        agent.observe(case.id, {"booked": 1})
        assert agent.decide({"base": 100}).proposed is not None
