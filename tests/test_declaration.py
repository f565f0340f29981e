"""Instances from TOML: whole files build, broken ones say where and what."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pydantic
import pytest

from gdcb import Agent
from gdcb.declaration import GROUPS, parse, read, read_toml, registered
from gdcb.errors import InvalidInput, UnknownField, UnknownPart
from gdcb.gates import Approval, Bounds, Hold, NumberKernel
from gdcb.scalers import RidgeScaler

EXAMPLE = (Path(__file__).parents[1] / "examples" / "listing.toml").read_text(encoding="utf-8")


def test_the_example_builds_what_it_says() -> None:
    """Parts, settings and bound columns are those of the file."""
    declared = parse(EXAMPLE)
    instance = declared.instance
    scaler = instance.scaler
    assert isinstance(scaler, RidgeScaler)
    assert scaler.features == (0, 1, 2)
    assert scaler.centre == (0.536, 0.5, 0.2)
    assert instance.space.n == 25
    approval, bounds = instance.chain.gates
    assert isinstance(approval, Approval)
    assert isinstance(approval.person, Hold)
    assert isinstance(approval.kernel, NumberKernel)
    assert isinstance(bounds, Bounds)
    assert (bounds.low, bounds.high) == (40.0, 420.0)


def test_an_agent_runs_on_a_declared_instance() -> None:
    """The file is enough to decide, resolve and observe."""
    declared = parse(EXAMPLE)
    agent = Agent(declared.instance, declared.bandit, seed=3)
    case = agent.decide({"occupancy": 0.5, "lead": 0.1, "gap": False, "base": 100})
    assert case.status == "held"
    case = agent.resolve(case.id, "approve")
    assert agent.observe(case.id, {"booked": 0})


def test_what_checks_a_type_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh checker for each of 7,000 values took seconds."""
    made: list[str] = []
    adapter = pydantic.TypeAdapter

    def counted(hint: Any) -> Any:
        made.append(str(hint))
        return adapter(hint)

    monkeypatch.setattr(pydantic, "TypeAdapter", counted)
    columns = "\n".join(f'c{i} = {{ type = "number", low = 0, high = 1 }}' for i in range(200))
    parse(EXAMPLE.replace("[arms]", f"{columns}\n[arms]"))
    assert len(made) == len(set(made))


def test_every_group_has_registered_parts() -> None:
    """Built-in parts are registered as anybody's would be."""
    for kind in GROUPS:
        assert registered(kind)


def test_infinite_limits_may_be_written() -> None:
    """TOML has inf."""
    text = EXAMPLE.replace("high = 420", "high = inf")
    assert parse(text).instance.chain.gates[1].high == math.inf  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("bandit", "said"),
    [
        ('"beta-thompson"', 'bandit: expected a table such as { part = "beta-thompson" }, got'),
        ("7", 'bandit: expected a table such as { part = "banded-thompson" }, got 7'),
        (
            '{ part = "stacked-thompson", members = ["curve-thompson"] }',
            'bandit.members[0]: expected a table such as { part = "curve-thompson" }, got',
        ),
    ],
)
def test_a_bare_name_is_shown_the_table_it_belongs_in(bandit: str, said: str) -> None:
    """The message can be copied into the file."""
    text = f"""
    context.base = {{ type = "number", low = 1, high = 9 }}
    arms = {{ part = "list", values = [0.9, 1.1] }}
    composition = {{ part = "multiply", base = ["base"], names = ["price"] }}
    gates = []
    bandit = {bandit}
    """
    with pytest.raises(InvalidInput, match=re.escape(said)):
        parse(text)


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        ('part = "ridge"', 'part = "rigde"', UnknownPart, "scaler.part: no scaler 'rigde'"),
        ('part = "ridge"\n', "", UnknownPart, "scaler.part"),
        ('part = "bounds"', 'part = "os.system"', UnknownPart, "gates[1].part"),
        ('part = "number"', 'part = "nope"', UnknownPart, "gates[0].kernel.part"),
        ("low = 40", 'low = "forty"', InvalidInput, "gates[1].low"),
        ("low = 40", "low = 500", InvalidInput, "above high"),
        ("low = 40", "lwo = 40", UnknownField, "gates[1]: unknown lwo"),
        ("action = 0", "action = true", InvalidInput, "reward.action"),
        ("action = 0", 'win = "eval"', InvalidInput, "reward.win"),
        ('"occupancy", "lead", "gap"]', '"ocupancy"]', UnknownField, "no context column"),
        ('type = "flag"', 'type = "bit"', InvalidInput, "context.gap.type"),
        ('type = "flag"', 'type = "category"', InvalidInput, "context.gap: missing levels"),
        ("low = 0, high = 1, about", "low = 2, high = 1, about", InvalidInput, "above high"),
        ("prior_sd = [1.5, 1.0]", "prior_sd = [1.5]", InvalidInput, "prior_sd"),
        ("prior_sd = [1.5, 1.0]", "prior_sd = [1.5, -1.0]", InvalidInput, "prior_sd"),
        ("curve-thompson", "beta-thompson", UnknownField, "bandit: unknown"),
        ("[bandit]", "[bandits]", UnknownField, "unknown bandits"),
        ('name = "listing"', "name = 7", InvalidInput, "name"),
        ("centre = [0.536, 0.5, 0.2]", "centre = [0.536]", InvalidInput, "scaler.centre"),
        ('[[gates]]\npart = "bounds"', '[[more]]\npart = "bounds"', UnknownField, "more"),
        ("combine = ", "combine ", InvalidInput, "not TOML"),
    ],
)
def test_a_broken_file_says_where(old: str, new: str, error: type[Exception], said: str) -> None:
    """Unknown parts, fields, columns and values are refused by name; nothing is built."""
    assert old in EXAMPLE
    with pytest.raises(error, match=re.escape(said)):
        parse(EXAMPLE.replace(old, new, 1))


def test_a_person_may_not_close_a_chain() -> None:
    """Without the bounds the manager's own number would meet no limit."""
    text = EXAMPLE[: EXAMPLE.index('[[gates]]\npart = "bounds"')]
    text += EXAMPLE[EXAMPLE.index("[reward]") :]
    with pytest.raises(InvalidInput, match="closes the chain"):
        parse(text)
    assert parse("closed = false\n" + text).instance.chain.gates


def test_a_learner_that_cannot_learn_the_target_is_refused() -> None:
    """A Beta learner learns classes, not rewards."""
    text = EXAMPLE[: EXAMPLE.index("[reward]")] + '[bandit]\npart = "beta-thompson"\n'
    with pytest.raises(InvalidInput, match="learns a class"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "# " + "a." * 40,
        "a = '" + "a." * 40 + "'",
        'a = "\\"' + "a." * 40 + '"',
        'a = """x" ' + "[" * 40 + '"""""\nb = 1.5',
        "a = ''''" + "a." * 40 + "'''",
        f"{'.'.join('a' * 16)} = 1",
        f"[{'.'.join('a' * 16)}]\nb.c = 1",
        f"a = {'[' * 32}{']' * 32}",
    ],
)
def test_what_is_deep_in_texts_only_is_read(text: str) -> None:
    """Keys of 16 parts and 32 levels are read; dots and brackets in texts count for nothing."""
    assert read_toml(text) == tomllib.loads(text)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    """Missing and unreadable files are named."""
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(binary)
