"""What came of actions in a log, as a model of outcomes: smooth in the action, cross-fitted.

η(e, x) = w₀ + xᵀw + Σ_l B_l(e)·(w_l + xᵀW_l): B are the action's coordinates and their squares, or
one indicator a category; x is standardised. Outcome classes are P(y = 1) = σ(η), rewards are
s(x)·η + noise. Where a log has units, η also has each unit's mean B and a level of its own: a unit
that charges more because it is worth more would else look like one whose price nobody minds
(Mundlak 1978). Beyond the actions that the log has seen, an action is worth at most what the
nearest seen one is: nobody knows more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.instance import Instance
from gdcb.logistic import LogisticPosterior

LEAST = 200  # rows with an action and an outcome, below which nothing is fitted
SEEN = (0.005, 0.995)  # quantiles of the executed actions between which a log has seen them
CHOOSE_ON = 20_000  # rows on which the form is chosen
_WEAK = 0.1  # prior precision of the level, of context and of the action's own coefficients
_FAR = 5.0  # standard deviations beyond which a column says no more: few rows would decide all
_MOST_CROSSED = 240  # products of context and action that a form may have
_PENALTIES = (1.0, 10.0, 100.0)
_LONG_NUMBERS = 2**23  # numbers of a design that are held at once


@dataclass(frozen=True)
class Form:
    """How an outcome may depend on the action; `degree` 0: not at all."""

    degree: int = 1
    interactions: bool = True
    penalty: float = 10.0


@dataclass(frozen=True, eq=False)
class Features:
    """Where coordinates of an action and columns of the context stand in η.

    Parameters
    ----------
    instance : the arms, their composition and the context
    columns : context columns that vary in the log
    centre, spread : (p,) their means and standard deviations
    low, high : (C,) the range of relative actions that the log has seen; empty for categories
    habit : (units, C or K) every unit's mean action, in coordinates or indicators; None: one unit
    """

    instance: Instance
    columns: tuple[int, ...]
    centre: Array
    spread: Array
    low: Array
    high: Array
    habit: Array | None = None

    @property
    def is_category(self) -> bool:
        """Whether the action is a category."""
        return bool(self.instance.actions[0].levels)

    def context(self, x: Array) -> Array:
        """Return standardised columns (N, p); what lies further out than 5 is taken as 5."""
        return np.asarray(
            np.clip((x[:, list(self.columns)] - self.centre) / self.spread, -_FAR, _FAR)
        )

    def unit(self, x: Array) -> Array:
        """Return what one unit of each coordinate is in the action's own unit: (N, D)."""
        d, q = len(self.instance.actions), self.instance.scaler.n_columns
        out = np.ones((x.shape[0], d))
        if self.instance.composition.joins == "product":
            out[:, :q] = (
                1.0 / self.instance.composition.relative(np.ones((x.shape[0], d)), x)[:, :q]
            )
        return out

    def place(self, e: Array, x: Array) -> Array:
        """Return relative actions (N, M, D)."""
        return e / self.unit(x)[:, None]

    def clipped(self, e: Array, x: Array) -> Array:
        """Return the nearest actions (N, M, D) that the log has seen."""
        if self.is_category:
            return e
        unit = self.unit(x)[:, None]
        return np.clip(e / unit, self.low, self.high) * unit

    def basis(self, e: Array, x: Array, degree: int) -> Array:
        """Return B(e): (N, M, L)."""
        if degree == 0:
            return np.zeros((*e.shape[:2], 0))
        if self.is_category:
            return np.asarray(e[..., :1] == np.arange(self.instance.space.n), dtype=float)
        half = np.maximum((self.high - self.low) / 2, 1e-12)
        z = (np.clip(self.place(e, x), self.low, self.high) - (self.low + self.high) / 2) / half
        return np.concatenate((z, z * z), axis=-1) if degree == 2 else z

    def n_crossed(self, form: Form) -> int:
        """Return how many of B's columns are multiplied with the context."""
        if form.degree == 0 or not form.interactions:
            return 0
        return self.instance.space.n if self.is_category else len(self.low)

    def n_basis(self, form: Form) -> int:
        """Return L."""
        if form.degree == 0:
            return 0
        return self.instance.space.n if self.is_category else form.degree * len(self.low)

    def design(self, e: Array, x: Array, unit: Array, form: Form) -> Array:
        """Return one row of features of every executed action e (N, D): (N, d + habits)."""
        z, phi = self.basis(e[:, None], x, form.degree)[:, 0], self.context(x)
        crossed = z[:, : self.n_crossed(form), None] * phi[:, None]
        parts = [np.ones((x.shape[0], 1)), phi, z, crossed.reshape(x.shape[0], -1)]
        if self.habit is not None:
            parts.append(self.habit[unit])
        return np.concatenate(parts, axis=1)

    def precision(self, form: Form) -> Array:
        """Return the prior precision of every coefficient: (d + habits,)."""
        p, width = len(self.columns), self.n_basis(form)
        # Whoever decided looked at the context: shrink its own part, and what it explains is
        # taken for the action's.
        main = form.penalty if self.is_category else _WEAK
        crossed = self.n_crossed(form) * p
        return np.concatenate(
            (
                np.full(1 + p, _WEAK),
                np.full(width, main),
                np.full(crossed, form.penalty),
                np.full(0 if self.habit is None else self.habit.shape[1], _WEAK),
            )
        )

    def predictor(self, weights: Array, e: Array, x: Array, form: Form) -> Array:
        """Return η of actions (N, M, D), weights (N, d) a row: (N, M).

        Sums run along a row, never across rows: a row's numbers do not hang on its neighbours.
        """
        phi, p, width = self.context(x), len(self.columns), self.n_basis(form)
        level = weights[:, 0] + (phi * weights[:, 1 : 1 + p]).sum(axis=1)
        slopes = weights[:, 1 + p : 1 + p + width].copy()
        n, start = self.n_crossed(form), 1 + p + width
        if n:
            table = weights[:, start : start + n * p].reshape(-1, n, p)
            slopes[:, :n] += (table * phi[:, None]).sum(axis=2)
        terms = self.basis(e, x, form.degree) * slopes[:, None]
        return np.asarray(level[:, None] + terms.sum(axis=2))


