"""The world of tool use: exact means, masks, what a judge says, and nonsense that comes in."""

from typing import Any

import numpy as np
import pytest

from gdcb import checks
from gdcb.errors import InvalidInput, NothingAllowed
from gdcb.instances.tools import catalogues
from gdcb.instances.tools.columns import (
    DENIED,
    EXAMPLES,
    LATENCY,
    LENGTH,
    NAMES,
    PER_EXAMPLE,
    SCHEMA,
    SPEND,
    K,
    P,
    S,
)
from gdcb.instances.tools.domain import TENANTS, best_delta, instance, study
from gdcb.instances.tools.incumbent import incumbent, own
from gdcb.instances.tools.world import (
    HARD,
    HELP,
    JUDGE_ERROR,
    UNAIDED,
    WRONG,
    Routing,
    corrected,
)
from gdcb.records import Rows
from gdcb.streams import CONTEXT, LABEL, OUTCOME, WORLD, Streams
from tests.domains.test_tools_questions import _stand_in

GROUP = np.repeat(np.arange(3), TENANTS)


@pytest.fixture(params=["well", "mis"])
def made(request: Any, monkeypatch: Any) -> Any:
    """Return a world, its state and the rows of a round; `mis` on questions made for the test."""
    found = _stand_in()
    monkeypatch.setattr(catalogues, "retrieved", lambda source, retrieval: found)
    world, streams = Routing(request.param), Streams(3, TENANTS)
    state = world.start(streams.at(WORLD, 0), GROUP)
    return world, state, world.context(streams.at(CONTEXT, 0), state, 0, GROUP)


def _logistic(z: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-z))


def test_success_is_by_hand(made: Any) -> None:
    world, state, rows = made
    e = np.array([3.0, 2.0, 1.0])
    found = world.mean(state, np.tile(e, (rows.n, 1, 1)), rows)[:, 0]
    factor = np.exp(-LATENCY[3] - (2 * PER_EXAMPLE if world.variant == "mis" else 0.0))
    for i in range(rows.n):
        if world.variant == "well":
            delta = rows.hidden[i, 3]
            gap = 0.5 - min(max(delta, 0.0), 1.0)
            logit = state.skill[i, 3] + state.slope[i] * (delta - 0.5) - HELP * gap**2
            p = _logistic(logit)
        elif rows.hidden[i, 3] == 1.0:
            p = _logistic(state.skill[i, 3] - rows.hidden[i, HARD] + HELP * 0.5 * rows.x[i, P][3])
        else:
            p = WRONG
        assert found[i] == pytest.approx(p * factor)


def test_the_mean_is_what_samples_average_to(made: Any) -> None:
    """With 4,000 draws a row, six standard errors: a false alarm in some ten million runs."""
    world, state, rows = made
    e = own(rows)
    p = world.chance(state, e[:, None], rows)[:, 0]
    streams, n = Streams(5, TENANTS), 4000
    seen = sum(world.sample(streams.at(OUTCOME, t), state, e, rows)[:, 0] for t in range(n)) / n
    assert (np.abs(seen - p) <= 6.0 * np.sqrt(p * (1.0 - p) / n)).all()


def test_without_a_tool_a_request_mostly_fails(made: Any) -> None:
    world, state, rows = made
    nothing = np.full((rows.n, 1, 3), np.nan)
    assert (world.mean(state, nothing, rows) == UNAIDED).all()


def test_the_best_prompt_is_offered_and_beats_every_other(made: Any) -> None:
    world, state, rows = made
    best = world.best(state, rows)
    assert rows.mask[np.arange(rows.n), best[:, 0].astype(int)].all()
    value = world.mean(state, best[:, None], rows)[:, 0]
    for a in range(K):
        for n in range(EXAMPLES + 1):
            other = world.mean(state, np.tile([float(a), n, 1.0], (rows.n, 1, 1)), rows)[:, 0]
            assert (~rows.mask[:, a] | (other <= value + 1e-12)).all()
    assert world.candidates(state, rows).shape == (rows.n, 40, 3)


def test_tools_that_are_not_offered_have_no_similarity(made: Any) -> None:
    world, _, rows = made
    assert rows.mask.any(axis=1).all()
    assert (rows.x[:, S][~rows.mask] == 0).all()
    assert (rows.x[:, P][~rows.mask] == 0).all()
    if world.variant == "mis":
        assert rows.mask[np.arange(rows.n), rows.hidden[:, :K].argmax(axis=1)].all()
    assert len(set(map(tuple, rows.mask.tolist()))) > 1  # candidates differ by request
    assert ((rows.x >= 0.0) & (rows.x[:, :SPEND] <= 1.0).all()).all()


def test_a_request_does_not_hang_on_the_others_nor_on_what_ran(made: Any) -> None:
    world, state, rows = made
    some = world.context(Streams(3, TENANTS).at(CONTEXT, 0), state, 0, GROUP)
    assert (some.x == rows.x).all()
    e = own(rows)
    index = np.array([5, 17])
    assert (
        world.mean(state, e[index][:, None], rows.take(index))[:, 0]
        == world.mean(state, e[:, None], rows)[index, 0]
    ).all()
    after = world.advance(Streams(3).at(1, 0), state, e, np.ones((rows.n, 1)), rows)
    assert after is state


