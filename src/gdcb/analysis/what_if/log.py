"""A log of proposals that went through gates, with what ran and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import History, Rows

_SAME = 1e-9  # relative; logs are written with fewer digits than are computed


@dataclass(slots=True)
class GatedLog:
    """N finished rows of which the reward is known; made by `gated_log` or `log_of`.

    Parameters
    ----------
    rows : contexts x (N, p), units and groups
    delta : (N, 1 or K, q) δ under which actions are seen from the arms
    recommended : (N, D) e_rec, what was proposed before any gate
    executed : (N, D) what ran, the null action included; NaN: nothing ran
    reward : (N,) r, finite
    cell, proposed : (N,) arm cells of what ran and of what was proposed (`arm_cells`)
    statuses : (N, G) what became of the proposal at each gate, or None
    trail : (N, G + 1, D) what entered each gate and what left the last, or None
    cluster : (N,) rows that depend on each other share a label; None: rows are independent
    left_out : rows of the log whose reward was not seen
    """

    rows: Rows
    delta: Array
    recommended: Array
    executed: Array
    reward: Array
    cell: Array
    proposed: Array
    statuses: Array | None = None
    trail: Array | None = None
    cluster: Array | None = None
    left_out: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n


def gated_log(
    instance: Instance,
    x: Any,
    recommended: Any,
    executed: Any,
    reward: Any,
    *,
    delta: Any = None,
    unit: Any = None,
    statuses: Any = None,
    trail: Any = None,
    cluster: Any = None,
) -> GatedLog:
    """Make a log of plain columns; refuse what has the wrong shape or is not finite.

    Parameters
    ----------
    x : (N, p) context as the instance's schema encodes it
    recommended : (N, D) what was proposed; where no gate stood in the way, what ran
    executed : (N, D) what ran; a row of NaN: nothing was let through, so the null action ran
    reward : (N,) what it was worth; NaN: not seen, the row is left out and counted
    delta : (N, 1 or K, q) the scaler's output; None: that of the scaler before it has learned
    unit : (N,) whose decision it was; None: one unit. They share a group
    statuses : (N, G) `gdcb.records.STATUS` by number at each gate; None: inferred where possible
    trail : (N, G + 1, D) what entered each gate and left the last, as in `Verdict`
    cluster : (N,) rows of a cluster are not independent (a day, a customer)

    Examples
    --------
    Two proposals behind a cap of 2: the second ran as 2, the arm 2's cell.

    >>> from gdcb import ArmList, Cap, Multiply, Number, Schema
    >>> instance = Instance(
    ...     context=Schema({"x": Number()}),
    ...     arms=ArmList(values=(1.0, 2.0, 4.0)),
    ...     composition=Multiply(),
    ...     gate=Cap(limit=2.0),
    ... )
    >>> log = gated_log(instance, [[0.0], [0.0]], [[1.0], [4.0]], [[1.0], [2.0]], [0.5, 0.7])
    >>> log.proposed.tolist(), log.cell.tolist()
    ([0, 2], [0, 1])
    """
    context = _numbers("x", x, 2)
    n, d, gates = context.shape[0], len(instance.actions), len(instance.chain.gates)
    e_rec = _numbers("recommended", recommended, 2, (n, d))
    e_exec = _numbers("executed", executed, 2, (n, d), may_miss=True)
    r = _numbers("reward", reward, 1, (n,), may_miss=True)
    units = np.zeros(n, dtype=np.int64) if unit is None else np.asarray(unit)
    rows = Rows(units, np.zeros(n, dtype=np.int64), context)
    instance.check_rows(rows, int(units.max(initial=0)) + 1)
    scale = _delta(instance, delta, rows)
    if statuses is not None:
        statuses = np.asarray(statuses)
        if statuses.shape != (n, gates) or statuses.dtype.kind not in "iu":
            raise InvalidInput(
                f"statuses: expected {(n, gates)} whole numbers, got {statuses.dtype} of shape "
                f"{statuses.shape}"
            )
    if trail is not None:
        trail = _numbers("trail", trail, 3, (n, gates + 1, d), may_miss=True)
    if cluster is not None:
        cluster = np.asarray(cluster)
        if cluster.shape != (n,):
            raise InvalidInput(f"cluster: expected one label a row ({n}), got {cluster.shape}")
    e_exec = nulled(instance, e_exec, context)
    cells = arm_cells(instance, np.stack((e_rec, e_exec), axis=1), scale, context)
    seen = np.isfinite(r)
    if not seen.any():
        raise InvalidInput("reward: expected rows with a reward, got none")
    whole = GatedLog(
        rows, scale, e_rec, e_exec, r, cells[:, 1], cells[:, 0], statuses, trail, cluster
    )
    return whole if seen.all() else _kept(whole, np.flatnonzero(seen))


def log_of(instance: Instance, history: History, reward: Any, delta: Any = None) -> GatedLog:
    """Make a log of a `History`, whose verdict has the whole trail; `reward` (N,), NaN: unseen."""
    verdict, rows = history.verdict, history.rows
    return gated_log(
        instance,
        rows.x,
        verdict.trail[:, 0],
        history.log.action,
        reward,
        delta=delta,
        unit=rows.unit,
        statuses=verdict.statuses,
        trail=verdict.trail,
    )


def nulled(instance: Instance, e: Array, x: Array) -> Array:
    """Return actions (N, D) with the null action in place of what does not run."""
    stops = ~runs_at(e)
    return np.where(stops[:, None], instance.null.of(x, e.shape[1]), e)


def is_same(one: Array, other: Array) -> Array:
    """Return which actions (..., D) are the same, nothing and nothing included: (...).

    >>> is_same(np.array([[1.0], [np.nan]]), np.array([[1.0 + 1e-12], [np.nan]])).tolist()
    [True, True]
    """
    near = np.abs(one - other) <= _SAME * (1.0 + np.abs(other))
    return np.asarray((near | (np.isnan(one) & np.isnan(other))).all(axis=-1))


def runs_at(e: Array) -> Array:
    """Return which actions (..., D) run at all: (...)."""
    return np.asarray(np.isfinite(e).all(axis=-1))


def _kept(log: GatedLog, index: Array) -> GatedLog:
    def some(part: Array | None) -> Array | None:
        return None if part is None else part[index]

    return GatedLog(
        log.rows.take(index),
        log.delta[index],
        log.recommended[index],
        log.executed[index],
        log.reward[index],
        log.cell[index],
        log.proposed[index],
        some(log.statuses),
        some(log.trail),
        some(log.cluster),
        log.n - index.size,
    )


def _delta(instance: Instance, delta: Any, rows: Rows) -> Array:
    if delta is None:
        scaler = instance.scaler
        owners = int(rows.unit.max()) + 1 if scaler.per == "unit" else 1
        owner = rows.unit if scaler.per == "unit" else rows.group
        return np.asarray(scaler.predict(scaler.init(owners), owner, rows.x))
    scale = _numbers("delta", delta, 3)
    if scale.shape[0] != rows.n or scale.shape[1] not in (1, instance.space.n):
        raise InvalidInput(
            f"delta: expected ({rows.n}, 1 or {instance.space.n}, q), got shape {scale.shape}"
        )
    return scale


def _numbers(
    name: str,
    values: Any,
    ndim: int,
    shape: tuple[int, ...] | None = None,
    may_miss: bool = False,
) -> Array:
    try:
        found = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name}: expected numbers, got {error}") from error
    if found.ndim != ndim or found.shape[0] == 0 or (shape is not None and found.shape != shape):
        expected = f"shape {shape}" if shape else f"{ndim} axes and at least one row"
        raise InvalidInput(f"{name}: expected {expected}, got shape {found.shape}")
    bad = np.isinf(found) if may_miss else ~np.isfinite(found)
    if bad.any():
        what = "finite numbers or NaN" if may_miss else "finite numbers"
        raise InvalidInput(f"{name}: expected {what}, got {found[bad][:3].tolist()}")
    return found
