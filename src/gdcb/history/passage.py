"""What a log's rows went through, gates and outcomes, as the learners' own records."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import Chain
from gdcb.history.batch import Batch
from gdcb.instance import Instance
from gdcb.records import (
    EXPIRED,
    HELD,
    MODIFIED,
    NOT_REACHED,
    PASSED,
    VETOED,
    History,
    Log,
    Rows,
    Verdict,
)

SAME = 1e-9  # relative: two numbers of an action that are the same one


def passed_through(instance: Instance, batch: Batch, unit: Array, group: Array) -> History:
    """Return a batch as finished rows of units and groups (N,), gates included.

    The rows name no arm and no version of the scaler: whoever made the log knew none, and credit
    goes by what ran. Outcomes that were not seen leave NaN in `log.y`; whoever learns leaves such
    rows out. Where the log does not say what was proposed, what ran stands for it, and nothing is
    said of the gates (`History.kernels` is then what is known before the first verdict).
    """
    rows = Rows(unit, group, batch.x)
    ran: Array = np.asarray(np.isfinite(batch.action).all(axis=1))
    verdict = verdict_of(instance, batch, rows)
    null = instance.null.of(batch.x, batch.action.shape[1])
    action = np.where(ran[:, None], batch.action, null)
    y, scale = instance.reward.learn(batch.outcome, batch.x)
    none = np.full(batch.n, -1)
    kernels = None
    if batch.recommended is None:
        n_units, n_groups = int(unit.max(initial=0)) + 1, int(group.max(initial=0)) + 1
        kernels = instance.chain.init_kernels(n_units, n_groups, action.shape[1])
    log = Log(
        unit,
        group,
        batch.x,
        none,
        none,
        action,
        ~ran,
        ran & (verdict.status == PASSED),
        ran & instance.chain.overridden(verdict),
        y,
        scale,
        np.ones(batch.n),
        batch.propensity,
    )
    label = batch.label if instance.scaler.n_labels else None
    return History(log, rows, verdict, kernels, label=label)


def verdict_of(instance: Instance, batch: Batch, rows: Rows) -> Verdict:
    """Work out what each gate did, from what was proposed and what ran.

    Hard gates are known functions and are asked again. Of the rest a log says one thing for all of
    them (`status`), or one a gate (`statuses`). Where it says one thing, the first person is taken
    to have done what the hard gates do not explain.
    """
    chain, n, d = instance.chain, batch.n, batch.action.shape[1]
    n_gates = len(chain.gates)
    ran: Array = np.asarray(np.isfinite(batch.action).all(axis=1))
    entered = batch.action if batch.recommended is None else batch.recommended
    trail = np.full((n, n_gates + 1, d), np.nan)
    statuses = np.full((n, n_gates), NOT_REACHED, dtype=np.int8)
    trail[:, 0] = entered
    if batch.recommended is None:  # nothing is known of the gates
        trail[:, 1:] = entered[:, None]
        status = np.where(ran, PASSED, VETOED).astype(np.int8)
        return Verdict(batch.action, status, trail, statuses, {})
    is_open, is_answered = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    e = entered
    for i, gate in enumerate(chain.gates):
        if gate.is_hard:
            left, found = _through(Chain((gate,), closed=False), e, rows, is_open)
        else:
            behind = Chain(tuple(g for g in chain.gates[i + 1 :] if g.is_hard), closed=False)
            told = _told(batch, i)
            left, found = _answered(behind, e, batch.action, rows, is_open, told, is_answered)
            is_answered |= found != PASSED
        statuses[:, i] = np.where(is_open, found, NOT_REACHED)
        is_open &= (found <= MODIFIED) | ((found == EXPIRED) & ran)
        e = np.where(is_open[:, None], left, np.nan)
        trail[:, i + 1] = e
    trail[:, -1] = np.where(ran[:, None], batch.action, np.nan) if n_gates else trail[:, -1]
    changed = ~_is_same(batch.action, entered) | (statuses == EXPIRED).any(axis=1)
    status = np.where(ran, np.where(changed, MODIFIED, PASSED), VETOED).astype(np.int8)
    if batch.status is not None:
        is_waiting = ~ran & (batch.status >= HELD)
        status = np.where(is_waiting, batch.status, status).astype(np.int8)
    return Verdict(batch.action, status, trail, statuses, {})


def _told(batch: Batch, gate: int) -> Array | None:
    """Return the status that the log gives for this gate (N,), −1: none; None: it says nothing."""
    if batch.statuses is not None:
        return batch.statuses[:, gate]
    return batch.status


def _through(chain: Chain, e: Array, rows: Rows, is_open: Array) -> tuple[Array, Array]:
    """Send e through hard gates; rows that stopped before stay as they are."""
    if not chain.gates:
        return e, np.full(rows.n, PASSED, dtype=np.int8)
    safe = np.where(is_open[:, None], e, np.nan)
    verdict = chain.apply((None,) * len(chain.gates), safe, rows)
    return verdict.action, verdict.status


def _answered(
    behind: Chain,
    e: Array,
    executed: Array,
    rows: Rows,
    is_open: Array,
    told: Array | None,
    is_answered: Array,
) -> tuple[Array, Array]:
    """Work out what a person made of e, from what ran behind the hard gates after them."""
    ran: Array = np.asarray(np.isfinite(executed).all(axis=1))
    unchanged, _ = _through(behind, e, rows, is_open)
    # A person's own action also meets the gates behind them, and one of these may have moved it.
    is_explained = _is_same(unchanged, executed) | _is_same(e, executed) | is_answered
    status = np.where(ran, np.where(is_explained, PASSED, MODIFIED), VETOED)
    if told is not None:
        is_kept = ran & (told == PASSED)
        # An expiry is nobody's answer, also where a declared action ran after it.
        is_other = (~ran & (told >= HELD)) | (told == EXPIRED)
        status = np.where(is_kept, PASSED, np.where(is_other, told, status))
    left = np.where((status == PASSED)[:, None], e, executed)
    return left, status.astype(np.int8)


def _is_same(one: Array, other: Array) -> Array:
    """Whether actions (N, D) are the same, up to rounding: (N,)."""
    near = np.abs(one - other) <= SAME * np.maximum(np.abs(one), np.abs(other))
    return np.asarray((near | (np.isnan(one) & np.isnan(other))).all(axis=1))