@dataclass(frozen=True)
class Fit:
    """Coefficients (d,) and a root (d, d) of their posterior covariance."""

    mean: Array
    root: Array


@dataclass(frozen=True, eq=False)
class Response:
    """A family of outcome models for a log, and how well its best one foresees.

    Parameters
    ----------
    features, form : what η is made of
    size : what rewards are divided by while fitting; 1 for classes
    noise : standard deviation of a reward around its mean, in units of `size`
    residual : rewards less their cross-fitted means, sorted; empty for classes
    between : variance of units' own levels in η
    explained : share of the deviance, cross-fitted, that the model explains
    by_action : of this, how much is lost without the action
    start : coefficients of one fold, from which other fits begin: they are near, and cost less
    """

    features: Features
    form: Form
    size: float
    noise: float
    residual: Array
    between: float
    explained: float
    by_action: float
    start: Array | None = None

    @cached_property
    def is_class(self) -> bool:
        """Whether outcomes are classes."""
        return self.features.instance.reward.target == "class"

    def fit(self, batch: Batch, some: Array) -> Fit:
        """Fit the model on some rows."""
        rows = batch.take(some)
        y, scale = _target(self.features.instance, rows)
        precision = self.features.precision(self.form)
        design = self.features.design(rows.action, rows.x, rows.unit, self.form)
        noise = None if self.is_class else self.noise
        start = self.start if self.start is None or self.start.size == precision.size else None
        return _fitted(design, y / self.size, scale, precision, noise, start)

    def levels(self, batch: Batch, some: Array, fit: Fit, unit: Array) -> tuple[Array, Array]:
        """Return mean and variance of the own levels of units (U,), as these rows tell.

        What their habits say is not part of it.
        """
        if self.between <= 0:
            return np.zeros(unit.size), np.zeros(unit.size)
        mine = some[np.isin(batch.unit[some], unit)]
        rows = batch.take(mine)
        y, scale = _target(self.features.instance, rows)
        eta = self.features.design(rows.action, rows.x, rows.unit, self.form) @ fit.mean
        score, weight = self._score(y / self.size, eta, scale)
        n_units = int(batch.unit.max()) + 1
        total = np.bincount(rows.unit, score, n_units)[unit]
        precision = np.bincount(rows.unit, weight, n_units)[unit] + 1.0 / self.between
        return total / precision, 1.0 / precision

    def _score(self, y: Array, eta: Array, scale: Array | None) -> tuple[Array, Array]:
        return _score(y, eta, scale, None if self.is_class else self.noise)


