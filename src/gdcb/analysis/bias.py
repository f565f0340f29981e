"""Bias of a context-free posterior: what an arm's contexts in a history add to its mean.

A posterior without context takes an arm's mean over the rows in which it ran. Where an incumbent
chose arms by context, that mean is the arm's value plus b(a): what its contexts were worth beyond
those of the reference sample. Equal marginals are not needed for a warm start, a small b is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.context_models import linear_bias, logistic_bias, unread_logistic_bias
from gdcb.analysis.slopes import ArmRows, sums_at
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.logistic import turn_of
from gdcb.parts import check_choice, check_number

_ROUNDS = 50  # of the scoring of τ²; five are enough where arms are alike
_TINY = 1e-12  # of the noise: an error of 0 is not known to be one


@dataclass(slots=True)
class ContextBias:
    """b̂(a) of every group and arm, and how far the arm's rows should count: (groups, K) each.

    Parameters
    ----------
    bias, standard_error, low, high : b̂(a) and its interval; NaN where the arm has no row,
        infinite limits where a group has too few rows for an error
    n : rows of the arm, Σ of their weights
    n_eff : σ²/(σ²/n + b²), the rows that an unbiased posterior would need to be as near
    weight : n_eff/n, and 1 where the arm has no row
    noise : (groups,) σ², the variance within an arm that a posterior without context sees
    spread : (groups,) τ, the standard deviation of b over the arms
    shared_weight : (groups,) the weight of all rows where arms share parameters, as on a curve.
        The biases of its arms point one way and do not average out, so that the rows of all arms
        count together: 1/(1 + N·b̄²/σ²), N their number and b̄² the mean of b² over them
    """

    bias: Array
    standard_error: Array
    low: Array
    high: Array
    n: Array
    n_eff: Array
    weight: Array
    noise: Array
    spread: Array
    shared_weight: Array

    def of_rows(self, group: Array, arm: Array) -> Array:
        """Return the evidence weight of rows (N,): that of their arm, 1 where arm is −1."""
        return np.where(arm >= 0, self.weight[group, np.maximum(arm, 0)], 1.0)


def context_bias(
    features: Array,
    arm: Array,
    outcome: Array,
    reference: Array,
    *,
    n_arms: int,
    group: Array | None = None,
    row_weight: Array | None = None,
    link: str = "identity",
    folds: int | Array = 5,
    penalty: float = 1.0,
    pooling: float | None = None,
    level: float = 0.95,
    read: Array | None = None,
) -> ContextBias:
    """Estimate b(a) = E_hist[m_res | a] − E_ref[m_res], and weigh each arm's evidence by it.

    m_res(a, x) is what context still explains after scaling and adjusting: v_a + θ_aᵀφ(x), by ridge
    regression with a level for every arm, so that an arm's own value, which may go with its
    contexts, is not taken for an effect of them. The slopes of arms are drawn to a common one,
    θ_a ~ N(θ, σ²/pooling) in standardised features. With link 'logistic' the same is said of the
    log odds of a class: where outcomes are classes and contexts far apart, a straight line leaves
    [0, 1] and its b̂ is off. Cross-fitted: the rows of a fold are valued by the other folds' model,
    b̂(a) = (1/n_a)·Σ_k Σ_{i in k, a} [m̂⁽⁻ᵏ⁾(a, x_i) − E_ref m̂⁽⁻ᵏ⁾(a, X)].

    Its variance is that of the model (for a line cᵀVar(θ̂_a)c, c = φ̄_a − φ̄_ref), plus that of the
    contexts which the arm happened to meet, Var(m̂ | a)/n_a. The reference is what b is measured
    against, and has no error.

    The evidence rule n_eff = σ²/(σ²/n + b²) needs b², and b̂² is too large by the variance of
    b̂: where nothing is confounded it would throw evidence away for noise. So the variance is taken
    off. With b(a) ~ N(0, τ²) over the arms of a group, τ² the maximum of the likelihood of b̂ (0
    where b̂² is no larger than noise), b² is its posterior mean, (s·b̂)² + s·Var b̂ with
    s = τ²/(τ² + Var b̂). With one arm that is b̂² − Var b̂, floored at 0; with more, arms in
    which nothing is seen vouch for each other.

    Parameters
    ----------
    features : (N, p) φ(x) of the history's rows
    arm : (N,) arm that each row is credited to, −1: none, the row says nothing here
    outcome : (N,) what the posterior learns, adjusted where it is; less what the arm explains, if
        the caller has taken that off: the line has a level an arm anyhow. Logistic: within [0, 1]
    reference : (M, p) features of the frozen sample of contexts, or (groups, M, p)
    n_arms : K
    group : (N,) group of each row, which learns by itself; None: one group
    row_weight : (N,) weight of each row, 0: ignore; None: 1
    link : 'identity' for rewards, 'logistic' for classes
    folds : how many (rows of an arm take turns), or the fold of each row (N,)
    penalty : rows that the common slope's ridge is worth
    pooling : rows that the common slope is worth beside an arm's own; None: the one of 4, 20,
        100 and 1,000 that predicts the other folds best, group by group. Where slopes differ
        between arms it draws them too far to each other, and intervals that leave that out hold b
        far less often than they say; with 4 they hold
    level : of the intervals
    read : (p,) logistic: the columns whose log odds the posterior learns itself, arm by arm; b(a)
        is what they leave, E_ref of its own fit to the arm's rows less E_ref of that by all
        columns. None: it learns a mean

    Notes
    -----
    Assumes: m_res, or its log odds, is linear in the features; rows are independent given x;
    nothing outside x chose the arm and moved the outcome too.

    Stops applying: a hidden cause is not seen here, the contrast of overrides is for that. Where
    an arm ran in contexts that no other reached, b̂ extrapolates. The interval leaves out what
    such an m_res cannot say.

    Examples
    --------
    r = 2x exactly. Arm 0 ran at x = 0 and 2, arm 1 at x = 2 and 4; the reference has mean 1, so
    b(0) = 2·(1 − 1) = 0 and b(1) = 2·(3 − 1) = 4.

    >>> x = np.array([0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 4.0, 4.0])
    >>> arm, reference = np.repeat([0, 1], 4), np.array([[0.0], [2.0]])
    >>> found = context_bias(x[:, None], arm, 2 * x, reference, n_arms=2, folds=2, penalty=1e-9)
    >>> found.bias.round(6).tolist(), bool(found.weight[0, 1] < found.weight[0, 0])
    ([[0.0, 4.0]], True)
    """
    check_choice("link", link, ("identity", "logistic"))
    check_number("penalty", penalty, 0.0, open_low=True)
    if pooling is not None:
        check_number("pooling", pooling, 0.0, 1e6, open_low=True)
    check_number("level", level, 0.5, 1.0 - 1e-12)
    rows = _checked(features, arm, outcome, reference, n_arms, group, row_weight, folds)
    if link == "logistic" and ((rows.y < 0) | (rows.y > 1)).any():
        raise InvalidInput("outcome: expected numbers within [0, 1] for the logistic link")
    n, square = _within(rows)
    how = penalty, pooling, freedom_of(n)[0]
    if read is not None:
        bias, error2 = unread_logistic_bias(rows, _columns(read, rows, link), *how)
    else:
        bias, error2 = (linear_bias if link == "identity" else logistic_bias)(rows, *how)
    return weighed(bias, error2, n, square, level)


def _columns(read: Any, rows: ArmRows, link: str) -> Array:
    columns, p = np.asarray(read), rows.phi.shape[1]
    if link != "logistic" or columns.shape != (p,) or columns.dtype != np.bool_:
        raise InvalidInput(
            f"read: expected {p} times true or false, with the logistic link, got {read!r}"
        )
    return columns


def freedom_of(n: Array) -> tuple[Array, Array]:
    """Return the degrees of freedom (G,) of rows n (G, K) within arms, at least 1, and if so."""
    freedom = (n - (n > 0)).sum(axis=1)
    is_known = freedom >= 1.0
    return np.where(is_known, freedom, 1.0), is_known


def weighed(bias: Array, error2: Array, n: Array, square: Array, level: float) -> ContextBias:
    """Weigh the evidence of arms by b̂ and its variance (G, K); see `context_bias`.

    `n` and `square` (G, K) are their rows, and Σ(y − ȳ_a)² around their means.
    """
    is_seen = n > 0
    freedom, is_known = freedom_of(n)
    noise = square.sum(axis=1) / freedom
    error2 = np.where(is_known[:, None], error2, np.inf)

    spread2, square = _second_moment(bias, error2 + _TINY * noise[:, None], is_seen)
    lost = np.where(is_seen, n * square, 0.0)
    weight = 1.0 / (1.0 + lost / np.where(noise > 0, noise, 1.0)[:, None])
    shared = 1.0 / (1.0 + lost.sum(axis=1) / np.where(noise > 0, noise, 1.0))
    bias, error = (np.where(is_seen, part, np.nan) for part in (bias, np.sqrt(error2)))
    half = _quantile(level) * error
    return ContextBias(
        bias,
        error,
        bias - half,
        bias + half,
        n,
        n * weight,
        weight,
        noise,
        spread2**0.5,
        shared,
    )


def _within(rows: ArmRows) -> tuple[Array, Array]:
    """Return Σw, and Σw(y − ȳ_a)² around the arm's mean: (G, K) each."""
    size = rows.shape[0] * rows.shape[1]
    n = np.bincount(rows.place, rows.weight, size)
    mean = np.bincount(rows.place, rows.weight * rows.y, size) / np.where(n > 0, n, 1.0)
    square = np.bincount(rows.place, rows.weight * (rows.y - mean[rows.place]) ** 2, size)
    return n.reshape(rows.shape), square.reshape(rows.shape)


