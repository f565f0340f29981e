"""The real drive's adapter, fixes, filter and decision, on a made drive: no test needs the data."""

from __future__ import annotations

import dataclasses
import gzip
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from examples.real_logs.drive import __main__ as command
from examples.real_logs.drive import decision, fix, plot, run, score
from examples.real_logs.drive import filter as kalman
from examples.real_logs.drive import log as logs
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.filter import kalman_filter
from gdcb.kalman.model import Model
from gdcb.records import Rows
from tests.properties import examples

PLACE = np.array([4_800_000.0, 850_000.0, 4_100_000.0])  # somewhere on the Earth, about
CLOCKS = {1: 1_000.0, 4: -2_000.0}
DRIFT = 20.0


@dataclasses.dataclass(frozen=True)
class Made:
    """Tables of a made drive, in the columns of the log."""

    pseudoranges: Array
    odometry: Array
    truth: Array

    @property
    def drive(self) -> logs.Drive:
        return logs.drive_of(self.pseudoranges, self.odometry, self.truth)


def made(
    epochs: int = 120, dt: float = 0.5, satellites: int = 12, noise: float = 1.0, seed: int = 1
) -> Made:
    """A car in bends under two systems; noise is the C/N0 model's, and the state's that of Motion.

    `noise` multiplies both standard deviations; the receiver's variance is the truth.
    """
    rng, motion = np.random.default_rng(seed), kalman.Motion()
    axes = fix._axes(PLACE)
    azimuth = np.linspace(0.0, 2 * np.pi, satellites, endpoint=False) + 0.2
    elevation = np.linspace(15.0, 80.0, satellites)[rng.permutation(satellites)]
    flat = np.cos(np.radians(elevation))
    toward = np.stack(
        (flat * np.sin(azimuth), flat * np.cos(azimuth), np.sin(np.radians(elevation)))
    )
    satellite = PLACE + 2.2e7 * toward.T @ axes
    system = np.where(np.arange(satellites) % 2 == 0, 1, 4)
    cn0 = np.linspace(30.0, 48.0, satellites)
    variance = decision.variances(cn0, elevation, np.ones(satellites))[:, 2]
    state = np.zeros(7)
    state[[kalman.HEADING, kalman.DRIFT]] = 0.5, DRIFT
    state[kalman.CLOCK :] = list(CLOCKS.values())
    spread = [motion.ground, motion.ground, motion.up, motion.heading, motion.drift]
    spread += [motion.clock] * 2
    ranges, driven, truth = [], [], []
    for i in range(epochs):
        speed, turn, time = 6.0, 0.15 * np.sin(i * dt / 8), 10.0 + i * dt
        if i:
            state = kalman.predict(state[None], np.eye(7)[None], speed, turn, dt, motion)[0][0]
            state = state + noise * np.sqrt(dt) * np.array(spread) * rng.standard_normal(7)
        point = PLACE + state[:3] @ axes
        distance = np.linalg.norm(fix.turned(satellite, point) - point, axis=1)
        clock = np.where(system == 1, state[kalman.CLOCK], state[kalman.CLOCK + 1])
        rho = distance + clock + noise * np.sqrt(variance) * rng.standard_normal(satellites)
        for k in range(satellites):
            row = (time, rho[k], variance[k], *satellite[k], k + 1, system[k])
            ranges.append((*row, elevation[k], cn0[k]))
        driven.append((time, speed, 0.0, 0.0, 0.0, 0.0, turn))
        truth.append((time, *point))
    return Made(np.array(ranges), np.array(driven), np.array(truth))


