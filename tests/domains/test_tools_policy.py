"""The policy of a tool router: every rule by hand, fail closed, never bypassed."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdcb
from gdcb import round as turn
from gdcb.composition import Prompt
from gdcb.errors import InvalidInput
from gdcb.instances.tools.policy import FLAGS, ToolPolicy
from gdcb.records import MODIFIED, PASSED, VETOED, Rows
from tests.properties import examples

TOOLS = ("read", "search", "send", "shell")
POLICY = ToolPolicy(
    tools=TOOLS,
    denied=("shell",),
    cost=(0.0, 2.0, 5.0, 1.0),
    spend=0,
    clean=("send",),
    secret=1,
    injected=2,
    invalid=3,
)


def rows(*x: Any) -> Any:
    n = len(x)
    return Rows(np.zeros(n, int), np.zeros(n, int), np.array(x, dtype=float))


def judged(gate: Any, tool: Any, x: Any) -> Any:
    """Return status and reason of one tool in one context."""
    e, row = np.array([[tool]], dtype=float), rows(x)
    left, status = gate.apply(None, e, row)
    return int(status[0]), gate.reason(e[0], left[0], row)


@pytest.mark.parametrize(
    ("tool", "x", "status", "said"),
    [
        (0, (0, 0, 0, 0), PASSED, "no rule forbids it"),
        (0, (0, 1, 1, 1), PASSED, "no rule forbids it"),
        (1, (2, 1, 1, 1), PASSED, "no rule forbids it"),
        (1, (1.999, 0, 0, 0), VETOED, "spend: 'search' costs 2, more than the limit of 1.999"),
        (2, (5, 0, 0, 0), PASSED, "no rule forbids it"),
        (2, (5, 1, 0, 0), VETOED, "secret: 'send' writes or sends, and the arguments hold"),
        (2, (5, 0, 1, 0), VETOED, "injected: 'send' writes or sends, and an instruction inside"),
        (2, (5, 0, 0, 1), VETOED, "invalid: 'send' writes or sends, and the arguments break"),
        (3, (5, 0, 0, 0), VETOED, "denied: 'shell' may never run"),
        (4, (5, 0, 0, 0), VETOED, "unknown: there is no tool 4; there are 4"),
        (-1, (5, 0, 0, 0), VETOED, "unknown: there is no tool -1"),
        (0.5, (5, 0, 0, 0), VETOED, "unknown: there is no tool 0.5"),
        (math.inf, (5, 0, 0, 0), VETOED, "unknown: there is no tool inf"),
        # What is not known forbids.
        (1, (math.nan, 0, 0, 0), VETOED, "spend: 'search' costs 2, more than the limit of nan"),
        (2, (5, math.nan, 0, 0), VETOED, "whether the arguments hold a secret is not known"),
        (2, (5, 0, math.nan, 0), VETOED, "is not known"),
        (2, (5, 0, 0, math.nan), VETOED, "is not known"),
        # A flag is down only at zero.
        (2, (5, 0, -1, 0), VETOED, "injected"),
        (2, (5, 0, 1e-300, 0), VETOED, "injected"),
    ],
)
def test_every_rule_by_hand(tool: Any, x: Any, status: Any, said: Any) -> None:
    found, reason = judged(POLICY, tool, x)
    assert found == status
    assert said in reason


def test_a_reason_names_all_rules_in_their_order() -> None:
    both = dataclasses.replace(POLICY, denied=("send",))
    _, reason = judged(both, 2, (1, 1, 0, 1))
    assert [part.split(":")[0] for part in reason.split("; ")] == [
        "denied",
        "spend",
        "secret",
        "invalid",
    ]


def test_a_read_only_tool_passes_with_every_flag() -> None:
    for flags in ((1, 0, 0), (0, 1, 0), (1, 1, 1), (math.nan,) * 3):
        assert judged(POLICY, 0, (0, *flags))[0] == PASSED


numbers = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, -1.0, math.nan, math.inf, -math.inf]),
    st.floats(allow_nan=True, allow_infinity=True),
)


@examples(60)
@given(
    e=st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=6),
    x=st.lists(numbers, min_size=4, max_size=4),
)
def test_batch_equals_loop_and_the_rules_as_they_are_written(e: Any, x: Any) -> None:
    actions = np.array(e)[:, None, :]
    context = rows(*[x] * len(e))
    left = POLICY.project(actions, context)
    for i in range(len(e)):
        one = POLICY.project(actions[i : i + 1], rows(x))
        assert np.array_equal(one[0], left[i], equal_nan=True)
        tool = e[i][0]
        may = (
            tool in (0.0, 1.0, 2.0)
            and POLICY.cost[int(tool)] <= x[0]
            and (tool != 2.0 or x[1:] == [0.0, 0.0, 0.0])
        )
        expected = actions[i, 0] if may else np.full(3, np.nan)
        assert np.array_equal(left[i, 0], expected, equal_nan=True)
    again = POLICY.project(left, context)
    assert np.array_equal(again, left, equal_nan=True)


def instance(gates: Any = ()) -> Any:
    return gdcb.Instance(
        name="router",
        context=gdcb.Schema(
            {
                "limit": gdcb.Number(0, 100),
                "secret": gdcb.Flag(),
                "injected": gdcb.Flag(),
                "invalid": gdcb.Flag(),
            }
        ),
        arms=gdcb.ArmList(names=TOOLS),
        scaler=gdcb.ConstantScaler(value=0.5),
        composition=Prompt(examples=2),
        gate=[
            *gates,
            dataclasses.replace(
                POLICY, spend="limit", secret="secret", injected="injected", invalid="invalid"
            ),
        ],
        reward=gdcb.Payoff(outcome=("success",)),
        null=gdcb.NullAction(mean=0.0),
    )


@examples(60)
@given(
    tool=numbers,
    others=st.lists(numbers, min_size=2, max_size=2),
    limit=st.one_of(st.just(math.nan), st.floats(0, 100)),
    flags=st.lists(st.sampled_from([0.0, 1.0, math.nan]), min_size=3, max_size=3),
)
def test_nothing_forbidden_ever_runs_whatever_is_proposed(
    tool: Any, others: Any, limit: Any, flags: Any
) -> None:
    router = instance()
    e, row = np.array([[tool, *others]]), rows([limit, *flags])
    verdict = router.chain.apply(router.chain.draw(None, 1), e, row)
    ran = turn.execute(router, verdict, row)
    at = ran.action[0, 0]
    if ran.is_null[0]:
        assert np.isnan(at)
        assert verdict.status[0] == VETOED
    else:
        assert at in (0.0, 1.0, 2.0)
        assert POLICY.cost[int(at)] <= limit
        assert at != 2.0 or flags == [0.0, 0.0, 0.0]
        assert verdict.status[0] in (PASSED, MODIFIED)


def test_behind_an_agent_it_vetoes_with_rule_and_reason() -> None:
    agent = gdcb.Agent(instance(), gdcb.BetaThompson(), seed=3)
    dirty = {"limit": 9.0, "secret": True, "injected": False, "invalid": False}
    case = agent.decide(dirty, mask=["send"])
    assert (case.status, case.executed) == ("vetoed", None)
    assert case.reason == (
        "tool policy (version 1): secret: 'send' writes or sends, and the arguments hold a secret"
    )
    assert agent.decide(dirty | {"secret": False}, mask=["send"]).status == "passed"
    # Given a choice, what the policy would veto is not proposed.
    assert (agent.decide(dirty | {"limit": 0.0}).executed or {})["tool"] == "read"


def test_a_person_cannot_put_in_what_the_policy_forbids() -> None:
    person = gdcb.Approval(kernel=gdcb.CategoryKernel(n_categories=4), name="operator")
    agent = gdcb.Agent(instance([person]), gdcb.BetaThompson(), seed=3)
    context = {"limit": 9.0, "secret": False, "injected": True, "invalid": False}
    case = agent.decide(context)
    assert case.status == "held"
    action = dict(case.proposed or {}) | {"tool": "send"}
    case = agent.resolve(case.id, "edit", action, by="Ana", reason="it looked fine")
    assert case.status == "vetoed"
    assert "injected" in case.reason


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tools": ()}, "denied: there is no tool shell"),
        ({"tools": (), "denied": (), "clean": (), "cost": (), "spend": None}, "at least one"),
        ({"tools": ("read", "read", "send", "shell")}, "a tool is named twice"),
        ({"denied": ("bash",)}, "denied: there is no tool bash; the tools are read, search"),
        ({"clean": ("mail",)}, "clean: there is no tool mail"),
        ({"clean": "send"}, "clean: expected a tuple of names"),
        ({"cost": (1.0,)}, "expected one number for each of the 4 tools, got 1"),
        ({"cost": (1.0, math.nan, 1.0, 1.0)}, "cost: expected a finite number, got nan"),
        ({"cost": (1.0, -1.0, 1.0, 1.0)}, "cost: expected a number >= 0, got -1"),
        ({"spend": None}, "cost and spend go together"),
        ({"secret": None, "injected": None, "invalid": None}, "clean needs a flag column"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: Any, said: Any) -> None:
    with pytest.raises(InvalidInput, match=said):
        dataclasses.replace(POLICY, **changes)


def test_tools_of_another_order_are_refused_with_the_instance() -> None:
    other = dataclasses.replace(POLICY, tools=("search", "read", "send", "shell"))
    columns = Prompt().columns(gdcb.ArmList(names=TOOLS).build())
    with pytest.raises(InvalidInput, match="in their order, read, search, send, shell; got search"):
        other.check(columns)
    POLICY.check(columns)


def test_it_keeps_the_promises_of_gates() -> None:
    report = gdcb.checks.check(ToolPolicy.example())
    assert len(report.results) >= 15


def test_every_flag_has_its_words() -> None:
    assert set(FLAGS) == {"secret", "injected", "invalid"}
