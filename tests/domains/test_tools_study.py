"""The whole chain: nothing infeasible runs, the file is the instance, the protocol runs it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdcb
from gdcb import declaration
from gdcb import round as turn
from gdcb.bandits import BetaThompson
from gdcb.errors import InvalidInput, NothingAllowed
from gdcb.instances import tools
from gdcb.instances.tools import learners
from gdcb.instances.tools.columns import CLEAN, COST, DENIED, EXAMPLES, NAMES, SCHEMA, SPEND, K
from gdcb.instances.tools.domain import instance, study
from gdcb.instances.tools.retrieval import Retriever
from gdcb.protocol.block import run_setup
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import build
from gdcb.protocol.task import Task
from gdcb.records import MODIFIED, Rows
from gdcb.streams import Stream
from tests.properties import examples

HERE = instance()
FLAGS = slice(SPEND + 1, SPEND + 4)
anything = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([-1.0, 0.5, 7.0, 8.0, 1e308])
)
tools_ = st.one_of(st.integers(0, K - 1).map(float), anything)
counts = st.one_of(st.integers(0, EXAMPLES).map(float), anything)


def _rows(spend: Any, flags: Any, n: int = 1, mask: Any = None) -> Any:
    x = np.full((n, SCHEMA.width), 0.3)
    x[:, SPEND], x[:, FLAGS] = spend, flags
    return Rows(np.zeros(n, int), np.zeros(n, int), x, mask=mask)


def _require_feasible(action: Any, row: Any) -> None:
    tool, examples = action[0], action[1]
    assert np.isfinite(action).all()
    assert tool in range(K)
    name = NAMES[int(tool)]
    assert name not in DENIED
    assert row.mask is None or row.mask[0, int(tool)]
    assert COST[int(tool)] <= row.x[0, SPEND]
    assert name not in CLEAN or (row.x[0, FLAGS] == 0).all()
    assert 0 <= examples <= EXAMPLES


@examples(300)
@given(
    tools_,
    counts,
    anything,
    st.floats(0, 5),
    st.tuples(*[st.sampled_from([0.0, 1.0])] * 3),
    st.lists(st.booleans(), min_size=K, max_size=K),
)
def test_nothing_infeasible_is_ever_executed(
    tool: Any, examples: Any, template: Any, spend: Any, flags: Any, offered: Any
) -> None:
    rows = _rows(spend, flags, mask=np.array([offered]))
    proposed = np.array([[tool, examples, template]])
    verdict = HERE.chain.apply(HERE.chain.draw(Stream((1, 1), 0, 1), 1), proposed, rows)
    ran = turn.execute(HERE, verdict, rows)
    if ran.is_null[0]:
        assert np.isnan(ran.action[0]).all()
        assert verdict.status[0] > MODIFIED
    else:
        _require_feasible(ran.action[0], rows)


class Adversary(BetaThompson):
    """A bandit whose draws are whatever it was given: (K,) numbers."""

    wants: Any = None

    def draw(self, rng: Any, state: Any, at: Any) -> Any:
        return np.tile(self.wants, (at.cell.size, 1))


finite = st.floats(-1e300, 1e300)


@examples(100)
@given(
    st.lists(finite, min_size=K, max_size=K),
    st.floats(0, 5),
    st.tuples(*[st.sampled_from([0.0, 1.0])] * 3),
    st.lists(st.booleans(), min_size=K, max_size=K).filter(any),
)
def test_an_adversary_gets_nothing_past_the_mask_and_the_gate(
    wants: Any, spend: Any, flags: Any, allowed: Any
) -> None:
    bandit = Adversary()
    object.__setattr__(bandit, "wants", np.array(wants))
    rows = _rows(spend, flags, mask=np.array([allowed]))
    state = turn.init(HERE, bandit, np.zeros(1, int))
    decision = turn.decide(Stream((2, 2), 0, 1), HERE, bandit, state, rows)
    assert allowed[decision.arm[0]]
    ran = turn.execute(HERE, turn.gate(Stream((3, 3), 0, 1), HERE, decision, rows), rows)
    if not ran.is_null[0]:
        _require_feasible(ran.action[0], rows)
        assert allowed[int(ran.action[0, 0])]


def test_a_veto_says_why() -> None:
    rows = _rows(1.2, (0.0, 1.0, 0.0))
    chain = HERE.chain
    expected = {
        (7.0, 2.0, 1.0): "denied",
        (4.0, 2.0, 1.0): "cost",
        (5.0, 2.0, 1.0): "instruction inside tool output",
        (0.0, 9.0, 1.0): "9 is above the upper limit 4",
        (11.0, 2.0, 1.0): "expected a whole number from 0 to 7",
    }
    for proposed, reason in expected.items():
        e = np.array([proposed])
        verdict = chain.apply(chain.draw(Stream((1, 1), 0, 1), 1), e, rows)
        assert verdict.status[0] > MODIFIED
        assert reason in chain.reason(verdict, rows, 0), proposed


def test_the_prompt_is_rendered_with_retrieved_examples_and_its_inverse_is_the_tool() -> None:
    retriever = Retriever({name: f"{name} things" for name in NAMES})
    for text in ("read a thing", "read another thing"):
        retriever.remember("read 2", text)
    action = np.array([1.0, 2.0, 1.0])
    phi: Any = HERE.composition
    arms = HERE.space
    found = retriever.examples("read 2", "read this thing", int(action[1]))
    text = phi.render(arms, action, "read this thing", found)
    assert text.splitlines()[0] == "[template 1] Use the tool 'read 2'."
    assert text.count("Example: ") == 2
    located = phi.locate(arms, action[None, None], np.ones((1, K, 1)), np.zeros((1, 1)))
    assert arms.names[located.arm[0, 0]] == "read 2"


def _declared() -> Any:
    return declaration.read(Path(tools.__file__).parent / "tools.toml")


def _context(**changes: Any) -> Any:
    retriever = Retriever(
        {name: f"{name} {word}" for name, word in zip(NAMES, _WORDS, strict=True)}
    )
    plain = {"spend": 3.0, "secret": False, "injected": False, "invalid": False}
    return retriever.context("the weather in Rome", NAMES) | plain | changes


_WORDS = ("weather", "movies", "hotels", "music", "events", "book", "buy", "delete")


def test_the_file_is_the_instance() -> None:
    declared = _declared()
    here = declared.instance
    assert here.space.names == NAMES
    assert here.context.names == SCHEMA.names
    assert [gate.name for gate in here.chain.gates] == [gate.name for gate in HERE.chain.gates]
    assert here.chain.gates[-1] == HERE.chain.gates[-1]
    assert here.reward == HERE.reward
    assert here.scaler.n_arms == K
    x = np.random.default_rng(1).random((4, SCHEMA.width))
    zero = np.zeros(4, int)
    one = here.scaler.predict(here.scaler.init(1), zero, x)
    np.testing.assert_allclose(one, HERE.scaler.predict(HERE.scaler.init(1), zero, x), atol=1e-4)
    assert declared.bandit == learners.learner(learners.UNTUNED)


def test_an_agent_decides_with_the_file() -> None:
    declared = _declared()
    agent = gdcb.Agent(declared.instance, bandit=declared.bandit, seed=3)
    case = agent.decide(_context(), mask=("read 1", "read 2"))
    assert case.executed is not None
    assert case.executed["tool"] in ("read 1", "read 2")
    agent.observe(case.id, {"success": 1.0})
    flagged = agent.decide(_context(injected=True), mask=("write 1",))
    assert flagged.status == "vetoed"
    assert "instruction inside tool output" in flagged.reason
    assert flagged.executed is None


def test_a_tool_that_vanished_is_refused_by_name() -> None:
    declared = _declared()
    agent = gdcb.Agent(declared.instance, bandit=declared.bandit, seed=3)
    with pytest.raises(InvalidInput, match="read 9"):
        agent.decide(_context(), mask=("read 9",))
    with pytest.raises(NothingAllowed):
        agent.decide(_context(), mask=())


@pytest.mark.parametrize("key", ["B1", "B4", "A1", "A3"])
def test_the_protocol_runs_it(key: Any) -> None:
    task = Task("tools", "well", (("rows", 200),), 11, 6, 0, 3, key)
    shared = shared_by(task)
    moments = {"mean": [0.3] * K, "total": [4.0] * K, "scale": 1.0}
    family = learners.UNTUNED | (moments if key == "B1" else {})
    record = run_setup(
        build(shared.study, key, {"B1": family, "B4": family, "A1": family}), shared, task
    )
    parts, measures = record.parts, record.measures
    assert measures is not None
    np.testing.assert_allclose(parts[..., 0], parts[..., 1:].sum(axis=-1), atol=1e-9)
    names = [one.name for one in shared.study.measures]
    assert names == ["success", "latency_factor", "vetoed", "cost"]
    assert measures.shape[-1] == 4
    assert np.isfinite(measures).all()


def test_the_report_has_its_words() -> None:
    for variant in ("well", "mis"):
        found = study(variant, {}, 10)
        assert {"title", "unit", "action", "real", "made"} <= set(found.about)
        assert ("oracle_knows" in found.about) == (variant == "mis")
        assert len(found.specification) == 9
        assert found.edges is not None
        assert found.edges.size == K + 1
        assert set(found.features) <= set(SCHEMA.names)