def write(folder: Path, tables: Made) -> Path:
    for name, table in zip(logs.COLUMNS, dataclasses.astuple(tables), strict=True):
        lines = [
            ",".join(logs.COLUMNS[name]),
            *(",".join(map(repr, row)) for row in table.tolist()),
        ]
        (folder / f"made_{name}.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


def fixed(model: str, gated: bool = True) -> run.Fixed:
    return run.Fixed(decision.instance(gated=gated), model)


# Reading


def test_tables_and_lines_of_librsf_give_the_same_drive(tmp_path: Path) -> None:
    tables = made(8)
    first = logs.read(write(tmp_path, tables))
    other = tmp_path / "lines"
    other.mkdir()
    kinds = {name: kind for kind, name in logs.KINDS.items()}
    lines = {
        name: [f"{kinds[name]} {' '.join(map(repr, row))}" for row in table.tolist()]
        for name, table in zip(logs.COLUMNS, dataclasses.astuple(tables), strict=True)
    }
    inputs = [*lines["odometry"], "", "comment that is none of the kinds", *lines["pseudoranges"]]
    (other / "Made_Input.txt").write_text("\n".join(inputs))
    (other / "Made_GT.txt").write_text("\n".join(lines["groundtruth"]))
    second = logs.read(other)
    for one in dataclasses.fields(logs.Drive):
        np.testing.assert_array_equal(getattr(first, one.name), getattr(second, one.name))
    assert (first.n, first.systems, first.rows(1)) == (8, ("GPS", "GLONASS"), slice(12, 24))
    assert first.number[:3].tolist() == [1, 2, 3]
    (other / "Made_GT.txt").write_text("\n".join(lines["groundtruth"][1:]))
    assert logs.read(other).time.tolist() == first.time[1:].tolist()


def test_an_epoch_without_pseudoranges_is_empty_and_is_driven_through() -> None:
    tables = made(70)
    kept = tables.pseudoranges[tables.pseudoranges[:, 0] != tables.odometry[40, 0]]
    drive = dataclasses.replace(tables, pseudoranges=kept).drive
    assert drive.rows(40).start == drive.rows(40).stop
    track = run.follow(drive, fix.plane_of(drive), fixed("C/N0"))
    assert track.n_used[40] == 0
    assert np.isfinite(track.position).all()
    assert track.deviation[40] > track.deviation[39]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected a folder with the drive's files"):
        logs.read(tmp_path / "nowhere")
    with pytest.raises(
        InvalidInput, match=r"expected one file named \*pseudoranges\.csv\*, got none"
    ):
        logs.read(tmp_path)
    write(tmp_path, made(3))
    (tmp_path / "more_odometry.csv").write_text("t\n1\n")
    with pytest.raises(InvalidInput, match=r"got made_odometry\.csv\.gz, more_odometry\.csv"):
        logs.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("t,x,y\n1,2,3\n", "expected the columns t, x, y, z; z not among t, x, y"),
        ("t,x,y,z\n1,2,3,north\n", "expected numbers in the column z, got words"),
        ("t,x,y,z\n1,2,3,\n2,1,1,1\n", "2 rows of which 1 are not finite"),
        ("", "expected a table as CSV"),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path, made(3))
    (tmp_path / "made_groundtruth.csv.gz").unlink()
    (tmp_path / "made_groundtruth.csv").write_text(text)
    with pytest.raises(InvalidInput, match=says):
        logs.read(tmp_path)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a_Input.txt").write_text("odom3 1 2 x\n")
    (tmp_path / "a_GT.txt").write_text("point3 1 2 3 4\n")
    with pytest.raises(InvalidInput, match=r"a_Input\.txt, line 1: expected odom3 and the numbers"):
        logs.read(tmp_path)


