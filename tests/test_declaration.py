"""Instances from TOML: whole files build, broken ones say where and what."""

from __future__ import annotations

import math
import re
import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import pydantic
import pytest

from gdcb import Agent
from gdcb.declaration import GROUPS, LONGEST, parse, read, read_toml, registered
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


def small(**tables: str) -> str:
    """Declare an instance of few lines, with some tables in place of its own."""
    plain = {
        "context": '{ base = { type = "number", low = 1, high = 9 } }',
        "arms": '{ part = "list", values = [0.9, 1.0, 1.1] }',
        "composition": '{ part = "multiply", base = ["base"], names = ["price"] }',
        "gates": '[{ part = "cap", limit = 100.0 }]',
        "reward": '{ part = "payoff", outcome = ["booked"], action = 0 }',
        "bandit": '{ part = "beta-thompson" }',
    }
    return "\n".join(f"{name} = {table}" for name, table in (plain | tables).items())


NAME = '"{}"'


def several(form: str, n: int) -> str:
    """Write a list, '{}' in each entry being its number."""
    return f"[{', '.join(form.replace('{}', str(i)) for i in range(n))}]"


def flags(n: int) -> str:
    columns = "".join(f', c{i} = {{ type = "flag" }}' for i in range(n))
    return f'{{ base = {{ type = "number", low = 1, high = 9 }}{columns} }}'


def factors(n: int, column: str) -> str:
    within = ", ".join(f'f{i} = ["{column}"]' for i in range(n))
    return f'{{ part = "log-linear", factors = {{ {within} }} }}'


def judged(categories: int, n_gates: int = 1, more: str = "") -> dict[str, str]:
    """Return tables with people who are learned of by a table of categories each."""
    kernel = f'{{ part = "category", n_categories = {categories}{more} }}'
    person = f'{{ part = "approval", name = "g{{}}", kernel = {kernel} }}'
    people = several(person, n_gates)[:-1]
    return {
        "arms": f'{{ part = "list", names = {several(NAME, categories)} }}',
        "composition": '{ part = "identity", name = "action" }',
        "gates": f'{people}, {{ part = "policy", denied = [1] }}]',
    }


def stacked(depth: int) -> str:
    """Stack eight learners of curves, or stacks of them."""
    if depth == 0:
        return '{ part = "curve-thompson" }'
    within = ", ".join([stacked(depth - 1)] * 8)
    return f'{{ part = "stacked-thompson", steps = 1, members = [{within}] }}'


STAR = '"*"'
LEVELS = several(NAME, 900)
POINTS = '{ part = "gaussian-process", features = ["base"], lengths = [1], inducing = {} }'
KNOTS = '{ part = "covariance", n_modes = 1000, process = "base", process_knots = '
LARGE = {
    "bands of a table": (
        small(
            arms=f'{{ part = "list", values = {several("{}.5", 1_000)} }}',
            cells=f"{{ edges = {several('{}', 3_000)} }}",
            bandit='{ part = "hierarchical-beta-thompson" }',
        ),
        "64,000,000 bytes for what is learned of one unit",
    ),
    "bands of nodes": (
        small(
            arms=f'{{ part = "list", values = {several("{}.5", 200)} }}',
            cells=f"{{ edges = {several('{}', 300)} }}",
            bandit='{ part = "hierarchical-beta-thompson" }',
        ),
        "64,000,000 bytes for what is learned of one unit",
    ),
    "bands of coefficients": (
        small(
            context=flags(98),
            arms=f'{{ part = "list", values = {several("{}.5", 400)} }}',
            cells="{ edges = [1, 2, 3, 4, 5] }",
            bandit='{ part = "linear-thompson" }',
        ),
        "64,000,000 bytes for what is learned of one unit",
    ),
    "coefficients": (
        small(
            context=flags(98),
            arms=f'{{ part = "list", values = {several("{}.5", 900)} }}',
            bandit='{ part = "linear-thompson" }',
        ),
        "5,000,000 arms × columns of the context, squared",
    ),
    "factors of every column": (
        small(context=flags(900), scaler=factors(20, "*")),
        "10,000 columns named by its parts together",
    ),
    "factors of a category": (
        small(
            context=f'{{ base = {{ type = "number", low = 1, high = 9 }}, '
            f'c = {{ type = "category", levels = {LEVELS} }} }}',
            scaler=factors(200, "c"),
        ),
        "10,000 columns named by its parts together",
    ),
    "factors": (small(scaler=factors(9_000, "base")), "10,000,000 columns, squared"),
    "inducing points": (
        small(scaler=POINTS.replace("{}", several("[{}]", 6_000))),
        "1,000 points",
    ),
    "knots": (
        small(scaler=f"{KNOTS}{several('{}', 25_000)} }}"),
        "10,000,000 coefficients, squared",
    ),
    "categories": (
        small(**judged(5_000)),
        "10,000,000 categories × categories and a veto × bands",
    ),
    "bands of categories": (
        small(**judged(1_000, more=f", edges = {several('{}', 60)}, banded = 0")),
        "10,000,000 categories × categories and a veto × bands",
    ),
    "people who see categories": (
        small(**judged(800, 30)),
        "64,000,000 bytes for what is learned of one unit",
    ),
    "stacks in stacks": (
        small(bandit=stacked(3)),
        "8 learners, with those of members that are stacked themselves",
    ),
}


