"""Logs with many arms and columns: bounded work, and the reason of every refusal is said."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.special  # noqa: F401  (loaded before memory is traced)
from typer.testing import CliRunner

import gdcb
from gdcb.analysis.ratio import variance_ratio
from gdcb.arrays import Array
from gdcb.cli.app import app
from gdcb.history import leakage, open_log, read, relations
from gdcb.history.certification import certify
from gdcb.history.columns import look
from gdcb.history.infer import propose
from gdcb.history.roles import roles_of


def wide(
    n: int, arms: int, columns: int, chance: Callable[[Array, Array], Array], seed: int = 0
) -> tuple[gdcb.Instance, pl.DataFrame]:
    """Return categories drawn at random, and a 0/1 outcome with probability chance(arm, x)."""
    rng = np.random.default_rng(seed)
    x, arm = rng.normal(size=(n, columns)), rng.integers(0, arms, n)
    sold = (rng.random(n) < chance(arm, x)).astype(int)
    names, levels = [f"c{i}" for i in range(columns)], [f"a{i}" for i in range(arms)]
    instance = gdcb.Instance(
        context=gdcb.Schema({name: gdcb.Number(-10, 10) for name in names}),
        arms=gdcb.ArmList(names=tuple(levels)),
        composition=gdcb.Identity(name="offer", severity=False),
        gate=[],
        reward=gdcb.Payoff(outcome=("sold",)),
    )
    read = {name: x[:, i] for i, name in enumerate(names)}
    return instance, pl.DataFrame({**read, "offer": [levels[a] for a in arm], "sold": sold})


def test_the_variance_ratio_of_many_arms_and_columns_stays_small() -> None:
    """31·21 = 651 coefficients need 100 blocks · 651² · 8 bytes = 339 MB, twice; 120 need 12 MB."""
    rng = np.random.default_rng(0)
    x, arm = rng.normal(size=(2_000, 20)), rng.integers(0, 30, 2_000)
    reward = (arm == 7) * (1.0 + x[:, 3]) + (arm == 9) + 0.1 * rng.normal(size=2_000)
    tracemalloc.start()
    try:
        found = variance_ratio(x, arm, reward, 30, draws=2, splits=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6, f"{peak / 1e6:.0f} MB"
    assert {found.best, found.rival} == {7, 9}
    assert found.as_json()["asked"]["of_arms"] == 30
    assert found.n_arms == 8
    assert "8 of 30 arms" in found.advice


def test_a_bounded_ratio_is_that_of_the_arms_that_matter() -> None:
    """D = x₃ between the two best arms, noise 0.5²: a ratio of 4, whatever else stands beside."""
    rng = np.random.default_rng(1)
    n = 9_000
    x, arm = rng.normal(size=(n, 20)), rng.integers(0, 12, n)
    reward = 1.0 * (arm < 2) + (arm == 0) * x[:, 3] + 0.5 * rng.normal(size=n)
    found = variance_ratio(x, arm, reward, 12, draws=20, splits=2)
    assert {found.best, found.rival} == {0, 1}
    assert found.low < 4.0 < found.high
    assert 3.0 < found.ratio < 5.0
    assert found.n_columns < 20


def test_a_small_history_is_asked_whole() -> None:
    rng = np.random.default_rng(2)
    x, arm = rng.normal(size=(600, 2)), rng.integers(0, 3, 600)
    found = variance_ratio(x, arm, rng.normal(size=600), 3, draws=5)
    assert (found.n_arms, found.of_arms, found.n_columns, found.of_columns) == (3, 3, 2, 2)
    assert found.n_rows == 600
    assert "To bound the work" not in found.advice


def test_a_certificate_that_refuses_every_arm_says_why() -> None:
    """600 rows of 58 arms: about ten rows an arm, and 20 are needed."""
    instance, frame = wide(600, 58, 4, lambda arm, x: np.full(arm.size, 0.4))
    agent = gdcb.Agent(instance, gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(frame)
    assert certificate.verdict == "refuse"
    why = [said for said in certificate.reasons if "fewer than 20" in said]
    assert len(why) == 1
    assert why[0].startswith("Refused for too few rows: arms a0, a1,")
    assert why[0] in str(certificate)
    assert len(certificate.refusals["rows"]) == 58
    assert certificate.as_json()["refusals"] == certificate.refusals


def test_the_console_and_the_page_say_why_arms_are_refused(tmp_path: Path) -> None:
    log, file, page = (tmp_path / name for name in ("log.csv", "wide.toml", "page.html"))
    wide(200, 30, 1, lambda arm, x: np.full(arm.size, 0.4))[1].write_csv(log)
    names = ", ".join(f'"a{i}"' for i in range(30))
    file.write_text(f"""
