"""A warm δ̂ learns from rows that the certificate lets it use, and stays within what ran."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import gdcb
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.cli.app import app
from gdcb.delta_limits import limits_of
from gdcb.log_columns import LogColumns
from gdcb.records import Rows, from_bytes, to_bytes
from gdcb.round import RoundState
from gdcb.scalers import FittedEstimator

ARMS = (0.8, 0.9, 1.0, 1.1, 1.2)


def shop(scaler: Any, **changes: Any) -> gdcb.Instance:
    """Return price = base · δ · a with five arms, ungated."""
    parts: dict[str, Any] = {
        "context": gdcb.Schema({"base": gdcb.Number(1, 1000), "lead": gdcb.Number(-100, 100)}),
        "arms": gdcb.ArmList(values=ARMS),
        "composition": gdcb.Multiply(base=("base",), names=("price",)),
        "scaler": scaler,
        "gate": [],
        "reward": gdcb.Payoff(outcome=("booked",), action=0),
    }
    return gdcb.Instance(**(parts | changes))


def by_outcomes(**settings: Any) -> gdcb.LogLinearScaler:
    return gdcb.LogLinearScaler(factors={"lead": ("lead",)}, centre=(0.0,), **settings)


def by_labels() -> gdcb.RidgeScaler:
    return gdcb.RidgeScaler(features=("lead",), penalty=1.0, every=20)


def bookings(n: int, pull: float, slope: float, seed: int = 0, tail: float = 1.0) -> pl.DataFrame:
    """Return random arms and P(booked) = σ(1 − slope·log e + pull·lead): log δ = pull/slope·lead.

    `lead` is N(0, 1)·tail^|N|: with a tail above 1 some contexts lie far out.
    """
    rng = np.random.default_rng(seed)
    lead = np.clip(rng.normal(size=n) * tail ** np.abs(rng.normal(size=n)), -100, 100)
    base, e = rng.uniform(80, 120, n), rng.choice(ARMS, n)
    p = 1.0 / (1.0 + np.exp(-(1.0 - slope * np.log(e) + pull * lead)))
    booked = (rng.random(n) < p).astype(int)
    return pl.DataFrame({"base": base, "lead": lead, "price": base * e, "booked": booked})


def delta_at(agent: gdcb.Agent, lead: Array) -> Array:
    x = np.stack((np.full(lead.size, 100.0), lead), axis=1)
    rows = Rows(np.zeros(lead.size, dtype=np.int64), np.zeros(lead.size, dtype=np.int64), x)
    return turn.scale(agent.instance, agent.state, rows)[0][:, 0, 0]


LEADS = np.linspace(-100.0, 100.0, 201)


def test_a_warm_delta_stays_within_what_ran() -> None:
    """Arms 0.8 to 1.2 ran: 0.8/0.9 ≤ δ ≤ 1.2/1.1, so that four of five arms stay within it.

    The truth is log δ = 0.3·lead, and |lead| goes to 100: unclipped that is e^30.
    """
    frame = bookings(4_000, pull=1.8, slope=6.0)
    agent = gdcb.Agent(shop(by_outcomes()), gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(frame)
    assert certificate.verdict != "refuse"
    delta = delta_at(agent, LEADS)
    assert delta.min() == pytest.approx(0.8 / 0.9)
    assert delta.max() == pytest.approx(1.2 / 1.1)
    assert np.all(np.diff(delta) >= 0)
    assert delta_at(agent, np.array([0.1]))[0] == pytest.approx(np.exp(0.03), rel=0.05)
    price = [agent.decide({"base": 100, "lead": lead}).executed for lead in LEADS[::10]]
    relative = np.array([one["price"] / 100 for one in price if one is not None])
    assert relative.min() >= 0.8 * 0.8 / 0.9 - 1e-9
    assert relative.max() <= 1.2 * 1.2 / 1.1 + 1e-9
    line = certificate.as_json()["scaler"]
    assert line["is_taught"]
    assert line["columns"][0]["ran"] == pytest.approx({"low": 0.8 / 0.9, "high": 1.2 / 1.1})
    true = np.exp(0.3 * frame["lead"].to_numpy())
    assert line["outside"] == pytest.approx(
        ((true < 0.8 / 0.9) | (true > 1.2 / 1.1)).mean(), abs=0.1
    )
    assert line["actions_outside"] <= 1 / 5
    assert "clipped" in line["says"]
    assert line["says"] in str(certificate)


def test_where_there_is_room_every_arm_stays_within_what_ran() -> None:
    """Prices of half to twice the base ran: 0.5/0.8 ≤ δ ≤ 2/1.2, up to 0.1 % of the rows."""
    rng = np.random.default_rng(4)
    n = 4_000
    lead, base = rng.normal(size=n), rng.uniform(80, 120, n)
    e = np.exp(rng.uniform(np.log(0.5), np.log(2.0), n))
    p = 1.0 / (1.0 + np.exp(-(1.0 - 3.0 * np.log(e) + 3.0 * lead)))
    frame = pl.DataFrame(
        {"base": base, "lead": lead, "price": base * e, "booked": (rng.random(n) < p).astype(int)}
    )
    agent = gdcb.Agent(shop(by_outcomes()), gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(frame)
    assert certificate.verdict != "refuse"
    delta = delta_at(agent, LEADS)
    assert delta.min() == pytest.approx(0.5 / 0.8, rel=0.005)
    assert delta.max() == pytest.approx(2.0 / 1.2, rel=0.005)
    cases = [agent.decide({"base": 100, "lead": one}).executed for one in LEADS[::5]]
    ran = np.array([case["price"] / 100 for case in cases if case is not None])
    assert e.min() <= ran.min() <= ran.max() <= e.max()
    assert certificate.as_json()["scaler"]["actions_outside"] == 0.0


def test_rows_at_refused_arms_do_not_teach_the_scaler() -> None:
    """Four of five arms ran 15 times, with labels log δ = lead; arm 1 says 0 in 3,000 rows.

    The slope of all labels is about 60/3,060 = 0.02, that of arm 1 alone 0.
    """
    rng = np.random.default_rng(3)
    e = np.concatenate((np.ones(3_000), np.repeat((0.8, 0.9, 1.1, 1.2), 15)))
    lead = np.clip(rng.normal(size=e.size), -2.0, 2.0)
    label = np.where(e == 1.0, 0.0, lead)
    base = rng.uniform(80, 120, e.size)
    frame = pl.DataFrame(
        {
            "base": base,
            "lead": lead,
            "price": base * e,
            "booked": (rng.random(e.size) < 0.5).astype(int),
            "label": label,
        }
    )
    agent = gdcb.Agent(shop(by_labels()), gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(frame, columns=LogColumns(label=("label",)))
    judged = [arm.verdict for arm in certificate.arms]
    assert judged.count("refuse") == 4
    theta = agent.state.scaler.theta[0, 0]
    assert abs(theta[1]) < 1e-12
    line = certificate.as_json()["scaler"]
    assert line["rows"] == {"used": 3_000, "of": 3_060}


def test_where_everything_is_refused_the_scaler_stays_at_its_prior() -> None:
    agent = gdcb.Agent(shop(by_outcomes()), gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(bookings(60, pull=1.8, slope=6.0))
    assert certificate.verdict == "refuse"
    assert np.array_equal(delta_at(agent, LEADS), np.ones(LEADS.size))
    line = certificate.as_json()["scaler"]
    assert not line["is_taught"]
    assert line["rows"] == {"used": 0, "of": 60}
    assert line["says"] == "The scaler stays at its prior: the certificate lets it use no row."


NEAR = gdcb.Schema({"base": gdcb.Number(1, 1000), "lead": gdcb.Number(-10, 10)})


def test_a_log_without_labels_is_said_to_have_none() -> None:
    agent = gdcb.Agent(shop(by_labels()), gdcb.BetaThompson(), seed=1)
    line = agent.warm_up(bookings(1_000, pull=0.0, slope=6.0).drop("label", strict=False))
    said = "The scaler stays at its prior: no row of the log has what it learns from."
    limits = "what ran allows 0.889 to 1.09, and elsewhere it is clipped there."
    assert line.figures["scaler"]["says"].startswith(said)
    assert line.figures["scaler"]["says"].endswith(limits)


def by_model() -> gdcb.EstimatorScaler:
    """Return δ = exp(lead/2), as a model that was fitted elsewhere has it."""
    lead = np.linspace(-2.0, 2.0, 9)[:, None]
    # Asked for many rows at once: one at a time takes most of a test.
    model = FittedEstimator.of(Ridge(1e-9).fit(lead, 0.5 * lead), lead, by_row=False)
    return gdcb.EstimatorScaler(features=("lead",), estimator=model)


def test_a_prior_that_knows_more_is_clipped_to_what_ran_too() -> None:
    """The model's δ goes from 0.2 to 6; 0.8 to 1.2 ran, so that 0.8/0.9 ≤ δ ≤ 1.2/1.1."""
    agent = gdcb.Agent(shop(by_model(), context=NEAR), gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(bookings(2000, pull=0.1, slope=2.0))
    assert certificate.verdict != "refuse"
    delta = delta_at(agent, LEADS)
    assert [delta.min(), delta.max()] == pytest.approx([0.8 / 0.9, 1.2 / 1.1], rel=1e-3)
    line = certificate.as_json()["scaler"]
    assert line["columns"][0]["ran"]["high"] == pytest.approx(1.2 / 1.1, rel=1e-3)
    assert line["outside"] > 0.5
    assert "what ran allows 0.889 to 1.09. It lies outside in 8" in line["says"]
    assert line["says"].endswith("of the contexts and is clipped there.")


def test_a_refused_log_says_how_often_the_prior_leaves_what_ran() -> None:
    agent = gdcb.Agent(shop(by_model(), context=NEAR), gdcb.BetaThompson(), seed=1)
    certificate = agent.warm_up(bookings(60, pull=1.8, slope=6.0))
    assert certificate.verdict == "refuse"
    line = certificate.as_json()["scaler"]
    assert line["outside"] > 0.5
    assert line["actions_outside"] > 0.3
    assert "is not clipped there, because a refused log is not imported" in line["says"]


def worked(agent: gdcb.Agent, n: int, seed: int = 5) -> None:
    """Let an agent run its highest arm and learn, at the upper end of the contexts."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        case = agent.decide({"base": 100, "lead": float(rng.uniform(1, 3))}, mask=["1.2"])
        agent.observe(case.id, {"booked": float(rng.random() < 0.9)})


def test_what_runs_widens_the_limits_at_the_next_publication(tmp_path: Path) -> None:
    """δ = 1.2/1.1 and the arm 1.2 make 1.31; once that ran, δ may go to 1.31/1.1 = 1.19."""
    instance, bandit = shop(by_outcomes(every=30)), gdcb.BetaThompson()
    agent = gdcb.Agent(instance, bandit, seed=1)
    agent.warm_up(bookings(3_000, pull=3.0, slope=6.0))
    first, top = 1.2 / 1.1, np.array([50.0])
    assert delta_at(agent, top)[0] == pytest.approx(first)
    worked(agent, 29)
    dearest = max(
        one["price"] / 100
        for one in (agent[id].executed for id in agent.records)
        if one is not None
    )
    assert delta_at(agent, top)[0] == pytest.approx(first), "between publications δ stays"
    worked(agent, 1, seed=6)
    assert delta_at(agent, top)[0] == pytest.approx(max(first, dearest / 1.1), rel=1e-6)
    assert dearest > 1.2 + 1e-6
    agent.save(tmp_path / "agent.gdcb")
    loaded = gdcb.Agent.load(tmp_path / "agent.gdcb", instance, bandit)
    assert to_bytes(loaded.state) == to_bytes(agent.state)
    again = gdcb.Agent.replay(agent.events, instance, bandit, seed=1)
    assert to_bytes(again.state) == to_bytes(agent.state)


@pytest.mark.parametrize("way", [100.0, 0.01])
def test_one_mistyped_action_opens_the_limits_by_one_step(way: float) -> None:
    """Arms 0.8, 1 and 1.2 that ran; then 100 times the base, or a hundredth of it, runs once."""
    instance = shop(by_outcomes(), arms=gdcb.ArmList(values=(0.8, 1.0, 1.2)))
    base = np.full((600, 1), 100.0)
    x = np.concatenate((base, np.linspace(0.0, 3.0, 600)[:, None]), axis=1)
    action = base * np.tile([0.8, 1.0, 1.2], 200)[:, None]
    limits = limits_of(instance, action, x, np.ones(600, dtype=bool))
    assert [limits.low.item(), limits.high.item()] == pytest.approx([0.8, 1.2])
    one = np.zeros(1, dtype=np.int64)
    for n in (1, 2):  # each publication, by a step
        typed = np.array([[100.0 * way]])
        limits.watch(instance, one, typed, x[:1], np.ones(1, dtype=bool))
        limits.widen(one)
        assert limits.high.item() == pytest.approx(1.2 ** (1 + n * (way > 1)))
        assert limits.low.item() == pytest.approx(0.8 ** (1 + n * (way < 1)))


def test_a_state_from_before_there_were_limits_is_read() -> None:
    instance = shop(by_outcomes())
    state = gdcb.Agent(instance, gdcb.BetaThompson(), seed=1).state

    names = [name for name in RoundState.__dataclass_fields__ if name != "limits"]
    old = dataclasses.make_dataclass("RoundState", names)(*(getattr(state, n) for n in names))
    read = from_bytes(to_bytes(old), state)
    assert to_bytes(read) == to_bytes(state)
    assert not read.limits.is_set.any()


def test_the_scaler_has_a_line_on_console_page_and_in_the_document(tmp_path: Path) -> None:
    log, file, page = (tmp_path / name for name in ("log.csv", "shop.toml", "page.html"))
    bookings(2_000, pull=1.8, slope=6.0).write_csv(log)
    file.write_text(
        """
gates = []
[context]
base = { type = "number", low = 1, high = 1000 }
lead = { type = "number", low = -100, high = 100 }
[arms]
part = "list"
values = [0.8, 0.9, 1.0, 1.1, 1.2]
[composition]
part = "multiply"
base = ["base"]
names = ["price"]
[scaler]
part = "log-linear"
factors = { lead = ["lead"] }
centre = [0.0]
[reward]
part = "payoff"
outcome = ["booked"]
action = 0
[bandit]
part = "beta-thompson"
"""
    )
    call = ["check", str(log), "--instance", str(file), "--out", str(page)]
    ran = CliRunner().invoke(app, call)
    assert ran.exit_code == 0, ran.output
    document = json.loads(page.with_suffix(".json").read_text())
    says = document["scaler"]["says"]
    assert says.startswith("The scaler learned from 2,000 of 2,000 rows.")
    assert says in " ".join(ran.output.split())
    assert "what ran allows" in page.read_text()
    assert ">Scaler<" in page.read_text()