def response_of(instance: Instance, batch: Batch, seed: int = 0) -> Response:
    """Choose the form on two folds of a log, and say how well it foresees.

    `batch` holds rows that ran and whose outcome was seen. Refused: fewer than 200 of them, an
    action that never varies, an outcome that never does.
    """
    features = features_of(instance, batch)
    y, scale = _target(instance, batch)
    is_class = instance.reward.target == "class"
    size = 1.0 if is_class else float(y.std())
    rng = np.random.default_rng(seed)
    some = rng.permutation(batch.n)[:CHOOSE_ON]
    fold = rng.permutation(np.arange(some.size) % 2)
    rows, y, scale = batch.take(some), y[some] / size, None if scale is None else scale[some]

    def judge(form: Form) -> tuple[float, Array, Array]:
        return _cross_fitted(features, form, rows, y, scale, fold, is_class)

    forms = [Form(degree, crossed) for degree in (1, 2) for crossed in (True, False)]
    if features.is_category:
        forms = forms[:2]
    crowded = len(features.columns) * features.n_crossed(forms[0]) > _MOST_CROSSED
    forms = [form for form in forms if not (crowded and form.interactions)]
    found = {form: judge(form) for form in forms}
    best = min(found, key=lambda form: found[form][0])
    for penalty in _PENALTIES:
        other = Form(best.degree, best.interactions, penalty)
        found.setdefault(other, judge(other))
    best = min(found, key=lambda form: found[form][0])
    without = judge(Form(0, False, best.penalty))[0]
    loss, eta, start = found[best]
    nothing = _loss_of_mean(y, scale, is_class)
    noise = 1.0 if is_class else float(np.sqrt(np.mean((y - _times(eta, scale)) ** 2)))
    residual = np.empty(0) if is_class else np.sort(size * (y - _times(eta, scale)))
    between = _between(rows.unit, *_score(y, eta, scale, None if is_class else noise))
    share = 1.0 - loss / nothing
    own = (without - loss) / nothing
    return Response(features, best, size, noise, residual, between, share, own, start)


def features_of(instance: Instance, batch: Batch) -> Features:
    """Return what varies in a log; refuse one from which no response can be fitted."""
    if batch.n < LEAST:
        raise InvalidInput(
            f"the log is too small: it has {batch.n:,} rows with an action that ran and an outcome "
            f"that was seen, and a model of outcomes needs {LEAST}"
        )
    if len(instance.actions) > 2 or instance.composition.joins == "other":
        is_choice = bool(instance.actions[0].levels)
        if not is_choice or len(instance.actions) > 2:
            raise InvalidInput(
                f"{type(instance.composition).__name__}: the response to such actions is not "
                "modelled; one number, two numbers or a category is"
            )
    y, _ = _target(instance, batch)
    if float(y.std()) <= 0:
        raise InvalidInput(f"the outcome never varies: it is {y[0]:g} in all {batch.n:,} rows")
    spread = batch.x.std(axis=0)
    columns = tuple(int(at) for at in np.flatnonzero(spread > 1e-9))
    centre, spread = batch.x.mean(axis=0)[list(columns)], spread[list(columns)]
    empty = np.empty(0)
    features = Features(instance, columns, centre, spread, empty, empty)
    if features.is_category:
        if np.unique(batch.action[:, 0]).size < 2:
            name = instance.actions[0].levels[int(batch.action[0, 0])]
            raise InvalidInput(f"the action never varies: every row ran '{name}'")
        return _with_habits(features, batch)
    place = features.place(batch.action[:, None], batch.x)[:, 0]
    low, high = np.quantile(place, SEEN, axis=0)
    low, high = (
        np.where(low < high, low, place.min(axis=0)),
        np.where(low < high, high, place.max(axis=0)),
    )
    # A multiple of a base that is always the same differs in its last digits all the same.
    if high[0] - low[0] <= 1e-9 * max(abs(float(high[0])), abs(float(low[0]))):
        raise InvalidInput(
            f"the action never varies: relative to its base it is {low[0]:g} in every row, so the "
            "log says nothing of another one"
        )
    return _with_habits(Features(instance, columns, centre, spread, low, high), batch)