gates = []
[context]
c0 = {{ type = "number", low = -10, high = 10 }}
[arms]
part = "list"
names = [{names}]
[composition]
part = "identity"
name = "offer"
severity = false
[reward]
part = "payoff"
outcome = ["sold"]
[bandit]
part = "beta-thompson"
""")
    ran = CliRunner().invoke(app, ["check", str(log), "--instance", str(file), "--out", str(page)])
    assert ran.exit_code == 3, ran.output
    assert "Refused for too few rows: arms a0, a1," in " ".join(ran.output.split())
    assert "Refused for too few rows: arms a0, a1," in page.read_text()


def priced(columns: int, n: int = 400) -> tuple[gdcb.Instance, pl.DataFrame]:
    """Return prices of three rates on a base, beside columns that know nothing."""
    rng = np.random.default_rng(0)
    base, rate = rng.uniform(50, 150, n), rng.choice([0.9, 1.0, 1.1], n)
    x = {f"c{i}": rng.normal(size=n) for i in range(columns)}
    instance = gdcb.Instance(
        context=gdcb.Schema(
            {**{name: gdcb.Number(-10, 10) for name in x}, "base": gdcb.Number(1, 1000)}
        ),
        arms=gdcb.ArmList(values=(0.9, 1.0, 1.1)),
        composition=gdcb.Multiply(base=("base",), names=("price",)),
        gate=[],
        reward=gdcb.Payoff(outcome=("sold",), action=0),
    )
    sold = (rng.random(n) < 0.3).astype(int)
    return instance, pl.DataFrame({**x, "base": base, "price": base * rate, "sold": sold})


@pytest.mark.parametrize(("columns", "pairs"), [(99, 99 * 99), (400, 99 * 99)])
def test_columns_are_compared_in_a_bounded_number_of_pairs(
    columns: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the base they are 100, or 401; each but the base is held against 99 others.

    A service certifies logs of up to 1,000 columns: 12 minutes of a processor.
    """
    tried = []

    def moves_with(*given: object) -> float:
        tried.append(given)
        return 0.0

    monkeypatch.setattr(leakage, "makes_up", lambda *_: False)
    monkeypatch.setattr(leakage, "moves_with", moves_with)
    instance, frame = priced(columns)
    report = read(frame, instance)[1]
    assert len(tried) == pairs
    said = [one for one in report.warnings if "compared in pairs" in one]
    whole = (
        "Only the 100 of 401 context columns that tell most of the action or the outcome were "
        "compared in pairs: another column may be made of the action and a second column."
    )
    assert said == [whole] * (columns > 99)


def test_of_many_columns_those_are_compared_that_tell_of_the_action(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leakage, "COMPARED", 5)
    instance, frame = priced(40)
    frame = frame.with_columns(c17=pl.col("price") / pl.col("base"))
    certificate = certify(open_log(frame, instance), instance, gdcb.BetaThompson())
    for said in (
        "The context column 'c17' is made of the executed 'price' and 'base'",
        "Only the 5 of 41 context columns that tell most of the action or the outcome",
    ):
        assert len([one for one in certificate.as_json()["leaks"] if said in one]) == 1


@pytest.mark.soak
def test_58_arms_and_44_columns_at_full_size() -> None:
    """58 arms × 20,000 rows within 60 s, 34 arms × 44 columns × 20,000 rows within 1.5 GB.

    Python's allocations are traced in the second case only: tracing takes time.
    """
    import time

    instance, frame = wide(20_000, 58, 12, lambda arm, x: 0.3 + 0.1 * np.tanh(x[:, 0]))
    log, start = open_log(frame, instance), time.perf_counter()
    certify(log, instance, gdcb.BetaThompson())
    assert time.perf_counter() - start < 60.0
    instance, frame = wide(20_000, 34, 44, lambda arm, x: 0.3 + 0.1 * np.tanh(x[:, 0]))
    log = open_log(frame, instance)
    tracemalloc.start()
    try:
        certify(log, instance, gdcb.BetaThompson())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5e9, f"{peak / 1e9:.2f} GB"


def test_pairs_of_columns_are_compared_once_and_on_some_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """122 columns took 55 s: each pair was worked out twice, its codes on all rows."""
    rng, n, k = np.random.default_rng(0), 6_000, 8
    base = rng.uniform(50, 150, n).round(2)
    columns = {f"c{j}": rng.integers(0, 20, n).astype(float) for j in range(k)}
    price = (base * rng.choice([0.9, 1.0, 1.1], n)).round(2)
    sold = (rng.random(n) < 0.3).astype(int)
    log = look(pl.DataFrame({"price": price, "sold": sold, "list_price": base} | columns))
    asked: list[tuple[float, float]] = []
    rows: list[int] = []
    medians: list[int] = []

    def moves_with(column: Array, action: Array, other: Array, is_kind: bool = False) -> float:
        asked.append((float(column.sum()), float(other.sum())))
        return moves(column, action, other, is_kind)

    def names_action(column: Array, action: Array, other: Array, most: float | None = None) -> bool:
        rows.append(column.size)
        return names(column, action, other, most)

    def nanmedian(column: Array) -> float:
        medians.append(column.size)
        return float(median(column))

    moves, names, median = relations.moves_with, relations.names_action, np.nanmedian
    monkeypatch.setattr(np, "nanmedian", nanmedian)
    monkeypatch.setattr("gdcb.history.pairs.moves_with", moves_with)
    monkeypatch.setattr("gdcb.history.pairs.names_action", names_action)
    propose(log, roles_of(log, {}))
    assert len(asked) > 0
    assert len(asked) == len(set(asked))
    assert len(rows) > 0
    assert max(rows) <= 1_000
    assert len(medians) <= k + 3