@pytest.mark.parametrize(
    ("table", "column", "value", "says"),
    [
        ("pseudoranges", 1, np.nan, "1 are not finite"),
        ("pseudoranges", 2, 0.0, "expected variances above 0"),
        ("pseudoranges", 0, 10.1, "expected times of the odometry, got 10.1"),
        ("pseudoranges", 3, 1e9, "expected Earth-fixed metres"),
        ("odometry", 0, 99.0, "expected rising times"),
        ("truth", 0, 10.1, "expected the 4 times of the odometry, got 4 times, 3 of them"),
        ("truth", 1, np.inf, "groundtruth: expected two or more rows of finite numbers"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    table: str, column: int, value: float, says: str
) -> None:
    tables = made(4)
    bad = getattr(tables, table).copy()
    bad[0, column] = value
    with pytest.raises(InvalidInput, match=says):
        _ = dataclasses.replace(tables, **{table: bad}).drive


# Fixes


def test_without_noise_a_fix_is_the_truth_and_every_system_has_its_clock() -> None:
    tables = made(3, noise=0.0)
    drive = tables.drive
    plane = fix.plane_of(drive)
    for weigh in (fix.equal, fix.by_cn0):
        found = fix.fixes(drive, plane, weigh)
        np.testing.assert_allclose(found, plane.of(drive.truth), atol=0.02)
    rows = drive.rows(0)
    _, clocks, residual = fix.least_squares(
        plane.satellite[rows], drive.ranges[rows], drive.system[rows], np.ones(12), np.zeros(3)
    )
    np.testing.assert_allclose(clocks, list(CLOCKS.values()), atol=0.02)
    np.testing.assert_allclose(residual, 0.0, atol=0.02)


def test_the_earths_turn_is_worth_metres() -> None:
    drive = made(3, noise=0.0).drive
    plane = fix.plane_of(drive)
    still = dataclasses.replace(plane, satellite=(drive.satellite - plane.origin) @ plane.axes.T)
    apart = fix.fixes(drive, still, fix.equal) - plane.of(drive.truth)
    assert (np.linalg.norm(apart, axis=1) > 10.0).all()


def test_axes_are_orthonormal_and_up_points_outwards() -> None:
    axes = fix._axes(PLACE)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    assert axes[2] @ PLACE > 0.99 * np.linalg.norm(PLACE)
    assert axes[0, 2] == 0.0
    assert axes[1, 2] > 0.0


def test_rejection_drops_the_planted_satellite_only() -> None:
    tables = made(4, noise=0.01)
    bad = tables.pseudoranges.copy()
    bad[bad[:, 6] == 5, 1] += 300.0
    drive = dataclasses.replace(tables, pseudoranges=bad).drive
    plane = fix.plane_of(drive)
    apart = [
        np.linalg.norm(fix.fixes(drive, plane, fix.equal, reject) - plane.of(drive.truth), axis=1)
        for reject in (np.inf, 30.0)
    ]
    assert apart[0].min() > 20.0
    assert apart[1].max() < 2.0


def test_too_few_satellites_give_no_fix() -> None:
    with pytest.raises(InvalidInput, match="expected 5 satellites or more, got 4"):
        fix.least_squares(np.eye(4, 3), np.ones(4), np.array([0, 0, 1, 1]), np.ones(4), np.zeros(3))
    with pytest.raises(InvalidInput, match="expected an epoch with enough satellites"):
        fix.plane_of(made(3, satellites=4).drive)


# Filter


def random_states(seed: int, n: int = 3, size: int = 7) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, size, size))
    return rng.standard_normal((n, size)), root @ root.swapaxes(1, 2) + np.eye(size)


@given(st.integers(0, 1000))
@examples(15)
def test_the_update_is_that_of_the_information_filter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, covariance = random_states(seed)
    design, innovation = rng.standard_normal((3, 4, 7)), rng.standard_normal((3, 4))
    variance, used = rng.uniform(0.1, 5.0, 4), rng.random((3, 4)) < 0.7
    moved, left = kalman.update(mean, covariance, design, innovation, variance, used)
    for j in range(3):
        h, weight = design[j][used[j]], 1 / variance[used[j]]
        expected = np.linalg.inv(np.linalg.inv(covariance[j]) + (h.T * weight) @ h)
        np.testing.assert_allclose(left[j], expected, atol=1e-9)
        step = expected @ (h.T * weight) @ innovation[j][used[j]]
        np.testing.assert_allclose(moved[j], mean[j] + step, atol=1e-9)
        one = slice(j, j + 1)
        alone = kalman.update(
            mean[one], covariance[one], design[one], innovation[one], variance, used[one]
        )
        np.testing.assert_array_equal(alone[0][0], moved[j])
        np.testing.assert_array_equal(alone[1][0], left[j])


def test_the_update_is_that_of_the_linear_filter() -> None:
    rng = np.random.default_rng(4)
    mean, covariance = random_states(4)
    design, z = rng.standard_normal((3, 4, 7)), rng.standard_normal((3, 4))
    variance, used = np.array([0.5, 1.0, 2.0, 4.0]), rng.random((3, 4)) < 0.6
    model = Model(np.eye(7), design, np.eye(7), np.diag(variance))
    twice, seen = np.stack((z, z)), np.stack((used, np.zeros_like(used)))
    reference = kalman_filter(twice, model, mean, covariance, is_seen=seen)
    innovation = z - (design @ mean[..., None])[..., 0]
    moved, left = kalman.update(mean, covariance, design, innovation, variance, used)
    np.testing.assert_allclose(moved, reference.mean[0], atol=1e-10)
    np.testing.assert_allclose(left, reference.covariance[0], atol=1e-10)