def _with_habits(features: Features, batch: Batch) -> Features:
    """Add every unit's mean action, where there are several units."""
    n = np.bincount(batch.unit)
    if (n > 0).sum() < 2:
        return features
    z = features.basis(batch.action[:, None], batch.x, 1)[:, 0]
    total = np.stack([np.bincount(batch.unit, column, n.size) for column in z.T], axis=1)
    # Who never ran anything is taken to be as the mean of all.
    habit = np.where(n[:, None] > 0, total / np.maximum(n, 1)[:, None], z.mean(axis=0))
    return replace(features, habit=habit)


def _target(instance: Instance, batch: Batch) -> tuple[Array, Array | None]:
    """Return what is learned of every row, and the declared scale."""
    return instance.reward.learn(batch.outcome, batch.x)


def _times(eta: Array, scale: Array | None) -> Array:
    return eta if scale is None else eta * scale


def _fitted(
    design: Array,
    y: Array,
    scale: Array | None,
    precision: Array,
    noise: float | None,
    start: Array | None = None,
) -> Fit:
    """Return the mode of the coefficients, and a root of their covariance; noise None: classes."""
    if noise is None:
        near = None if start is None else start[None]
        found = LogisticPosterior.fit(design, y, None, 0.0, precision, start=near)
        return Fit(found.mean[0], found.root[0])
    if scale is not None:
        design = design * scale[:, None]
    d = design.shape[1]
    gram, pull = np.zeros((d, d)), np.zeros(d)
    step = max(1, _LONG_NUMBERS // d)
    for at in range(0, y.size, step):
        part = design[at : at + step]
        gram += part.T @ part
        pull += part.T @ y[at : at + step]
    root = np.linalg.inv(np.linalg.cholesky(gram / noise**2 + np.diag(precision))).T
    return Fit(root @ (root.T @ pull) / noise**2, root)


def _cross_fitted(
    features: Features,
    form: Form,
    rows: Batch,
    y: Array,
    scale: Array | None,
    fold: Array,
    is_class: bool,
) -> tuple[float, Array, Array]:
    """Return the mean loss of rows foreseen by the other fold, η there (N,), and coefficients."""
    design = features.design(rows.action, rows.x, rows.unit, form)
    precision = features.precision(form)
    eta, start = np.empty(y.size), None
    for one in (0, 1):
        other = fold != one
        mine = None if scale is None else scale[other]
        noise = None if is_class else 1.0
        fit = _fitted(design[other], y[other], mine, precision, noise, start)
        eta[fold == one] = design[fold == one] @ fit.mean
        start = fit.mean
    return _loss(y, _times(eta, scale), is_class), eta, fit.mean


def _loss(y: Array, mean: Array, is_class: bool) -> float:
    """Return the mean log loss of classes, given their log odds, or the mean square."""
    if is_class:
        return float(np.mean(np.logaddexp(0.0, mean) - y * mean))
    return float(np.mean((y - mean) ** 2))


def _loss_of_mean(y: Array, scale: Array | None, is_class: bool) -> float:
    if is_class:
        return _loss(y, np.full(y.size, np.log(y.mean() / (1.0 - y.mean()))), True)
    s = np.ones(y.size) if scale is None else scale
    return _loss(y, s * float((s * y).sum() / (s * s).sum()), False)


def _score(y: Array, eta: Array, scale: Array | None, noise: float | None) -> tuple[Array, Array]:
    """Return the score of a row's own level, and its information; noise None: classes."""
    if noise is None:
        p = logistic(eta)
        return y - p, p * (1.0 - p)
    s = np.ones(y.size) if scale is None else scale
    return s * (y - s * eta) / noise**2, s * s / noise**2


def _between(unit: Array, score: Array, weight: Array) -> float:
    """Return the variance of units' own levels by moments (DerSimonian and Laird 1986)."""
    total, information = np.bincount(unit, score), np.bincount(unit, weight)
    known = information > 0
    k = int(known.sum())
    if k < 2:
        return 0.0
    total, information = total[known], information[known]
    q = float((total**2 / information).sum() - total.sum() ** 2 / information.sum())
    spread = float(information.sum() - (information**2).sum() / information.sum())
    return max(0.0, (q - (k - 1)) / spread) if spread > 0 else 0.0
