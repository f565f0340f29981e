"""What a newcomer gets wrong in the first hour: it works, or the message says what to write."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import gdcb
from gdcb.cli.app import app
from gdcb.errors import InvalidInput, UnknownField

EXAMPLE = Path(__file__).parents[1] / "examples" / "listing.toml"


def shop(**parts: Any) -> gdcb.Instance:
    """Return a shop with a limit on its price."""
    settings: dict[str, Any] = {
        "context": gdcb.Schema({"base": gdcb.Number(50, 200), "late": gdcb.Flag()}),
        "arms": gdcb.ArmList(values=(0.9, 1.0, 1.1)),
        "composition": gdcb.Multiply(base=("base",), names=("price",)),
        "gate": gdcb.Bounds(low=40, high=300),
        "reward": gdcb.Payoff(outcome=("booked",), action=0),
    }
    return gdcb.Instance(**settings | parts)


def log(n: int = 60) -> pl.DataFrame:
    """Return a log in which arms were drawn."""
    rng = np.random.default_rng(0)
    base = rng.uniform(60, 150, n)
    price = base * rng.choice([0.9, 1.0, 1.1], n)
    late, booked = rng.random(n) < 0.5, rng.integers(0, 2, n)
    return pl.DataFrame({"base": base, "late": late, "price": price, "booked": booked})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("batch = -1", "service.batch: Input should be greater than or equal to 1"),
        ("btch = 10", "service.btch: Extra inputs are not permitted"),
        ('personal = ["nobody"]', "service.personal: no context field 'nobody'"),
    ],
)
def test_validate_reads_the_service_as_serve_does(tmp_path: Path, table: str, said: str) -> None:
    file = tmp_path / "shop.toml"
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "[service]" not in text
    file.write_text(f"{text}\n[service]\nbatch = 10\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["validate", str(file)]).exit_code == 0
    file.write_text(f"{text}\n[service]\n{table}\n", encoding="utf-8")
    found = CliRunner().invoke(app, ["validate", str(file)])
    assert found.exit_code == 1
    assert said in " ".join(found.stderr.split())


def test_a_row_of_a_frame_or_of_a_database_is_a_context() -> None:
    """One row gives one case, the same as its dictionary; a list of rows a list."""
    agent = gdcb.Agent(shop(), gdcb.BetaThompson())
    frame = pd.DataFrame({"base": [90.0, 120.0], "late": [True, False]})
    case = agent.decide(frame.iloc[0], id="a")
    assert case == agent.decide({"base": 90.0, "late": True}, id="a")
    assert len(agent.decide([frame.iloc[0], frame.iloc[1]])) == 2
    assert len(agent.decide(frame)) == 2
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row = connection.execute("SELECT 90.0 AS base").fetchone()
    connection.close()
    plain = gdcb.Agent(shop(context=gdcb.Schema({"base": gdcb.Number(50, 200)})), agent.bandit)
    assert plain.decide(row).arm in ("0.9", "1", "1.1")
    with pytest.raises(InvalidInput, match=r"for one row, give dict\(row\)"):
        agent.decide(90.0)  # type: ignore[call-overload]


def test_log_columns_come_as_a_dictionary_too() -> None:
    """A bare name is the one column of a part; an unknown part is named."""
    given = log().rename({"price": "charged"})
    agent = gdcb.Agent(shop(), gdcb.BetaThompson())
    with pytest.raises(UnknownField, match="columns: no part acton; there are context, action"):
        agent.warm_up(given, columns={"acton": "charged"})
    with pytest.raises(InvalidInput, match="columns: expected LogColumns, or a dictionary"):
        agent.warm_up(given, columns="charged")  # type: ignore[arg-type]
    certificate = agent.warm_up(given, columns={"action": "charged"})
    assert certificate.as_json()["columns"]["roles"]["action"] == ["charged"]


def test_a_certificate_says_which_columns_were_guessed() -> None:
    """By name alone: all parts, and with columns given only the others."""
    agent = gdcb.Agent(shop(), gdcb.BetaThompson())
    found = agent.warm_up(log())
    said = "found by name: context base and late; action price; outcome booked."
    assert said in str(found)
    assert found.as_json()["columns"]["by_name"] == ["context", "action", "outcome"]
    again = gdcb.Agent(shop(), gdcb.BetaThompson())
    named = {"context": {"base": "base", "late": "late"}, "action": "price", "outcome": "booked"}
    assert "found by name" not in str(again.warm_up(log(), columns=named))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: gdcb.Agent(shop()), "Agent: expected a bandit, for example gdcb.CurveThompson()"),
        (
            lambda: gdcb.Agent(shop(reward=gdcb.Scaled()), gdcb.CurveThompson()),
            'learn a reward; give it reward=Payoff(outcome=("booked",), action=0)',
        ),
        (
            lambda: gdcb.RidgeScaler(features="occupancy"),  # type: ignore[arg-type]
            """expected a tuple of names, got 'occupancy'; write ("occupancy",)""",
        ),
        (
            lambda: gdcb.ArmList(names="ab"),  # type: ignore[arg-type]
            """arms.names: expected a tuple of names, got 'ab'; write ("ab",)""",
        ),
        (
            lambda: gdcb.RidgeScaler(features=("a",), centre=(1.0, 2.0)).init(1),
            "scaler.centre: expected 1 number, one a feature, got 2",
        ),
        (
            lambda: gdcb.Bounds(low=float("nan"), high=300),
            "gate 'bounds': low: expected a number, got NaN",
        ),
    ],
)
def test_a_message_says_what_to_write(build: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        build()
