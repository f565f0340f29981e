"""The people in a chain of gates as a log shows them: how often they approve, what they do else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.gates import Chain, SimulatedPerson
from gdcb.history.batch import Batch
from gdcb.history.passage import passed_through
from gdcb.history.response import Features
from gdcb.instance import Instance
from gdcb.logistic import LogisticPosterior
from gdcb.records import EXPIRED, MODIFIED, PASSED, VETOED, Rows

LEAST = 50  # verdicts, below which a person is not modelled
_FEW = 20  # own actions, below which they are the log's mean
_PENALTY = 10.0  # of every coefficient but the level, on standardised columns
_CERTAIN = 3.0  # standard errors from which own actions are taken to lean on the proposal
_LARGEST = 0.95  # how far they may


@dataclass(frozen=True, eq=False)
class Person:
    """What one person does with proposals, by their context.

    Parameters
    ----------
    features : where actions and columns stand, over all proposals
    approves : (d,) log odds of approval in (1, x, B(e)), degree 2
    own : (1 + p,) relative own action, or (K, 1 + p) a score of every category; None: there is
        no own action in the log, and the proposal stays
    scatter : standard deviation of own actions around it, relative
    anchor : how far own actions lean towards the proposal
    veto : share of the non-approved that is stopped
    """

    features: Features
    approves: Array
    own: Array | None
    scatter: float
    anchor: float
    veto: float

    def chance(self, e: Array, rows: Rows) -> Array:
        """Return the probability of approval of proposals (N, M, D): (N, M)."""
        phi, p = self.features.context(rows.x), len(self.features.columns)
        level = self.approves[0] + (phi * self.approves[1 : 1 + p]).sum(axis=1)
        terms = self.features.basis(e, rows.x, 2) * self.approves[1 + p :]
        return logistic(level[:, None] + terms.sum(axis=2))

    def own_action(self, rows: Rows) -> Array:
        """Return the person's own action: (N, D); NaN columns keep the proposal's."""
        out = np.full((rows.n, len(self.features.instance.actions)), np.nan)
        if self.own is None:
            return out
        phi = self.features.context(rows.x)
        if self.features.is_category:
            score = self.own[:, 0] + (phi[:, None] * self.own[:, 1:]).sum(axis=2)
            out[:, 0] = score.argmax(axis=1)
            return out
        place = self.own[0] + (phi * self.own[1:]).sum(axis=1)
        place = np.clip(place, self.features.low[0], self.features.high[0])
        out[:, 0] = place * self.features.unit(rows.x)[:, 0]
        return out

    def spread(self, rows: Rows) -> Array:
        """Return how far own actions scatter: three points with this spread have half its square.

        (N,), in the action's own unit.
        """
        return np.asarray(2.0**0.5 * self.scatter * self.features.unit(rows.x)[:, 0])

    def simulated(self) -> SimulatedPerson:
        """Return the person as a simulation asks them."""
        spread = 0.0 if self.features.is_category or self.own is None else self.spread
        anchor = 0.0 if self.features.is_category else self.anchor
        return SimulatedPerson(self.chance, self.own_action, spread, self.veto, anchor)


def with_people(
    instance: Instance, batch: Batch, features: Features
) -> tuple[Instance, tuple[str, ...]]:
    """Put the log's people in the place of those whom the instance waits for.

    Returns the instance, and sentences on what was done. Where the log does not say what was
    proposed, nothing is known of the people, and they are left out: the hard gates stay.
    """
    chain = instance.chain
    people = [i for i, gate in enumerate(chain.gates) if not gate.is_hard]
    if not people:
        said = "Only hard gates stand in the chain." if chain.gates else "There is no gate."
        return instance, (said,)
    names = ", ".join(chain.gates[i].name for i in people)
    if batch.recommended is None:
        kept = tuple(gate for gate in chain.gates if gate.is_hard)
        left = "the hard gates stay" if kept else "no gate is left"
        return replace(instance, gate=Chain(kept)), (
            f"The log does not say what was proposed, so that nothing is known of {names}: {left}.",
        )
    if len(people) > 1:
        raise InvalidInput(
            f"gates: {names} are people, and one log of one outcome does not tell their answers "
            "apart; the protocol runs a chain with one person"
        )
    at = people[0]
    found, said = person_of(instance, batch, features, at)
    gates = list(chain.gates)
    gate: Any = gates[at]
    gates[at] = replace(gate, person=found.simulated())
    return replace(instance, gate=Chain(tuple(gates), closed=chain.closed)), (said,)


def person_of(instance: Instance, batch: Batch, features: Features, at: int) -> tuple[Person, str]:
    """Fit what the person at place `at` of the chain did in the log."""
    none = np.zeros(batch.n, dtype=np.int64)
    past = passed_through(instance, batch, none, none)
    gate: Any = instance.chain.gates[at]
    entered, left = past.verdict.trail[:, at], past.verdict.trail[:, at + 1]
    status = past.verdict.statuses[:, at]
    asked = np.isin(status, (PASSED, MODIFIED, VETOED, EXPIRED)) & np.isfinite(entered).all(axis=1)
    if hasattr(gate, "flags"):
        safe = np.where(np.isfinite(entered), entered, 0.0)
        asked &= gate.flags(safe[:, None], past.rows)[:, 0]
    n = int(asked.sum())
    if n < LEAST:
        raise InvalidInput(
            f"gate '{gate.name}': the log has {n} answers of this person, and a model of them "
            f"needs {LEAST}"
        )
    entered, left, status, x = entered[asked], left[asked], status[asked], batch.x[asked]
    wide = _widened(features, entered, x)
    approved = status == PASSED
    phi = wide.context(x)
    one = np.ones((n, 1))
    design = np.concatenate((one, phi, wide.basis(entered[:, None], x, 2)[:, 0]), axis=1)
    precision = np.concatenate(([0.1], np.full(design.shape[1] - 1, _PENALTY)))
    fit = LogisticPosterior.fit(design, approved.astype(float), None, 0.0, precision)
    stopped = (status == VETOED) | (status == EXPIRED)
    veto = float(stopped.sum() / max(1, (~approved).sum()))
    changed = (status == MODIFIED) & np.isfinite(left).all(axis=1)
    own, scatter, anchor = _own(wide, entered[changed], left[changed], x[changed])
    person = Person(wide, fit.mean[0], own, scatter, anchor, veto)
    said = (
        f"'{gate.name}' is a model of the log's {n:,} answers: {100 * approved.mean():.0f} % "
        f"approved, {100 * changed.mean():.0f} % changed, {100 * stopped.mean():.0f} % stopped"
    )
    if anchor:
        said += f"; own actions lean towards the proposal by {100 * anchor:.0f} %"
    return person, f"{said}."


def _widened(features: Features, entered: Array, x: Array) -> Features:
    """Return features whose range holds the proposals too: a person has seen those."""
    if features.is_category:
        return features
    place = features.place(entered[:, None], x)[:, 0]
    low, high = np.quantile(place, (0.005, 0.995), axis=0)
    return replace(
        features, low=np.minimum(features.low, low), high=np.maximum(features.high, high)
    )


def _own(
    features: Features, entered: Array, left: Array, x: Array
) -> tuple[Array | None, float, float]:
    """Fit own actions on context: coefficients, scatter, and how far they lean on the proposal."""
    n = x.shape[0]
    if n == 0:
        return None, 0.0, 0.0
    phi = features.context(x) if n >= _FEW else np.zeros((n, len(features.columns)))
    design = np.concatenate((np.ones((n, 1)), phi), axis=1)
    penalty = np.concatenate(([1e-6], np.full(design.shape[1] - 1, _PENALTY)))
    if features.is_category:
        wanted = (left[:, :1] == np.arange(features.instance.space.n)).astype(float)
        return _solve(design, wanted, penalty)[0].T, 0.0, 0.0
    place = features.place(left[:, None], x)[:, 0, 0]
    shown = features.place(entered[:, None], x)[:, 0, :1]
    middle = float(shown.mean())
    both = np.concatenate((design, shown - middle), axis=1)
    if n >= _FEW:
        found, inverse = _solve(both, place[:, None], np.append(penalty, 1e-6))
        rest = place - both @ found[:, 0]
        error = float(np.sqrt(inverse[-1, -1] * (rest**2).mean()))
        anchor = min(float(found[-1, 0]), _LARGEST)
        if anchor > _CERTAIN * error:
            alone = found[:-1, 0].copy()
            alone[0] -= anchor * middle
            return alone / (1.0 - anchor), float(rest.std()), anchor
    found, _ = _solve(design, place[:, None], penalty)
    return found[:, 0], float((place - design @ found[:, 0]).std()), 0.0


def _solve(design: Array, y: Array, penalty: Array) -> tuple[Array, Array]:
    """Return ridge coefficients (d, m) and the inverse of the penalised gram (d, d)."""
    inverse = np.linalg.inv(design.T @ design + np.diag(penalty))
    return inverse @ (design.T @ y), inverse