def test_replicates_are_the_same_beside_fewer(made: Any) -> None:
    world, _, rows = made
    group = GROUP[: 2 * TENANTS]
    streams = Streams(3, TENANTS)
    state = world.start(streams.at(WORLD, 0), group)
    fewer = world.context(streams.at(CONTEXT, 0), state, 0, group)
    assert (fewer.x == rows.x[: 2 * TENANTS]).all()
    assert (fewer.mask == rows.mask[: 2 * TENANTS]).all()


def test_the_judge_rates_the_tool_that_ran_and_no_other(made: Any) -> None:
    world, state, rows = made
    e = own(rows)
    e[0] = np.nan
    label = world.label(Streams(4, TENANTS).at(LABEL, 0), state, e, rows)
    rated = np.isfinite(label)
    assert not rated[0].any()
    assert (rated[1:].sum(axis=1) == 1).all()
    assert (label[1:].argmax(axis=1) >= 0).all()
    assert (np.nonzero(rated[1:])[1] == e[1:, 0]).all()


def test_ratings_are_right_on_average(made: Any) -> None:
    """The mean of 3,000 rounds lies within six standard errors of the true relevance."""
    world, state, rows = made
    e, n = own(rows), 3000
    streams = Streams(4, TENANTS)
    place = (np.arange(rows.n), e[:, 0].astype(int))
    total = sum(world.label(streams.at(LABEL, t), state, e, rows)[place] for t in range(n)) / n
    sd = 0.15 if world.variant == "well" else np.sqrt(JUDGE_ERROR * 0.9) / (1 - 2 * JUDGE_ERROR)
    assert (np.abs(total - world.relevance(rows)[place]) <= 6.0 * sd / np.sqrt(n)).all()
    assert corrected(np.array([JUDGE_ERROR])).tolist() == [0.0]


def test_the_incumbent_goes_by_keywords_among_what_is_offered(made: Any) -> None:
    _, state, rows = made
    plain = own(rows)[:, 0].astype(int)
    assert rows.mask[np.arange(rows.n), plain].all()
    denied = NAMES.index(DENIED[0])
    alone = rows.mask.sum(axis=1) == 1
    assert (alone | (plain != denied)).all()
    tried = [incumbent(Streams(7, TENANTS).at(1, t), state, rows)[:, 0] for t in range(40)]
    away = np.mean([(one != plain).mean() for one in tried])
    assert 0.03 < away < 0.2


def test_the_best_delta_is_the_truth_where_it_is_in_the_family(made: Any) -> None:
    world, state, rows = made
    found = best_delta(world, state, rows.take(np.arange(TENANTS)))
    assert found.shape == (3, TENANTS, K)
    if world.variant == "well":
        np.testing.assert_allclose(found[0], world.true_delta(state, rows)[:TENANTS, :, 0])
    else:
        assert world.true_delta(state, rows) is None
        right = world.relevance(rows)[:TENANTS]
        offered = rows.mask[:TENANTS]
        assert found[0][(right == 1) & offered].mean() > found[0][(right == 0) & offered].mean()


def test_the_domain_keeps_its_promises() -> None:
    checks.check(study("well", {}, 50).domain)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput, match="tools has the options questions, retrieval and rows"):
        study("well", {"nights": 3}, 10)
    with pytest.raises(InvalidInput, match="rows: expected a whole number"):
        study("well", {"rows": 0}, 10)
    with pytest.raises(InvalidInput, match="variant: expected one of well, mis"):
        study("best", {}, 10)
    with pytest.raises(InvalidInput, match="questions: expected one of bfcl, agentdojo"):
        study("mis", {"questions": "mmlu"}, 10)


def test_contexts_that_make_no_sense_are_refused() -> None:
    schema = instance().context
    fine = dict.fromkeys(schema.columns, 0.5) | {
        "secret": False,
        "injected": False,
        "invalid": True,
    }
    assert schema.encode([fine]).shape == (1, SCHEMA.width)
    for name, value, match in (
        ("description_3", float("nan"), "expected a finite number"),
        ("past_1", 1.5, "expected 0 to 1"),
        ("spend", -1.0, "expected 0 to 5"),
        ("secret", "perhaps", "secret"),
    ):
        with pytest.raises(InvalidInput, match=match):
            schema.encode([fine | {name: value}])


def test_a_request_without_a_candidate_is_refused() -> None:
    here = instance()
    x = np.full((1, SCHEMA.width), 0.5)
    rows = Rows(np.zeros(1, int), np.zeros(1, int), x, mask=np.zeros((1, K), dtype=bool))
    with pytest.raises(NothingAllowed, match="no arm is allowed"):
        here.check_rows(rows, 1)
    x[0, SPEND] = np.nan
    with pytest.raises(InvalidInput, match="finite"):
        here.check_rows(Rows(np.zeros(1, int), np.zeros(1, int), x), 1)
    assert LENGTH == 2 * K
