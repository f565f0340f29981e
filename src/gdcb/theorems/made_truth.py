"""What is true of made logs, by quadrature: values of the arms, bias of a log, private information.

The rows of a log are replaced by points with probabilities: contexts, signals, proposals and the
person's answers. Sums over them are exact up to the rule's error, which is far below what any log
can show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.credit import HALF_STEP
from gdcb.records import Rows
from gdcb.theorems.made_logs import (
    APPROVES,
    ARMS,
    CURVE,
    EDGE,
    FOLLOWS,
    Kind,
    instance_of,
    mean_reward,
    person,
    scattered,
    true_delta,
)

_NODES = 100  # of the trend, by the midpoint rule: prices jump from arm to arm
_PRICES = 200  # quantiles of the incumbent's scatter
_POINTS, _SHARES = np.array([-1.0, 0.0, 1.0]), np.array([0.25, 0.5, 0.25])  # of the person's level
_GATE_AT = 0.6  # share of the log before the gate changes
_LAW_AT = 0.6  # and, on average, before the law does


@dataclass(slots=True)
class Truth:
    """What a log's maker knows of every arm: (K,) each.

    Parameters
    ----------
    value : E[r] over contexts if the arm were always played, today
    mean : E[r | arm] over the rows of a log that are credited to it; NaN: it never ran
    bias : mean − value, what a start without context that believes all rows is wrong by
    share : share of the log's rows that are credited to the arm
    odds_ratio : Λ(a) of the private signal: the largest factor by which it moves the odds that
        the arm ran, given the context; 1: it does not
    """

    value: Array
    mean: Array
    bias: Array
    share: Array
    odds_ratio: Array


def truth_of(kind: Kind, best: float = 1.25) -> Truth:
    """Return the truth of logs of a kind in which c° is `best` today.

    Of the arms at random every seventh row is an arm's, three quarters of which are approved.

    >>> from gdcb.theorems.made_logs import KINDS
    >>> found = truth_of(KINDS["f2"])
    >>> found.share[1].round(4), round(0.75 / 7, 4)
    (np.float64(0.1071), 0.1071)

    On s = 1 the dearest arm runs with 0.75/7 + 0.25, on −1 with 0.75/7, on average with 0.75/7 +
    0.125: odds of 0.556, 0.12 and 0.303, so that the signal moves them by up to 2.52.

    >>> found.odds_ratio[6].round(2)
    np.float64(2.52)
    """
    x, chance = _contexts()
    ran = np.zeros((2, x.shape[0], len(ARMS)))  # P(arm | x, s)
    paid = np.zeros_like(ran)  # E[r; arm | x, s]
    for is_late, span in ((False, _GATE_AT), (True, 1.0 - _GATE_AT)):
        approves = kind.approves_later if is_late else APPROVES
        for i, signal in enumerate((-1.0, 1.0)):
            for heeds, share in ((0.0, 1.0 - kind.heed), (1.0, kind.heed)):
                if share == 0.0:
                    continue
                told = np.tile((signal, approves, heeds, 1.0), (x.shape[0], 1))
                e, p = _executed(kind, x, told)
                arm = _arms(kind, x, e)
                mean = _mean_in_log(kind, x, e, best, kind.signal * signal)
                for k in range(len(ARMS)):
                    here = span * share * p * (arm == k)
                    ran[i, :, k] += here.sum(axis=1)
                    paid[i, :, k] += (here * mean).sum(axis=1)
    value = (chance[:, None] * kind.paid(mean_reward(_composed(kind, x), x, best))).sum(axis=0)
    share = 0.5 * (chance[:, None] * ran.sum(axis=0)).sum(axis=0)
    total = 0.5 * (chance[:, None] * paid.sum(axis=0)).sum(axis=0)
    mean = np.where(share > 0, total / np.where(share > 0, share, 1.0), np.nan)
    return Truth(value, mean, mean - value, share, _odds_ratio(ran))


def best_arms(kind: Kind, best: Array) -> Array:
    """Return the arm that is best on average over contexts, for every c° (R,): (R,).

    No learner without context can do better under the right δ, or under none.
    """
    x, chance = _contexts()
    e = _composed(kind, x)
    worth = [
        (chance[:, None] * kind.paid(mean_reward(e, x, float(one)))).sum(axis=0) for one in best
    ]
    return np.asarray(np.argmax(worth, axis=1))


def best_price(kind: Kind, x: Array, arm: Array) -> Array:
    """Return the price of each row's arm under the right δ, or under none: (N,)."""
    return np.asarray(np.take_along_axis(_composed(kind, x), arm[:, None], axis=1)[:, 0])


