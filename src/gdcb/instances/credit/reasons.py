"""Adverse-action reasons: the factors that were actually used, for who pays more or gets nothing.

The rate of an offer is list rate · δ · a, and log δ = Σⱼ θⱼ(φⱼ − φ̄ⱼ): what every factor of an
applicant adds, against the average applicant φ̄ that the scaler is centred on. The levels of a
category are one factor. Contributions add up to log δ exactly, so a reason is never a story told
beside the model. What is left of the rate is a, the price level that the learner chose by what
it expects of take-up at each rate, the scorecard's probability of default and the cost of funds.
That choice is drawn, and has no parts that add up: the notice gives it as a whole, says who chose
it, and by what; where it raised the rate more than the factors did, it stands first. Regulation B
(12 CFR 1002.9(b)(2)) asks for the principal reasons, specific and those actually used; its
commentary holds that more than four are not likely to help the applicant.

Whose rate was raised to what covers cost and expected loss, or who gets no offer because that lies
above the cap, was judged by the scorecard's probability of default and not by the spread. Their
reasons are the factors of the scorecard, again against the average applicant: contributions to the
log odds of default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import Conflict, InvalidInput, UnknownDecision
from gdcb.instance import Instance
from gdcb.instances.credit.columns import AMOUNT, BASE, CAP, FEATURES, FLOOR, PD, SCHEMA
from gdcb.instances.credit.drawn import factor_scores
from gdcb.records import Rows, Verdict

if TYPE_CHECKING:
    from gdcb.agent import Agent

MOST = 4  # principal reasons
_LEAST = 0.005  # of log δ: half a per cent of the rate is no principal reason
FACTORS = tuple(dict.fromkeys(name.split("=")[0] for name in FEATURES))
SCORED = tuple(dict.fromkeys(name.split("=")[0] for name in SCHEMA.names[: AMOUNT + 1]))

SENTENCES = {
    "checking": {
        "none": "no checking account with us",
        "overdrawn": "checking account overdrawn",
        "low": "low balance of the checking account",
        "high": "balance of the checking account",
    },
    "history": {
        "poor": "delays in the past, or debts elsewhere",
        "clean": "no loan repaid with us so far",
        "proven": "loans repaid with us",
    },
    "savings": {
        "none": "no savings known to us",
        "little": "little savings",
        "good": "savings",
    },
    "employment": {
        "short": "less than a year in the present employment",
        "medium": "less than four years in the present employment",
        "long": "years in the present employment",
    },
    "purpose": {
        "car_new": "what the loan is for",
        "car_used": "what the loan is for: a used car",
        "household": "what the loan is for: household goods",
        "other": "what the loan is for",
    },
    "plans": {"1": "instalment plans elsewhere", "0": "no instalment plans elsewhere"},
    "guarantor": {"1": "somebody stands surety", "0": "nobody stands surety"},
}
NUMBERS = {"amount": "amount asked for"}
PRICED = "price level that our policy chose for this application"


@dataclass(frozen=True)
class Reasons:
    """Why an applicant was offered what they were.

    Parameters
    ----------
    action : 'declined' (no offer), 'repriced' (dearer than the list rate, or moved by a gate) or
        'standard'
    apr : the rate that was offered; None: nothing was
    log_delta : log δ, the sum of the contributions
    contributions : what every factor adds to log δ, all of them, largest first
    score : the same for the log odds of default, where the scorecard set the rate or declined; else
        empty
    principal : at most four sentences, those that raised the rate most first, the price level that
        the policy chose among them; none where the action is 'standard'
    gate : what a gate said, where it moved the rate or vetoed; else ''
    log_arm : log of the price level that the learner chose: log δ and it add up to the log of what
        was proposed over the list rate
    list_rate, pd : of the application: what the rate starts from, and the scorecard's probability
        of default, which the learner reads
    """

    action: str
    apr: float | None
    log_delta: float
    contributions: dict[str, float]
    score: dict[str, float]
    principal: tuple[str, ...]
    gate: str
    log_arm: float
    list_rate: float
    pd: float

    def __str__(self) -> str:
        """Return them as a notice has them."""
        offer = "no offer" if self.apr is None else f"{self.apr:.2%} a year"
        lines = [f"{self.action}: {offer}, with δ = {np.exp(self.log_delta):.3f}"]
        lines += [f"  {i}. {text}" for i, text in enumerate(self.principal, 1)]
        lines += self._parts() if self.apr is not None else []
        lines += [f"  gate: {self.gate}"] if self.gate else []
        return "\n".join(lines)

    def _parts(self) -> list[str]:
        """Return what makes the proposed rate: the applicant's part, and the policy's."""
        factors, policy = np.expm1([self.log_delta, self.log_arm])
        proposed = self.list_rate * np.exp(self.log_delta + self.log_arm)
        return [
            f"  rate proposed: {proposed:.2%}, from a list rate of {self.list_rate:.2%}",
            f"    by factors of the applicant: {factors:+.1%}",
            f"    by the price level that the policy chose: {policy:+.1%}",
            f"    the policy reads these, the cost of funds and a risk of default of {self.pd:.1%}",
        ]


def contributions(instance: Instance, theta: Array, x: Array) -> Array:
    """Return what every factor adds to log δ: (N, len(FACTORS)).

    Parameters
    ----------
    instance : with the ridge scaler of this domain
    theta : (N, 1 + 10) coefficients in force, the intercept first
    x : (N, p) contexts
    """
    scaler: Any = instance.scaler
    phi = scaler.centred(x)[:, 1:]
    each = theta[:, 1:] * phi
    out = np.zeros((x.shape[0], len(FACTORS)))
    for j, name in enumerate(FEATURES):
        out[:, FACTORS.index(name.split("=")[0])] += each[:, j]
    return out


def score_contributions(x: Array) -> Array:
    """Return what every factor adds to the scorecard's log odds of default: (N, len(SCORED))."""
    each = factor_scores(x)
    out = np.zeros((x.shape[0], len(SCORED)))
    for j, name in enumerate(SCHEMA.names[: AMOUNT + 1]):
        out[:, SCORED.index(name.split("=")[0])] += each[:, j]
    return out


