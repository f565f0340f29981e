"""η, the Dobrushin coefficient of gates by formula: how much of two policies' difference passes.

η(x) = max over pairs of proposals of TV(K(· | e, x), K(· | e′, x)). Two policies that differ by
TV in what they recommend differ by at most η·TV in what is executed. η = 0: the gate decides all;
η = 1: nothing is guaranteed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.gates.rules import filled
from gdcb.records import Rows


def is_mixed(e: Array) -> Array:
    """Return whether a row's actions (N, M, D) are not all the same: (N,). Nothing is one action.

    >>> is_mixed(np.array([[[1.0], [2.0]], [[1.0], [1.0]], [[1.0], [np.nan]]])).tolist()
    [True, False, True]
    """
    runs: Array = np.asarray(np.isfinite(e).all(axis=-1, keepdims=True))
    known = np.where(runs, e, 0.0)
    differs = (known != known[:, :1]) | (runs != runs[:, :1])
    return np.asarray(differs.any(axis=(1, 2)))


def contractions(gates: Sequence[Any], e: Array, rows: Rows) -> Array:
    """Return an upper bound of every gate's η on what may reach it from proposals e (N, M, D).

    (N, G). The product over gates bounds the whole chain, because each gate is judged on all that
    the gates before it may let through. A gate that does not say (`reach`, `contraction`), or
    raises, gets 1, and so do those behind it: what reaches them is not known.
    """
    n = e.shape[0]
    eta = np.ones((n, len(gates)))
    reached: Array = e
    for i, gate in enumerate(gates):
        if not hasattr(gate, "reach"):
            return eta
        try:
            eta[:, i], left = _through(gate, reached, rows)
        except Exception:
            if n == 1:
                eta[:, i:] = 1.0
                return eta
            index = [np.array([row]) for row in range(n)]
            return np.concatenate([contractions(gates, e[row], rows.take(row)) for row in index])
        if left is None:
            return eta
        reached = left
    return eta


def _through(gate: Any, e: Array, rows: Rows) -> tuple[Array, Array | None]:
    """Return η of one gate on actions (N, M, D), and all that may leave it."""
    known, runs = filled(e)
    left: Array | None = gate.reach(known, rows)
    # Where something was vetoed before the gate, nothing is one of the actions, and stays so.
    is_lost: Array = np.asarray(~runs.all(axis=1))
    is_there: Array = np.asarray(runs.any(axis=1))
    if left is None:
        return np.where(is_lost, is_there, gate.contraction(known, rows)), None
    left = np.where(is_there[:, None, None], left, np.nan)
    left = np.concatenate((left, np.where(is_lost[:, None, None], np.nan, left[:, :1])), axis=1)
    eta = is_mixed(left).astype(float)
    if not gate.is_hard:
        eta = np.where(is_lost, eta, gate.contraction(known, rows))
    return eta, left