def _second_moment(bias: Array, error2: Array, is_seen: Array) -> tuple[Array, Array]:
    """Return τ² (G,) of b ~ N(0, τ²) over a group's arms, and E[b² | b̂] of each arm (G, K).

    Scoring of the likelihood of b̂ ~ N(0, τ² + Var b̂): τ² is the mean of b̂² − Var b̂ with weights
    1/(τ² + Var b̂)².
    """
    is_judged = is_seen & np.isfinite(error2) & (error2 > 0)
    error2 = np.where(is_judged, error2, 1.0)
    excess = np.where(is_judged, bias**2 - error2, 0.0)
    judged = np.maximum(is_judged.sum(axis=1), 1)
    spread2 = np.where(is_judged, bias**2, 0.0).sum(axis=1) / judged
    for _ in range(_ROUNDS):
        precision = np.where(is_judged, 1.0 / (spread2[:, None] + error2) ** 2, 0.0)
        total = precision.sum(axis=1)
        total = np.where(total > 0, total, 1.0)
        spread2 = np.maximum((precision * excess).sum(axis=1) / total, 0.0)
    share = spread2[:, None] / (spread2[:, None] + error2)
    square = np.where(is_judged, (share * bias) ** 2 + share * error2, 0.0)
    return spread2, square


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1.0 + level) / 2.0))