def _contexts() -> tuple[Array, Array]:
    """Return points (n, 3) and their probabilities; what says nothing stays at 0."""
    node = (2.0 * np.arange(_NODES) + 1.0) / _NODES - 1.0
    x = np.zeros((2 * _NODES, 3))
    x[:, 0] = np.repeat((-1.0, 1.0), _NODES)
    x[:, 1] = np.tile(EDGE * node, 2)
    return x, np.full(2 * _NODES, 0.5 / _NODES)


def _composed(kind: Kind, x: Array) -> Array:
    """Return the prices of all arms under the right δ, or under none: (N, K)."""
    delta = np.ones(x.shape[0]) if kind.scaler == "none" else true_delta(x)
    return np.asarray(delta[:, None] * np.array(ARMS))


def _executed(kind: Kind, x: Array, told: Array) -> tuple[Array, Array]:
    """Return prices that may run (n, M) and their probabilities, given context and hidden."""
    from scipy.special import ndtri

    delta, approves = true_delta(x), told[:, 1:2]
    if kind.choice == "context":
        scatter = scattered(ndtri((np.arange(_PRICES) + 0.5) / _PRICES))
        offers = delta[:, None] ** FOLLOWS * scatter
    else:
        offers = delta[:, None] * np.array(ARMS)[kind.tried]
    zero, who = np.zeros(x.shape[0], dtype=np.int64), person()
    rows = Rows(zero, zero, x, hidden=told)
    spread = who.spread(rows) if callable(who.spread) else np.full(x.shape[0], who.spread)
    own = who.own(rows) + spread[:, None] * _POINTS
    p_offers = np.broadcast_to(approves / offers.shape[1], offers.shape)
    p_own = (1.0 - approves) * _SHARES
    return np.concatenate((offers, own), axis=1), np.concatenate((p_offers, p_own), axis=1)


def _arms(kind: Kind, x: Array, e: Array) -> Array:
    """Return the arm within half a step of each price, −1: none: (n, M)."""
    instance = instance_of(kind)
    delta = (np.ones(x.shape[0]) if kind.scaler == "none" else true_delta(x))[:, None, None]
    located = instance.composition.locate(instance.space, e[..., None], delta, x)
    return np.where(located.steps <= HALF_STEP, located.arm, -1)


def _mean_in_log(kind: Kind, x: Array, e: Array, best: float, shift: float) -> Array:
    """Return E[r | e, x, s] over the log's time: (n, M)."""
    now = kind.paid(mean_reward(e, x, best) + shift)
    if not kind.law_changes:
        return now
    away = e / true_delta(x)[:, None] - (best - kind.moves)
    old = kind.paid(1.0 - CURVE * away * away + kind.falls + shift)
    return np.asarray(_LAW_AT * old + (1.0 - _LAW_AT) * now)


def _odds_ratio(ran: Array) -> Array:
    """Return the largest factor between the odds of an arm given (x, s) and given x: (K,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds, middle = ran / (1.0 - ran), ran.mean(axis=0)
        ratio = odds / (middle / (1.0 - middle))
        largest = np.maximum(ratio, 1.0 / ratio)
    largest = np.where(middle > 0, largest, 1.0)
    return np.asarray(largest.max(axis=(0, 1)))
