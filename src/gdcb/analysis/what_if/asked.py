"""A question on its way: what is known of the log, on which conditions, and how to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gdcb.analysis.interval import Interval
from gdcb.analysis.off_policy.bootstrap import effective_others
from gdcb.analysis.off_policy.no_interval import LEAST_OTHERS
from gdcb.analysis.what_if import words
from gdcb.analysis.what_if.answer import Answer, percent
from gdcb.analysis.what_if.coverage import NEAR, ran_nearby
from gdcb.analysis.what_if.laws import Laws, learn_laws
from gdcb.analysis.what_if.log import GatedLog
from gdcb.analysis.what_if.means import Features, Means, fit_means
from gdcb.analysis.what_if.questions import Question
from gdcb.analysis.what_if.scores import limits, outer
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.parts import check_number
from gdcb.streams import check_seed


@dataclass(frozen=True)
class Conditions:
    """When an answer is a value, when a range, and when there is none.

    Parameters
    ----------
    level, draws, seed : of the bootstrap intervals
    near : contexts nearest to a row that count as comparable
    tolerance : share of rows that may run what never ran in comparable contexts before a value
        becomes a range; the outcome model speaks for them. Also the share of rows that may
        contradict the declared gates
    most_uncovered : share of such rows beyond which even the range is refused
    least_ess : effective rows that must stand for the changed ones
    """

    level: float = 0.95
    draws: int = 1000
    seed: int = 0
    near: int = NEAR
    tolerance: float = 0.01
    most_uncovered: float = 0.5
    least_ess: float = 30.0

    def __post_init__(self) -> None:
        check_number("level", self.level, 0.5, 1.0 - 1e-9)
        check_number("draws", self.draws, 20)
        check_seed(self.seed)
        check_number("near", self.near, 1)
        check_number("tolerance", self.tolerance, 0.0, 0.5)
        check_number("most_uncovered", self.most_uncovered, 0.0, 1.0)
        check_number("least_ess", self.least_ess, 1.0)


class Known:
    """What is learned of a log, once for all questions, when the first of them needs it."""

    def __init__(self, instance: Instance, log: GatedLog, law: Array | None, near: int) -> None:
        self._log, self._law, self._near = log, law, near
        self._instance = instance

    @cached_property
    def features(self) -> Features:
        """Features of actions in their contexts."""
        return Features.of(self._instance, self._log)

    @cached_property
    def means(self) -> Means:
        """Outcome model, cross-fitted."""
        return fit_means(self.features)

    @cached_property
    def laws(self) -> Laws:
        """Laws of proposals, persons and cells."""
        return learn_laws(self.features, self._law)

    @cached_property
    def nearby(self) -> Array:
        """Which cells ran in comparable contexts: (N, K + 2)."""
        return ran_nearby(self.features, self._instance.space.n + 2, self._near)


@dataclass(slots=True)
class Asked:
    """What is asked of what, on which conditions."""

    instance: Instance
    log: GatedLog
    question: Question
    known: Known
    conditions: Conditions
    reward_range: tuple[float, float] | None
    private: bool

    def interval(self, score: Array, what: str) -> Interval:
        """Return the mean of scores with its interval; `what` it is of, in words."""
        on = self.conditions
        return limits(score, self.log.cluster, on.level, on.draws, on.seed, self.covers(what))

    def covers(self, what: str) -> str:
        """Say what an interval covers, and what it takes for granted."""
        rows = "rows" if self.log.cluster is None else "clusters"
        said = words.assumptions(self.question, self.instance, self.private)
        return f"{what}, if {rows} are independent, effective rows are many, and " + "; ".join(said)

    def answer(self, kind: str, says: str, **figures: Any) -> Answer:
        """Answer with these figures; what is not given does not apply."""
        filled: dict[str, Any] = {
            "value": None,
            "difference": None,
            "identified": None,
            "changed": 0.0,
            "ess": None,
            "largest_weight": None,
            "uncovered": 0.0,
            "cells": (),
            "beside": {},
            "needed": (),
        } | figures
        return Answer(
            kind=kind,
            question=str(self.question),
            says=says,
            happened=float(self.log.reward.mean()),
            rows=self.log.n,
            left_out=self.log.left_out,
            assumes=words.assumptions(self.question, self.instance, self.private),
            level=self.conditions.level,
            **filled,
        )

    def refused(self, why: str, *needed: str, **figures: Any) -> Answer:
        """Say why there is no answer, and what would be needed."""
        return self.answer("refused", words.of_refusal(why), needed=needed, **figures)

    def too_alike(self, **figures: Any) -> Answer | None:
        """Refuse where the rewards of the log differ too little for an interval."""
        log = self.log
        others = effective_others(log.reward, np.ones(log.n), log.cluster)
        if others >= LEAST_OTHERS:
            return None
        rows = "rows" if log.cluster is None else "clusters"
        figures.pop("needed", None)
        return self.refused(
            f"only {others:.2g} effective {rows} have another reward than the most common one, too "
            "few to tell the noise of the rest",
            f"at least {LEAST_OTHERS:g} {rows} with another reward than the most common one",
            **figures,
        )

    def between(self, low: Array, high: Array, why: str, **figures: Any) -> Answer:
        """Answer with the range of two ends' scores."""
        refusal = self.too_alike(**figures)
        if refusal is not None:
            return refusal
        on, r = self.conditions, self.log.reward
        given = (self.log.cluster, on.level, on.draws, on.seed)
        value, identified = outer(low, high, *given, self.covers(words.THE_RANGE))
        difference, _ = outer(low - r, high - r, *given, self.covers(words.THE_RANGE_LESS))
        says = words.of_range(difference, value, identified, float(r.mean()), why)
        return self.answer(
            "range", says, value=value, difference=difference, identified=identified, **figures
        )

    def exactly(self, score: Array, changed: float, **figures: Any) -> Answer:
        """Answer with the mean of scores."""
        refusal = self.too_alike(changed=changed, **figures)
        if refusal is not None:
            return refusal
        value = self.interval(score, words.THE_VALUE)
        difference = self.interval(score - self.log.reward, words.THE_DIFFERENCE)
        said = f"something else would have run in {percent(changed)} of the rows"
        happened = float(self.log.reward.mean())
        says = words.of_value(difference, value, happened, self.conditions.level, said)
        return self.answer(
            "value", says, value=value, difference=difference, changed=changed, **figures
        )
