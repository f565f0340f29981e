"""Weights for labels that are seen selectively: the inverse chance that a label is seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior
from gdcb.parts import check_number


@dataclass(frozen=True, eq=False)
class Selection:
    """Weights of seen labels, and what became of the large ones.

    Parameters
    ----------
    weight : (N,) stabilised weights, 0 where no label was seen
    chance : (N,) estimated chance that a label is seen
    share_clipped : share of the seen rows whose weight was cut
    n_effective : (Σw)²/Σw², the rows that the weighted ones are worth
    """

    weight: Array
    chance: Array
    share_clipped: float
    n_effective: float


def selection_weights(
    x: Array, is_seen: Array, clip: float = 10.0, penalty: float = 1.0
) -> Selection:
    """Return weights that make the seen rows stand for all rows: mean chance / chance given x.

    The chance is a logistic ridge regression of `is_seen` on (1, standardised x), the intercept
    free. Stabilised by the overall share of seen rows the weights are about 1 on average; those
    above `clip` are cut there.

    Parameters
    ----------
    x : (N, p) what the chance may depend on
    is_seen : (N,) whether the row's label was seen
    clip : largest weight
    penalty : prior precision of the standardised slopes

    Notes
    -----
    Assumes: whether a label is seen depends on x alone (missing at random), the log odds of it
    are linear in x, and every context has some chance.

    Stops applying: where a label is missing because of what it would say, no weight helps. Where
    a chance comes near 0 few rows stand for many: cut weights trade that variance for bias, and
    `share_clipped` and `n_effective` say how much.

    Examples
    --------
    Without x to tell them apart, seen rows are as good as any: half are seen, weights are 1.

    >>> found = selection_weights(np.zeros((4, 1)), np.array([True, False, True, False]))
    >>> found.weight.round(9).tolist(), found.share_clipped, round(found.n_effective, 9)
    ([1.0, 0.0, 1.0, 0.0], 0.0, 2.0)
    """
    x, seen = np.asarray(x, dtype=float), np.asarray(is_seen)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise InvalidInput(f"x: expected rows of finite numbers, got shape {x.shape}")
    if seen.shape != x.shape[:1] or seen.dtype != np.bool_:
        raise InvalidInput(
            f"is_seen: expected {x.shape[0]} booleans, got {seen.dtype} {seen.shape}"
        )
    if not seen.any():
        raise InvalidInput("is_seen: expected at least one label that was seen")
    check_number("clip", clip, 1.0)
    check_number("penalty", penalty, 0.0, open_low=True)
    spread = x.std(axis=0)
    phi = np.column_stack(
        (np.ones(x.shape[0]), (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1))
    )
    precision = np.full(phi.shape[1], penalty)
    precision[0] = 1e-6  # the overall share is what it is: only slopes are shrunk
    fit = LogisticPosterior.fit(phi, seen.astype(float), None, 0.0, precision)
    chance = logistic(phi @ fit.mean[0])
    raw = seen.mean() / np.maximum(chance, 1e-12)
    weight = np.where(seen, np.minimum(raw, clip), 0.0)
    share = float((raw[seen] > clip).mean())
    return Selection(weight, chance, share, float(weight.sum() ** 2 / (weight**2).sum()))