def test_slopes_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(2)
    mean, _ = random_states(2, n=1)
    satellite, system = 2e7 * rng.standard_normal((5, 3)), np.array([0, 1, 0, 1, 1])
    _, design = kalman.expected(mean, satellite, system)
    for i in range(7):
        bump = 1e-1 * np.eye(7)[i]
        up, down = (kalman.expected(mean + s * bump, satellite, system)[0] for s in (1, -1))
        np.testing.assert_allclose(design[0, :, i], (up - down)[0] / 2e-1, atol=1e-6)
    step = np.zeros((7, 7))
    still = kalman.Motion(0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(7):
        bump = 1e-5 * np.eye(7)[i]
        up, down = (
            kalman.predict(mean + s * bump, np.eye(7)[None], 6.0, 0.3, 0.5, still)[0]
            for s in (1, -1)
        )
        step[:, i] = (up - down)[0] / 2e-5
    _, moved = kalman.predict(mean, np.eye(7)[None], 6.0, 0.3, 0.5, still)
    np.testing.assert_allclose(moved[0], step @ step.T, atol=1e-8)


def test_with_the_right_noise_the_filter_converges_and_is_consistent() -> None:
    # False alarms: 1 in 1,000 for each of the two bands, at a fixed seed.
    drive = made(200).drive
    plane = fix.plane_of(drive)
    track = run.follow(drive, plane, fixed("receiver", gated=False))
    late = slice(40, None)
    dof = track.n_used[late].sum()
    low, high = stats.chi2.ppf(0.0005, dof), stats.chi2.ppf(0.9995, dof)
    assert low < track.nis[late].sum() < high
    apart = np.linalg.norm(track.position - plane.of(drive.truth), axis=1)[late]
    fixes = fix.fixes(drive, plane, fix.by_cn0) - plane.of(drive.truth)
    assert np.median(apart) < 0.6 * np.median(np.linalg.norm(fixes, axis=1)[late])
    assert 0.3 < np.sqrt(np.mean(apart**2)) / np.sqrt(np.mean(track.deviation[late] ** 2)) < 2.0


def test_a_noise_that_is_taken_for_small_is_seen_in_the_innovations() -> None:
    tables = made(120)
    tables.pseudoranges[:, 2] /= 9.0
    drive = tables.drive
    track = run.follow(drive, fix.plane_of(drive), fixed("receiver", gated=False))
    assert track.nis[40:].sum() > 3 * track.n_used[40:].sum()


def test_nothing_reads_the_truth_before_the_score() -> None:
    tables = made(70)
    tracks = []
    for truth in (tables.truth, np.column_stack((tables.truth[:, 0], np.zeros((70, 3))))):
        drive = dataclasses.replace(tables, truth=truth).drive
        tracks.append(run.follow(drive, fix.plane_of(drive), fixed("C/N0")).position)
    np.testing.assert_array_equal(tracks[0], tracks[1])


def test_a_car_that_stands_has_no_heading() -> None:
    tables = made(70)
    tables.odometry[:, 1] = 0.0
    drive = tables.drive
    with pytest.raises(InvalidInput, match=r"goes 20 m and more in its first 30 s, got 0\.0 m"):
        kalman.start(drive, fix.plane_of(drive))


# Decision


def context_rows(**values: float) -> Rows:
    known = dict.fromkeys(decision.instance().context.columns, 0.0) | values
    x = decision.instance().context.encode([known])
    return Rows(np.zeros(1, dtype=int), np.zeros(1, dtype=int), x)


def test_the_gate_rejects_a_planted_satellite_says_why_and_keeps_the_rest() -> None:
    tables = made(120, noise=0.2)
    bad = tables.pseudoranges
    is_late = (bad[:, 6] == 9) & (bad[:, 0] >= bad[0, 0] + 40.0)
    bad[is_late, 1] += 200.0
    drive = tables.drive
    plane = fix.plane_of(drive)
    truth, late = plane.of(drive.truth), slice(85, None)
    gated, free = (run.follow(drive, plane, fixed("C/N0", gated=one)) for one in (True, False))
    assert (gated.n_used[late] == 11).all()
    assert (free.n_used == 12).all()
    apart = [np.linalg.norm(one.position - truth, axis=1)[late].mean() for one in (gated, free)]
    assert apart[0] < 5.0 < 0.5 * apart[1]


def test_the_gate_names_its_test_and_fails_closed() -> None:
    made_instance = decision.instance()
    gate = made_instance.chain.gates[0]
    e = np.array([[[25.0, 0.0]]])
    for values, says in (
        ({"cn0": 19.0}, "C/N0 of 19 dB-Hz is below 20"),
        ({"cn0": 40.0, "innovation": -37.0, "doubt": 2.0}, "37 m from what was predicted, more"),
    ):
        rows = context_rows(**values)
        left = gate.project(e, rows)  # type: ignore[attr-defined]
        assert np.isnan(left).all()
        assert says in gate.reason(e[0, 0], left[0, 0], rows)
    passed = context_rows(cn0=40.0, innovation=-35.0, doubt=2.0)
    np.testing.assert_array_equal(gate.project(e, passed), e)  # type: ignore[attr-defined]
    assert "within 36 m" in gate.reason(e[0, 0], e[0, 0], passed)
    passed.x[:] = np.nan
    assert np.isnan(gate.project(e, passed)).all()  # type: ignore[attr-defined]


@given(st.floats(0, 60), st.floats(-500, 500), st.floats(0, 100), st.floats(1e-3, 1e6))
@examples(30)
def test_the_gate_treats_every_model_alike(
    cn0: float, innovation: float, doubt: float, variance: float
) -> None:
    gate = decision.SatelliteTest(cn0=0, innovation=1, doubt=2)
    rows = Rows(
        np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.array([[cn0, innovation, doubt]])
    )
    left = gate.project(np.array([[[1.0, 0.0], [variance, 1 / 3]]]), rows)
    assert np.isnan(left[0, 0]).all() == np.isnan(left[0, 1]).all()


def test_models_by_hand_and_back() -> None:
    found = decision.variances(np.array([35.0]), np.array([30.0]), np.array([64.0]))
    # Fading 10; sin² 30° = ¼: 25·10, 16·10 + 9·4.
    np.testing.assert_allclose(found, [[225.0, 64.0, 250.0, 196.0, 250.0]])
    made_instance = decision.instance()
    rows = context_rows(cn0=35.0, elevation=30.0, receiver=64.0)
    phi, delta = made_instance.composition, np.full((1, 5, 1), 2.0)
    actions = phi.compose(made_instance.space, delta, rows.x)
    np.testing.assert_allclose(actions[0, :, 0], 2 * found[0])
    located = phi.locate(made_instance.space, actions, delta, rows.x)
    assert located.arm.tolist() == [[0, 1, 2, 3, 4]]
    np.testing.assert_allclose(located.steps, 0.0, atol=1e-12)
    off = np.array([[[2 * 250 * 1.1, 0.0], [500.0, 0.5], [-1.0, 0.0]]])
    located = phi.locate(made_instance.space, off, delta, rows.x)
    assert located.arm.tolist() == [[2, -1, -1]]
    assert located.steps[0, 0] == pytest.approx(1.0)
    assert phi.lipschitz(made_instance.space, delta, rows.x) == pytest.approx(250.0)


def test_scores_are_log_densities() -> None:
    innovation, variance = np.array([3.0, -1.0]), np.array([4.0, 9.0])
    normal = decision.score(innovation, variance, np.zeros(2))
    np.testing.assert_allclose(normal, stats.norm.logpdf(innovation, scale=np.sqrt(variance)))
    student = decision.score(innovation, variance, np.full(2, 1 / decision.FREEDOM))
    expected = stats.t.logpdf(innovation, decision.FREEDOM, scale=np.sqrt(variance))
    np.testing.assert_allclose(student, expected)


def test_labels_of_the_right_variance_are_nought_on_average() -> None:
    # 20,000 labels of standard deviation 2.22: a mean beyond 0.065 has probability below 1e-4.
    drawn = 7.0 * np.random.default_rng(3).standard_normal(20_000)
    assert abs(decision.labels(drawn, np.full((20_000, 1), 49.0)).mean()) < 0.065


def test_the_first_half_teaches_which_model_is_right_and_that_its_scale_is() -> None:
    # Noise 3 times that of the C/N0 model: log δ should be log 9 on average.
    tables = made(40, dt=1.0, satellites=8)
    rng = np.random.default_rng(5)
    spread = np.sqrt(8 * tables.pseudoranges[:, 2])  # 1 + 8 = 9 times the variance
    tables.pseudoranges[:, 1] += spread * rng.standard_normal(spread.size)
    tables.pseudoranges[:, 2] = 100.0
    drive = tables.drive
    plane, said = fix.plane_of(drive), list[str]()
    gate_open = decision.instance(gated=False, features=("speed",))
    agent = run.learned(drive, plane, 32, gate_open, said.append)
    assert len(said) == 10
    assert len(agent.records) == 10 * 32 * 8
    assert run.best_model(agent) in ("C/N0", "C/N0 + elevation", "C/N0, heavy tails")
    x = gate_open.context.encode([dict.fromkeys(gate_open.context.columns, 6.0)])
    delta = gate_open.scaler.predict(agent.state.scaler, np.zeros(1, dtype=int), x)
    assert abs(np.log(delta[0, 2, 0]) - np.log(9.0)) < 0.5
    before = run.follow(drive, plane, run.Fixed(gate_open, "C/N0"))
    after = run.follow(drive, plane, run.Fixed(gate_open, "C/N0", agent.state))
    assert after.log_density[32:].sum() > before.log_density[32:].sum()


# Score, drawing, command


def test_errors_by_hand() -> None:
    truth, drawn = np.zeros((40, 3)), score.blocks(np.arange(40.0), np.random.default_rng(1), 50)
    assert drawn.shape == (50, 40)
    assert (np.diff(drawn[:, :20], axis=1) % 40 == 1).all()
    one = score.errors(truth + np.array([3.0, 4.0, 12.0]), truth, drawn)
    assert one.median == one.high == (13.0, 13.0, 13.0)
    assert (one.ground, one.ground_high) == (5.0, 5.0)
    other = score.errors(truth + np.array([0.0, 0.0, 10.0]), truth, drawn)
    assert score.less(one, other) == ((3.0, 3.0, 3.0), (3.0, 3.0, 3.0))


def test_a_plane_has_one_scale_and_its_bar_is_true() -> None:
    square = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 200.0], [0.0, 200.0]])
    drawn = plot.plane([plot.Layer("a <b>", square, "c-ink")], "title", "says", "note")
    root = ET.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    line = next(root.iter(f"{space}polyline")).attrib["points"]
    points = np.array([one.split(",") for one in line.split()], dtype=float)
    east, north = points[1] - points[0], points[2] - points[1]
    assert east[0] > 0 > north[1]
    assert -north[1] == pytest.approx(2 * east[0], abs=0.3)
    bar = next(one for one in root.iter(f"{space}line") if one.attrib["class"] == "axis").attrib
    words = [one.text for one in root.iter(f"{space}text")]
    assert {"20 m", "a <b>", "N", "note"} <= set(words)
    assert float(bar["x2"]) - float(bar["x1"]) == pytest.approx(east[0] / 5, abs=0.2)


def test_the_command_prints_its_tables_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, made(34, dt=1.0, satellites=7))
    drawn = tmp_path / "drive.svg"
    monkeypatch.setattr(sys, "argv", ["drive", str(tmp_path), "--plot", str(drawn)])
    command.main()
    out, err = capsys.readouterr()
    assert "33 s, 34 epochs, 238 pseudoranges of GPS, GLONASS; learned on 17 epochs" in out
    assert out.count("| **GDCB** (") == 2
    assert out.count("| filter, C/N0 + elevation |") == 2
    assert "first half, noise models scaled: equal" in err
    assert ET.fromstring(drawn.read_text(encoding="utf-8")).tag.endswith("svg")


def test_the_command_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["drive", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"error: .*expected one file named \*pseudoranges"):
        command.main()
    monkeypatch.setattr(sys, "argv", ["drive", str(tmp_path), "--plot", "no/such/folder/a.svg"])
    with pytest.raises(SystemExit, match="expected a file in a folder that exists"):
        command.main()