def reasons(instance: Instance, theta: Array, rows: Rows, verdict: Verdict) -> list[Reasons]:
    """Return the reasons of every row, from the coefficients (N, 11) that priced it."""
    _check(instance)
    parts, scores = contributions(instance, theta, rows.x), score_contributions(rows.x)
    out = []
    for i in range(rows.n):
        ran, x = verdict.action[i], rows.x[i]
        apr = float(ran[0]) if np.isfinite(ran).all() else None
        action = "standard"
        is_moved = bool((verdict.trail[i, 0] != verdict.trail[i, -1])[0])
        if apr is None:
            action = "declined"
        elif apr > x[BASE] or is_moved:
            action = "repriced"
        priced: dict[str, float] = _ranked(FACTORS, parts[i])
        scored: dict[str, float] = {}
        gate = instance.chain.reason(verdict, rows, i) if apr is None or is_moved else ""
        log_delta, proposed = float(parts[i].sum()), float(verdict.trail[i, 0, 0])
        log_arm = float(np.log(proposed / x[BASE])) - log_delta if proposed > 0.0 else 0.0
        if apr is None and x[FLOOR] > x[CAP]:
            scored, gate = _ranked(SCORED, scores[i]), _uncovered(x)
        elif apr is not None and proposed < apr:  # raised to what covers the expected loss
            scored = _ranked(SCORED, scores[i])
        raised = scored or (priced if log_delta > 0.0 else {})  # else they made it cheaper
        said = _said(raised, x, 0.0 if scored else log_arm)
        principal = tuple(said[:MOST]) if action != "standard" else ()
        told = (action, apr, log_delta, priced, scored, principal, gate, log_arm)
        out.append(Reasons(*told, list_rate=float(x[BASE]), pd=float(x[PD])))
    return out


def reasons_of(agent: Agent, ids: Sequence[str]) -> list[Reasons]:
    """Return the reasons of decisions of an agent, under the scaler that made them.

    Ask with the decision and keep them with it: once the scaler is refitted, the coefficients that
    priced an earlier one are no longer in force, and this refuses.
    """
    out = []
    scaler: Any = agent.instance.scaler
    for one in ids:
        if one not in agent.records:
            raise UnknownDecision(f"no decision {one}")
        record = agent.records[one]
        if record.verdict is None:
            raise Conflict(f"decision {one} has not met the gates yet")
        state, owner = agent.state.scaler, np.zeros(1, dtype=np.int64)
        priced_by = int(record.made.scaler_version[record.at])
        if int(scaler.version(state, owner)[0]) != priced_by:
            raise Conflict(
                f"decision {one} was priced by version {priced_by} of the scaler, "
                f"which has been refitted since; reasons are asked for with the decision"
            )
        out += reasons(agent.instance, state.theta[:1, 0], record.rows, record.verdict)
    return out


def _ranked(names: tuple[str, ...], adds: Array) -> dict[str, float]:
    """Return contributions by name, largest first."""
    return {names[j]: float(adds[j]) for j in np.argsort(-adds, kind="stable")}


def _said(used: dict[str, float], x: Array, log_arm: float) -> list[str]:
    """Return what raised the rate, or the odds of default, in words, the largest first."""
    adds = {_sentence(factor, x): value for factor, value in used.items()} | {PRICED: log_arm}
    return [text for text in sorted(adds, key=lambda t: -adds[t]) if adds[text] > _LEAST]


def _uncovered(x: Array) -> str:
    return (
        f"no offer: the lowest rate that covers funding and the loss expected at a probability of "
        f"default of {x[PD]:.1%} is {x[FLOOR]:.2%}, above the highest allowed, {x[CAP]:.2%}"
    )


def _sentence(factor: str, x: Array) -> str:
    if factor in NUMBERS:
        return NUMBERS[factor]
    kind = SCHEMA.columns[factor]
    at = SCHEMA.positions[factor]
    levels = getattr(kind, "levels", None)
    level = str(int(x[at[0]])) if levels is None else levels[int(x[at].argmax())]
    return SENTENCES[factor][level]


def _check(instance: Instance) -> None:
    read = [instance.context.names[at] for at in getattr(instance.scaler, "features", ())]
    if tuple(read) != FEATURES:
        raise InvalidInput(f"reasons: expected a scaler that reads {', '.join(FEATURES)}")