@pytest.mark.parametrize(("text", "limit"), LARGE.values(), ids=LARGE.keys())
def test_what_multiplies_is_counted_before_it_is_there(text: str, limit: str) -> None:
    """7,000 letters took 6 s and 26,000 took 5.4 GB; none takes more than 300 MB."""
    tracemalloc.start()
    try:
        with pytest.raises(
            InvalidInput, match=re.escape(f"expected at most {limit}") + "[,;] got "
        ):
            parse(text)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"scaler": '{ part = "ridge", features = ["*", "*"] }'}, "scaler.features: .* '\\*' sev"),
        ({"scaler": factors(1, 'base", "base')}, "scaler.factors.0..features: .* 'base' several"),
        ({"scaler": '{ part = "ridge", features = ["*", "base"] }'}, "scaler.features: .* alone"),
        (
            {"bandit": f'{{ part = "linear-thompson", features = {several(STAR, 20_000)} }}'},
            "bandit.features: expected every column once, got '\\*' several times",
        ),
        (
            {
                "gates": '[{ part = "approval", kernel = { part = "number", '
                'features = ["base", "base"] } }, { part = "cap", limit = 9.0 }]'
            },
            "gates.0..kernel.features: expected every column once",
        ),
    ],
)
def test_a_column_named_twice_is_refused(tables: dict[str, str], said: str) -> None:
    """'*' 20,000 times was 20,000 times every column."""
    with pytest.raises(InvalidInput, match=said):
        parse(small(**tables))


def test_what_a_ledger_recorded_may_name_a_column_twice() -> None:
    """It was recorded before this was asked for; a base may name one twice at any time."""
    text = small(bandit='{ part = "linear-thompson", features = ["*", "base"] }')
    assert parse(text, is_recorded=True).bandit.features == (0, 0)  # type: ignore[attr-defined]
    twice = '{ part = "multiply", base = ["base", "base"], names = ["price"] }'
    assert parse(small(composition=twice)).instance.actions


def test_only_a_new_text_is_limited_in_its_lines() -> None:
    """A ledger with a longer one could not be opened any more."""
    text = f"{small()}\n"
    room = LONGEST - text.count("\n")
    parse(text + "#\n" * room)
    longer = text + "#\n" * (room + 1)
    for much in (longer, longer.removesuffix("\n")):
        with pytest.raises(InvalidInput, match="expected at most 10,000 lines, got 10,001"):
            parse(much)
    assert parse(longer, is_recorded=True).instance.space.n == 3
    assert read_toml(longer)


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029", "\u202e", "\u2066"])
def test_a_text_that_is_shown_otherwise_than_it_is_read_is_refused(sign: str) -> None:
    """What stands behind such a sign looks like a setting of its own, or like another one."""
    text = f"{small()}\n# fine{sign}limit = 100.0\n"
    at = text.count("\n")
    with pytest.raises(InvalidInput, match=rf"invisible sign U\+{ord(sign):04X} in line {at}$"):
        parse(text)
    assert parse(text, is_recorded=True).instance.space.n == 3


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\xad", "\u200f", "\u061c", "\x85", "\0"])
@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("gates", {"gates": '[{ part = "cap", name = "li%s", limit = 100.0 }]'}),
        ("arms", {"arms": '{ part = "list", names = ["li%s", "b"], values = [0.9, 1.1] }'}),
        (
            "composition",
            {"composition": '{ part = "multiply", base = ["base"], names = ["li%s"] }'},
        ),
        ("reward", {"reward": '{ part = "payoff", outcome = ["li%s"], action = 0 }'}),
    ],
)
def test_an_escape_writes_no_name_that_is_shown_otherwise(
    sign: str, where: str, change: dict[str, str]
) -> None:
    """Every decision shows the names of gates, arms and actions; a log names its own context."""
    text = small(**{name: value % f"\\u{ord(sign):04x}" for name, value in change.items()})
    said = rf"^{where}: expected names that read as they are .* U\+{ord(sign):04X} in 'li\\"
    with pytest.raises(InvalidInput, match=said):
        parse(text)
    assert parse(text, is_recorded=True).instance.space.n > 1
    column = f', "a\\u{ord(sign):04x}" = {{ type = "flag" }} }}'
    context = '{ base = { type = "number", low = 1, high = 9 }' + column
    assert f"a{sign}" in parse(small(context=context)).instance.context.columns


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


@pytest.mark.parametrize("number", ["1e999999", "-2.5E+400", "1_0e3_09"])
def test_a_number_that_is_too_large_is_not_read_as_infinite(number: str) -> None:
    """A bound with a digit too many was no bound at all."""
    with pytest.raises(InvalidInput, match=r"expected a number of at most 1\.8e308, got"):
        read_toml(f"high = {number}")
    with pytest.raises(InvalidInput, match=r"expected a number of at most 1\.8e308, got"):
        parse(f"{small()}\n[more]\nhigh = {number}\n")
    assert math.isinf(read_toml(f"high = {number}", is_recorded=True)["high"])
    assert read_toml("high = inf\nlow = -inf\nmost = 1.7e308") == {
        "high": math.inf,
        "low": -math.inf,
        "most": 1.7e308,
    }
