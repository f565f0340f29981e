"""After launch: how far what is executed has moved from the history it started from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.certificate import Certificate
from gdcb.history.passage import passed_through
from gdcb.parts import check_number

MARGIN = 0.3


@dataclass(frozen=True, slots=True)
class Launch:
    """Total variation of executed arms between a history and what came after it.

    Parameters
    ----------
    variation : TV within strata of contexts, averaged over those met after launch; noise adds to it
    high, level : its upper confidence limit
    margin : what was agreed to
    rows : after launch
    unmet : share of these rows in strata that the history lacks; they count as all different
    says : one sentence
    """

    variation: float
    high: float
    level: float
    margin: float
    rows: int
    unmet: float
    says: str

    @property
    def is_within(self) -> bool:
        """Whether the limit lies within the margin."""
        return self.high <= self.margin


def after_launch(
    certificate: Certificate, batch: Batch, *, level: float = 0.95, margin: float = MARGIN
) -> Launch:
    """Compare what is executed with the history, within strata of contexts.

    The strata, arms and δ̂ are those of the certificate. `batch` is what came after, such as
    `recent_rows(agent)`. See `variation_limit` for the limit.
    """
    check_number("margin", margin, 0.0, 1.0, open_low=True)
    plan, statistics = certificate.plan, certificate.statistics
    if statistics is None or batch.n == 0:
        raise InvalidInput("launch: expected a certificate with its sums, and at least one row")
    history = passed_through(plan.instance, batch, np.zeros_like(batch.unit), 0 * batch.unit)
    log = history.log
    unit = np.minimum(batch.unit, plan.units - 1)  # a unit that the history did not have
    arm, _ = plan.place(log.action, log.is_null, plan.delta(unit, batch.x), batch.x)
    ran = np.flatnonzero(~log.is_null)
    before = statistics.seen[..., 0].sum(axis=0)
    after = np.zeros_like(before)
    np.add.at(after, (plan.stratum(plan.features(batch.x))[ran], arm[ran]), 1.0)
    if not ran.size:
        raise InvalidInput("launch: nothing ran after launch")
    variation, high, unmet = variation_limit(before, after, level)
    word = "within" if high <= margin else "beyond"
    says = (
        f"In comparable contexts what is executed differs from the history in {variation:.0%} of "
        f"the decisions, and in at most {high:.0%} at {level:.0%} confidence: {word} the margin "
        f"of {margin:.0%}."
    )
    return Launch(variation, high, level, margin, int(ran.size), unmet, says)


def variation_limit(before: Array, after: Array, level: float) -> tuple[float, float, float]:
    """Return TV between two tables of counts (strata, cells), its upper limit, and the share unmet.

    TV̂ = Σ_s w_s·½‖p̂_s − q̂_s‖₁, w_s the strata's shares after. With A_s the set of cells on which
    p_s exceeds q_s, TV̂ ≥ Σ_s w_s(p̂_s(A_s) − q̂_s(A_s)), whose mean is TV: by Hoeffding it lies
    below TV − c with probability at most exp(−2c²/Σ_s w_s²(1/n_s + 1/m_s)). A stratum that one
    side lacks counts as wholly different.

    Examples
    --------
    One stratum, 100 rows each, 80 and 60 of them in the first cell: 0.2, and at most
    0.2 + √(½·ln 20·0.02) = 0.2 + 0.1731.

    >>> found = variation_limit(np.array([[80.0, 20.0]]), np.array([[60.0, 40.0]]), 0.95)
    >>> [round(value, 4) for value in found]
    [0.2, 0.3731, 0.0]
    """
    check_number("level", level, 0.5, 1.0 - 1e-12)
    n, m = before.sum(axis=1), after.sum(axis=1)
    weight = m / max(float(m.sum()), 1.0)
    met = np.flatnonzero((n > 0) & (m > 0))
    gap = 0.5 * np.abs(before[met] / n[met, None] - after[met] / m[met, None]).sum(axis=1)
    unmet = float(weight[(m > 0) & (n == 0)].sum())
    variation = float((weight[met] * gap).sum()) + unmet
    spread = float((weight[met] ** 2 * (1.0 / n[met] + 1.0 / m[met])).sum())
    slack = math.sqrt(0.5 * math.log(1.0 / (1.0 - level)) * spread)
    return variation, min(1.0, variation + slack), unmet