def _checked(
    features: Any,
    arm: Any,
    outcome: Any,
    reference: Any,
    n_arms: int,
    group: Any,
    row_weight: Any,
    folds: Any,
) -> ArmRows:
    """Refuse what cannot be, leave out rows without an arm or weight, and standardise the rest."""
    check_number("n_arms", n_arms, 1)
    x, y = np.asarray(features, dtype=float), np.asarray(outcome, dtype=float)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        raise InvalidInput(f"features: expected finite numbers (N, p), both >= 1, got {x.shape}")
    n, p = x.shape
    credited = _whole("arm", arm, n, -1, n_arms - 1)
    owner = np.zeros(n, dtype=np.int64) if group is None else _whole("group", group, n, 0)
    weight = np.ones(n) if row_weight is None else np.asarray(row_weight, dtype=float)
    if weight.shape != (n,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidInput(f"row_weight: expected {n} finite numbers >= 0, got {row_weight!r}")
    use = np.flatnonzero((credited >= 0) & (weight > 0))
    if y.shape != (n,) or not np.isfinite(y[use]).all():
        raise InvalidInput(f"outcome: expected {n} numbers, finite where an arm is credited")
    n_groups = int(owner.max()) + 1
    ref = np.asarray(reference, dtype=float)
    ref = ref[None] if ref.ndim == 2 else ref
    fits = ref.ndim == 3 and ref.shape[0] in (1, n_groups) and ref.shape[1] > 0
    if not fits or ref.shape[-1] != p or not np.isfinite(ref).all():
        raise InvalidInput(
            f"reference: expected finite numbers (M, {p}) or ({n_groups}, M, {p}), M >= 1, "
            f"got {np.shape(reference)}"
        )
    fold = _folds(folds, owner * n_arms + credited, use)
    x, owner = x[use], owner[use]
    # Centred on their own mean, features far from 0 cost no digits.
    size = np.maximum(np.bincount(owner, minlength=n_groups), 1)[:, None]
    middle = sums_at(owner, x.T, n_groups) / size
    unit = np.sqrt(sums_at(owner, ((x - middle[owner]) ** 2).T, n_groups) / size)
    unit = np.where(unit > 0, unit, 1.0)
    phi, ref = (x - middle[owner]) / unit[owner], (ref - middle[:, None]) / unit[:, None]
    place = owner * n_arms + credited[use]
    return ArmRows(phi, y[use], weight[use], fold[use], owner, place, ref, (n_groups, n_arms))


def _folds(folds: Any, place: Array, use: Array) -> Array:
    """Return the fold of every row: as given, or rows of an arm take turns."""
    n = place.size
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer):
        fold = _whole("folds", folds, n, 0)
        if np.unique(fold[use]).size < 2 and use.size > 1:
            raise InvalidInput("folds: expected rows in at least 2 folds")
        return fold
    if folds < 2:
        raise InvalidInput(f"folds: expected at least 2, got {folds}")
    fold = np.zeros(n, dtype=np.int64)
    fold[use] = turn_of(place[use]) % folds
    return fold


def _whole(name: str, values: Any, n: int, low: int, high: int | None = None) -> Array:
    found = np.asarray(values)
    if found.shape != (n,) or found.dtype.kind not in "iu":
        raise InvalidInput(f"{name}: expected {n} whole numbers, got {values!r}")
    if (found < low).any() or (high is not None and (found > high).any()):
        upper = "" if high is None else f" and <= {high}"
        raise InvalidInput(f"{name}: expected numbers >= {low}{upper}, got {found}")
    return found.astype(np.int64)
