"""How much of two policies' difference the gates let through: η on arm cells.

Cells are the K arms (an action within half a step of one), K 'off every arm' and K + 1 'nothing
runs'. With P the kernel on cells, η = max over arms a, b of ½‖P_a − P_b‖₁, the Dobrushin
coefficient, and TV(π₀P, π₁P) ≤ η·TV(π₀, π₁) for any two policies π₀, π₁ over the arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.credit import HALF_STEP
from gdcb.errors import ValuationError
from gdcb.instance import Instance
from gdcb.parts import check_number
from gdcb.records import Rows

PIECES = 256  # into which the law of a person's own number is cut
_BLOCK = 64  # rows at a time: a person's own action is valued at thousands of points a row


def arm_cells(instance: Instance, e: Array, delta: Array, x: Array) -> Array:
    """Return the cell of actions e (N, M, D) under δ: (N, M), 0 to K + 1.

    The arm within half a step; K where there is none; K + 1 where nothing runs. Arms at the same
    place share the cell of the first of them.
    """
    k = instance.space.n
    runs: Array = np.asarray(np.isfinite(e).all(axis=-1))
    located = instance.composition.locate(instance.space, e, delta, x)
    near = (located.arm >= 0) & (located.steps <= HALF_STEP)
    return np.where(runs, np.where(near, located.arm, k), k + 1).astype(np.int64)


@dataclass(slots=True)
class InCell:
    """1 on the actions of one cell, 0 elsewhere: it jumps, so persons are integrated finely."""

    instance: Instance
    delta: Array
    x: Array
    cell: int
    pieces: int = PIECES

    def take(self, index: Array) -> InCell:
        """Return the same for some rows."""
        delta, x = self.delta[index], self.x[index]
        return InCell(self.instance, delta, x, self.cell, self.pieces)

    def __call__(self, e: Array) -> Array:
        """Say of actions (N, M, D) which are in the cell."""
        try:
            cells = arm_cells(self.instance, e, self.delta, self.x)
            return np.where(cells == self.cell, 1.0, 0.0)
        except Exception as error:  # not the gate's fault: it must not read as a veto
            raise ValuationError(f"{type(error).__name__}: {error}") from error


def cell_kernel(
    instance: Instance,
    rows: Rows,
    delta: Array,
    kernels: tuple[Any, ...] | None = None,
    *,
    pieces: int = PIECES,
) -> Array:
    """Return the gates' kernel on arm cells, P(cell executed | arm proposed, x): (N, K, K + 2).

    Each cell's indicator goes through the chain's own `expect`, so persons are integrated and not
    sampled, learned kernels count as the bandit believes them, and a gate that fails lets nothing
    run. It costs K + 2 calls of `expect`.

    Exact for hard gates, for simulated persons and for tables of categories. A person whose own
    number is learned (`NumberKernel`) has a normal law, which is integrated: to about 10⁻⁶ where
    no cell is hit with a chance below 1/`pieces`, else such a cell may be missed, and a row's sum
    says by how much; with several action columns to about 10⁻². The law itself is an estimate: the
    uncertainty of its mean and spread is not in it.

    Parameters
    ----------
    rows, delta : the rows, and their δ (N, 1 or K, q) as in `Decision.delta`
    kernels : what was learned of each gate (`RoundState.kernels`); None: the truth, where known
    pieces : into which the law of a person's own number is cut

    Examples
    --------
    Arms 1, 2 and 4 behind a cap of 2: the last arm runs as the second.

    >>> from gdcb import ArmList, Cap, Multiply, Number, Schema
    >>> instance = Instance(
    ...     context=Schema({"x": Number()}),
    ...     arms=ArmList(values=(1.0, 2.0, 4.0)),
    ...     composition=Multiply(),
    ...     gate=Cap(limit=2.0),
    ... )
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    >>> cell_kernel(instance, rows, np.ones((1, 1, 1)))[0].tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    """
    check_number("pieces", pieces, 16)
    k = instance.space.n
    kernel = np.empty((rows.n, k, k + 2))
    for start in range(0, rows.n, _BLOCK):
        some = slice(start, start + _BLOCK)
        here, scale = rows.take(some), delta[some]
        actions = instance.composition.compose(instance.space, scale, here.x)
        actions = np.where(np.isfinite(actions), actions, np.nan)
        actions.flags.writeable = False
        for cell in range(k + 2):
            inside = InCell(instance, scale, here.x, cell, int(pieces))
            kernel[some, :, cell] = instance.chain.expect(inside, actions, here, kernels)
    return kernel


def dobrushin(kernel: Array, mask: Array | None = None) -> Array:
    """Return η = max over pairs of ½‖P_a − P_b‖₁ of kernels (..., K, C): (...).

    `mask` (..., K) says which arms count; with fewer than two, η is 0.

    >>> dobrushin(np.array([[0.8, 0.2], [0.5, 0.5], [0.6, 0.4]])).round(12).tolist()
    0.3
    """
    allowed = np.ones(kernel.shape[:-1], dtype=bool) if mask is None else mask
    eta = np.zeros(kernel.shape[:-2])
    for a in range(kernel.shape[-2]):
        gap = 0.5 * np.abs(kernel - kernel[..., a : a + 1, :]).sum(axis=-1)
        eta = np.maximum(eta, np.where(allowed & allowed[..., a : a + 1], gap, 0.0).max(axis=-1))
    return np.asarray(eta)
