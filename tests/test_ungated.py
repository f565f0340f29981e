"""An instance says which gates stand in its way, and where there are none it says 'ungated'."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import gdcb
from gdcb.cli import instances
from gdcb.cli.app import app
from gdcb.cli.tables import show
from gdcb.declaration import parse
from gdcb.errors import InvalidInput
from gdcb.history.page import certificate_page
from gdcb.instances import NAMES, load
from gdcb.protocol.report.page import report, summary
from gdcb.protocol.report.read import read
from gdcb.protocol.report.words import NO_GATE
from tests import report_document
from tests.certificate_document import build
from tests.page_checks import Page

PARTS: dict[str, Any] = {
    "context": gdcb.Schema({"base": gdcb.Number(1, 1000)}),
    "arms": gdcb.ArmList(values=(0.8, 1.0, 1.2)),
    "composition": gdcb.Multiply(base=("base",), names=("price",)),
    "reward": gdcb.Payoff(outcome=("booked",), action=0),
}
DECLARED = """
name = "shop"
context.base = { type = "number", low = 1, high = 1000 }
arms = { part = "list", values = [0.8, 1.0, 1.2] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
reward = { part = "payoff", outcome = ["booked"], action = 0 }
bandit = { part = "beta-thompson" }
"""


def test_an_instance_must_say_what_its_gate_is() -> None:
    with pytest.raises(TypeError, match="'gate'"):
        gdcb.Instance(**PARTS)
    with pytest.raises(InvalidInput, match=r"gate: expected a gate.*\[\] to run ungated; got None"):
        gdcb.Instance(**PARTS, gate=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("gate", [[], (), gdcb.Chain()], ids=repr)
def test_an_ungated_instance_and_its_decisions_say_so(gate: Any) -> None:
    instance = gdcb.Instance(**PARTS, gate=gate)
    assert repr(instance) == "Instance('instance': 3 arms, Multiply, ConstantScaler, ungated)"
    agent = gdcb.Agent(instance, gdcb.BetaThompson())
    case = agent.decide({"base": 100.0})
    assert case.reason == "ungated: there is no gate"
    assert "ungated" in repr(case)
    assert "ungated" in repr(agent[case.id])
    assert "ungated" in repr(agent)


def test_open_is_no_gate_and_stands_alone() -> None:
    instance = gdcb.Instance(**PARTS, gate=gdcb.Open())
    assert instance.chain == gdcb.Chain()
    assert repr(instance).endswith("ungated)")
    # An agent that was saved when `gate` could be left out is still the same agent.
    learner = gdcb.BetaThompson()
    before = gdcb.Instance(**PARTS, gate=gdcb.Chain())
    assert gdcb.Agent(instance, learner).fingerprint() == gdcb.Agent(before, learner).fingerprint()
    with pytest.raises(InvalidInput, match=r"Open\(\) says that there is no gate; give it alone"):
        gdcb.Chain((gdcb.Open(), gdcb.Bounds(low=1, high=2)))  # type: ignore[arg-type]


def test_a_gated_instance_does_not_say_ungated() -> None:
    instance = gdcb.Instance(**PARTS, gate=gdcb.Bounds(low=1, high=2000))
    assert repr(instance).endswith("bounds)")
    case = gdcb.Agent(instance, gdcb.BetaThompson()).decide({"base": 100.0})
    assert case.reason == "every gate let it pass"


def test_a_file_must_name_its_gates_or_say_that_there_are_none() -> None:
    said = r"shop\.toml: missing gates; name a gate in \[\[gates\]\], or write gates = \[\]"
    with pytest.raises(InvalidInput, match=said):
        parse(DECLARED, where="shop.toml")
    assert parse(f"gates = []\n{DECLARED}").instance.chain.gates == ()


def test_a_text_that_a_ledger_recorded_without_gates_is_still_read() -> None:
    """Old ledgers stay readable: what was recorded ungated in silence stays ungated."""
    assert parse(DECLARED, is_recorded=True).instance.chain.gates == ()


def test_the_command_line_says_ungated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(f"gates = []\n{DECLARED}")
    found = CliRunner().invoke(app, ["validate", str(file)])
    assert "ConstantScaler, ungated, BetaThompson" in " ".join(found.stdout.split())
    file.write_text(DECLARED)
    refused = CliRunner().invoke(app, ["validate", str(file)])
    assert refused.exit_code == 1
    assert "missing gates" in refused.stderr
    assert "gates = [] to run ungated" in " ".join(refused.stderr.split())

    bare = replace(load("str"), instance=replace(load("str").instance, gate=[]))
    monkeypatch.setattr(instances, "load", lambda name: bare)
    listed = CliRunner().invoke(app, ["instances"]).stdout
    assert listed.count("ungated") == len(NAMES)


@pytest.mark.parametrize(("gates", "times"), [([], 1), (None, 0)])
def test_a_certificate_of_an_ungated_instance_says_so(gates: Any, times: int) -> None:
    """Where a document does not tell of gates, nothing is said about them."""
    page = certificate_page(build() | {"gates": gates})
    assert page.count("ungated: proposals run as they are") == times
    box = page[page.index('<section class="verdict') :].split("</section>")[0]
    assert box.count("Ungated: there is no gate, proposals run as they are.") == times
    assert ("There is no gate, so that what is executed" in page) == (times == 1)
    assert ("gets through the gates" in page) == (times == 0)


@pytest.mark.parametrize(("gate", "times"), [("ungated", 1), ("manager → bounds", 0)])
def test_a_run_of_an_ungated_instance_says_so(gate: str, times: int) -> None:
    """At the top of the report and beneath the table, instead of a gate floor of 0."""
    document = report_document.build()
    document["specification"] = [["g", "gate", gate]]
    top = " ".join(summary(read(document)))
    assert top.count(NO_GATE) == times
    assert ("is the gate floor" in top) == (times == 0)
    out = Console(file=StringIO(), width=100)
    show(document, Path("out"), out)
    said = " ".join(str(out.file.getvalue()).split())  # type: ignore[attr-defined]
    assert said.count(NO_GATE) == times
    assert ("Gate floor" in said) == (times == 0)
    assert ("behind the gate" in said) == (times == 0)
    page = Page(report(document)).text
    assert page.count("There is no gate: whatever GDCB proposed ran as it was.") == times
    assert ("The gate changed" in page) == (times == 0)
    assert "loses to no rival behind" not in page or not times


def test_a_gate_without_a_limit_does_not_close_a_chain() -> None:
    """It would let a person's own number run, whatever it is: -1e9 did."""
    with pytest.raises(InvalidInput, match="gate 'bounds': expected low, high or both"):
        gdcb.Instance(**PARTS, gate=[gdcb.Approval(name="m"), gdcb.Bounds()])
    for make in (gdcb.Cap, gdcb.PolicyFilter, gdcb.Shield):
        with pytest.raises(InvalidInput, match=r"expected limit|expected denied|what is safe"):
            make()
    assert gdcb.Bounds(low_column="base") != gdcb.Bounds(high_column="base")
    assert gdcb.Cap(limit_column="base").limit == float("inf")


@pytest.mark.parametrize(
    "gate",
    [
        '{ part = "bounds" }',
        '{ part = "bounds", low = -inf, high = inf }',
        '{ part = "cap" }',
        '{ part = "cap", limit = inf }',
        '{ part = "cap", limit = nan }',
    ],
)
def test_a_declared_gate_without_a_limit_is_refused_and_a_recorded_one_read(gate: str) -> None:
    """A ledger that recorded such a gate can still be opened; its gate limits nothing, as then."""
    text = f'gates = [{{ part = "approval" }}, {gate}]\n{DECLARED}'
    with pytest.raises(InvalidInput, match=r"without|got nan"):
        parse(text)
    read = parse(text, is_recorded=True).instance.chain.gates[1]
    assert math.inf not in (getattr(read, "low", 0.0), -getattr(read, "limit", 0.0))
    rows = gdcb.records.Rows(np.zeros(1, int), np.zeros(1, int), np.ones((1, 1)))
    if "nan" not in gate:
        assert read.apply(None, np.array([[-1e9]]), rows)[0].tolist() == [[-1e9]]


OLD = """
context.base = { type = "number", low = 1, high = 1000 }
arms = { part = "list", names = ["a", "b"] }
composition = { part = "%s" }
gates = [%s]
bandit = { part = "gaussian-thompson" }
"""


@pytest.mark.parametrize(
    ("composition", "gate"), [("identity", '{ part = "policy" }'), ("multiply", "")]
)
def test_a_recorded_declaration_is_read_though_a_new_one_would_be_refused(
    composition: str, gate: str
) -> None:
    """Ledgers that began before these were refused could not be opened any more."""
    text = OLD % (composition, gate)
    with pytest.raises(InvalidInput, match=r"without a rule|expects numbers"):
        parse(text)
    read = parse(text, is_recorded=True)
    agent = gdcb.Agent(read.instance, read.bandit, seed=1)
    agent.decide({"base": 3.0}, id="d1")
    assert gdcb.Agent(read.instance, read.bandit, seed=1).fingerprint() == agent.fingerprint()
    with pytest.raises(InvalidInput):  # and only while a recorded one is read
        parse(text)
