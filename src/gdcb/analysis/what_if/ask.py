"""Ask a gated log what another gate, or another policy, would have been worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gdcb.analysis.off_policy.no_interval import in_words_if_rare
from gdcb.analysis.what_if import words
from gdcb.analysis.what_if.another_gate import gate_scores
from gdcb.analysis.what_if.another_policy import policy_scores
from gdcb.analysis.what_if.answer import Answer, percent
from gdcb.analysis.what_if.asked import Asked, Conditions, Known
from gdcb.analysis.what_if.log import GatedLog
from gdcb.analysis.what_if.passing import bound, contradicted, is_approved, place_of, rerun
from gdcb.analysis.what_if.questions import (
    Propose,
    Question,
    ReplaceGate,
    SecondReviewer,
    WithoutGate,
)
from gdcb.analysis.what_if.ranges import check_range, of_actions, of_arms
from gdcb.analysis.what_if.scores import MOST_WEIGHT, Scores
from gdcb.analysis.what_if.second_reviewer import private_scores, reviewer_scores
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import PASSED


def ask(
    instance: Instance,
    log: GatedLog,
    question: Question,
    *,
    reward_range: tuple[float, float] | None = None,
    private: bool = False,
    proposal_law: Any = None,
    conditions: Conditions | None = None,
) -> Answer:
    """Answer a question about a gated log: a value with an interval, a range, or a refusal.

    Parameters
    ----------
    instance : whose gates made the log
    log : from `gated_log` or `log_of`
    question : `ReplaceGate`, `WithoutGate`, `SecondReviewer` or `Propose`
    reward_range : (low, high) that every reward lies between: what the log never saw is then
        bounded. Outcome classes with known payoffs need none
    private : persons may have known something outside x that also predicts the outcome. What they
        changed is then bounded; proposals of another policy are weighed as proposals
    proposal_law : (N, K) π₀(a | x) of the log's proposals, where it is known; None: estimated
    conditions : see `Conditions`

    Notes
    -----
    Assumes: the log's gates are the instance's, and all of `Answer.assumes`.

    There is no answer where cells that decide were expected to run fewer than 4 times in the log's
    contexts, so that a log without them is likely and does not show what they earn.

    Stops applying: what ran must not change the contexts of later rows (a budget, a state that is
    carried on): the answer is about rows, one by one.

    Examples
    --------
    Even proposals of 1, 2 and 4, a cap of 9 so far, and rewards 1, 2 and 4. A cap of 2 would turn
    each 4 into a 2: rows with 1 or 2 keep their outcomes, and the mean falls from 7/3 to 5/3.

    >>> from gdcb import ArmList, Cap, Multiply, Number, Schema
    >>> from gdcb.analysis.what_if import gated_log
    >>> instance = Instance(
    ...     context=Schema({"x": Number()}),
    ...     arms=ArmList(values=(1.0, 2.0, 4.0)),
    ...     composition=Multiply(),
    ...     gate=Cap(limit=9.0, name="limit"),
    ... )
    >>> price = np.tile([1.0, 2.0, 4.0], 100)
    >>> log = gated_log(instance, np.zeros((300, 1)), price[:, None], price[:, None], price)
    >>> answer = ask(instance, log, ReplaceGate("limit", Cap(limit=2.0)))
    >>> answer.kind, round(answer.value.mean, 2), round(answer.changed, 3)
    ('value', 1.67, 0.333)
    """
    return ask_all(
        instance,
        log,
        (question,),
        reward_range=reward_range,
        private=private,
        proposal_law=proposal_law,
        conditions=conditions,
    )[0]


def ask_all(
    instance: Instance,
    log: GatedLog,
    questions: Sequence[Question],
    *,
    reward_range: tuple[float, float] | None = None,
    private: bool = False,
    proposal_law: Any = None,
    conditions: Conditions | None = None,
) -> list[Answer]:
    """Answer several questions as `ask` does; what they need of the log is learned once."""
    on = conditions or Conditions()
    check_range(reward_range, log.reward)
    law = None
    if proposal_law is not None:
        law = Propose(proposal_law, "the log's proposals").on(log.rows, instance.space.n)
    known = Known(instance, log, law, int(on.near))
    off = float(contradicted(instance, log).mean())
    answers = []
    for question in questions:
        asked = Asked(instance, log, question, known, on, reward_range, private)
        if off > on.tolerance:
            why = f"in {percent(off)} of the rows the declared gates cannot have made what ran."
            needed = "declare the gates as they were, or give the trail of what each of them did"
            answers.append(asked.refused(why, needed))
        elif isinstance(question, SecondReviewer):
            answers.append(_second(asked))
        elif isinstance(question, Propose):
            answers.append(_policy(asked))
        elif isinstance(question, ReplaceGate | WithoutGate):
            answers.append(_gate(asked))
        else:
            raise InvalidInput(f"question: expected one of the questions here, got {question!r}")
    return answers


def _gate(asked: Asked) -> Answer:
    """Answer 'another gate' and 'one gate fewer'."""
    instance, log, question = asked.instance, asked.log, asked.question
    assert isinstance(question, ReplaceGate | WithoutGate)
    gates, place = instance.chain.gates, place_of(instance, question.name)
    is_behind = any(one.is_person for one in gates[place + 1 :])
    if is_behind and any(one.is_person for one in gates[: place + 1]):
        return asked.refused(
            f"two persons answer, and '{question.name}' stands between them or is the first: what "
            "the second would say to what the first has not shown them, the log does not tell.",
            "ask about the last person, or about a gate before both",
        )
    gate = bound(instance, question.gate if isinstance(question, ReplaceGate) else None)
    found = rerun(instance, log, place, gate)
    changed = float(found.is_changed.mean())
    if changed == 0.0:
        return asked.exactly(log.reward, 0.0)
    known = asked.known
    if asked.private and instance.chain.has_person:
        nearby = np.zeros((log.n, instance.space.n + 2), dtype=bool)
    else:
        nearby = known.nearby
    scores = gate_scores(known.means, known.laws, nearby, found, place, gate)
    sure = found.is_known & ~found.is_asked
    low, high = of_actions(instance, log, asked.reward_range, found.action, sure)
    return _finish(asked, scores, changed, low, high)


def _policy(asked: Asked) -> Answer:
    """Answer 'another policy'."""
    instance, log, question = asked.instance, asked.log, asked.question
    assert isinstance(question, Propose)
    target = question.on(log.rows, instance.space.n)
    known = asked.known
    is_weighed = asked.private and instance.chain.has_person
    if is_weighed and known.laws.proposed is None:
        return asked.refused(
            "where persons may know more, proposals must be weighed, and these are no arms.",
            "give the proposals' law, or rule private information out",
        )
    weigh, near = "proposed" if is_weighed else "executed", int(asked.conditions.near)
    scores, changed = policy_scores(known.means, known.laws, known.nearby, target, weigh, near)
    low, high = of_arms(instance, log, asked.reward_range)
    return _finish(asked, scores, changed, low, high)


def _finish(asked: Asked, scores: Scores, changed: float, low: Array, high: Array) -> Answer:
    """Turn scores into a value, a range or a refusal."""
    on, instance = asked.conditions, asked.instance
    uncovered, needed = float(scores.uncovered.mean()), ("rows in which these cells run",)
    names = (*instance.space.names, "off every arm", "nothing", words.UNKNOWN)
    names = names if scores.lost.shape[1] == len(names) else (*instance.space.names, words.UNKNOWN)
    shares = scores.lost.mean(axis=0)
    order = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    cells = tuple((names[i], float(shares[i])) for i in order)
    figures: dict[str, Any] = {
        "ess": scores.ess,
        "largest_weight": float(scores.weight.max()),
        "uncovered": uncovered,
        "cells": cells,
        "beside": {
            "dm": float((scores.kept + scores.model + scores.guess).mean()),
            "ips": float((scores.kept + scores.weight * asked.log.reward).mean()),
        },
    }
    cut = float(scores.cut.mean())
    is_thin = scores.weight.any() and scores.ess < on.least_ess
    if cut > on.tolerance:
        return asked.refused(
            f"for {percent(cut)} of the rows what would run was so unlikely in the log that its "
            f"weight is above {MOST_WEIGHT:g}; the outcome model alone would speak for them.",
            *needed,
            changed=changed,
            **figures,
        )
    size = float(np.ptp(asked.log.reward))
    if asked.reward_range is not None:
        size = asked.reward_range[1] - asked.reward_range[0]
    rare = in_words_if_rare(
        scores.rare, size, scores.least_error(asked.log.reward, asked.log.cluster)
    )
    if rare:
        return asked.refused(f"{rare}.", *needed, changed=changed, **figures)
    if uncovered <= on.tolerance and not is_thin:
        return asked.exactly(scores.covered + scores.guess, changed, **figures)
    why = words.of_uncovered(cells)
    if asked.private and instance.chain.has_person and not isinstance(asked.question, Propose):
        why = f"In {percent(uncovered)} of the rows something else would have run, and persons may "
        why += "have known what it was worth."
        needed = ("outcomes of proposals that were let pass at random",)
    if is_thin:
        why += f" Only {scores.ess:.0f} effective rows stand for the changed ones."
    is_bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
    if not is_bounded:
        return asked.refused(
            f"{why} Between what rewards lie is not declared.",
            "the range of rewards (reward_range)",
            *needed,
            changed=changed,
            **figures,
        )
    if uncovered > on.most_uncovered or is_thin:
        return asked.refused(
            f"{why} A range would say nothing.", *needed, changed=changed, **figures
        )
    least, most = (scores.covered + scores.uncovered * end for end in (low, high))
    return asked.between(least, most, why, changed=changed, needed=needed, **figures)


def _second(asked: Asked) -> Answer:
    """Answer 'two persons must approve'."""
    instance, log, question = asked.instance, asked.log, asked.question
    assert isinstance(question, SecondReviewer)
    place = place_of(instance, question.name)
    persons = [i for i, gate in enumerate(instance.chain.gates) if gate.is_person]
    if place not in persons:
        raise InvalidInput(f"question.name: '{question.name}' is no person")
    if len(persons) > 1:
        return asked.refused(
            "the chain has more than one person already, and the log does not tell their answers "
            "apart from each other's proposals.",
            "a chain with one person",
        )
    approved = (
        is_approved(instance, log) if log.statuses is None else (log.statuses[:, place] == PASSED)
    )
    n_yes, n_no = int(approved.sum()), int((~approved).sum())
    if n_no == 0:
        return asked.exactly(log.reward, 0.0)
    least = asked.conditions.least_ess
    if n_yes < least or (n_no < least and question.otherwise == "own"):
        return asked.refused(
            f"the reviewer approved {n_yes} rows and did not approve {n_no}; {least:.0f} of each "
            "are needed.",
            "more rows",
        )
    features = asked.known.features
    why = (
        f"The reviewer approved {percent(n_yes / log.n)}; that two would, lies between what the "
        "one allows (Fréchet), and nothing in the log says where."
    )
    if not asked.private:
        rho = question.correlation
        low, high, changed = reviewer_scores(features, approved, question.otherwise, rho)
        if rho is not None:
            return asked.exactly(low, changed)
        return asked.between(low, high, why, changed=changed)
    ends = of_arms(instance, log, asked.reward_range)
    if question.otherwise == "own" and not all(np.isfinite(end).all() for end in ends):
        return asked.refused(
            "reviewers may have known more, and between what rewards lie is not declared.",
            "the range of rewards (reward_range)",
        )
    low, high = private_scores(features, approved, question.otherwise, *ends)
    _, _, changed = reviewer_scores(features, approved, question.otherwise, None)
    return asked.between(low, high, why, changed=changed)
