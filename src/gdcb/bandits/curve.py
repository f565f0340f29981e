"""Response-curve Thompson: arms with a metric share one curve over their coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, is_all, is_any, logistic, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape, require_unscaled
from gdcb.bandits.gaussian import require_finite
from gdcb.bandits.nodes import (
    boxes_of,
    boxes_with_rows,
    check_degree,
    corner_and_width,
    exponents_of,
    frame_of,
    grid_of,
    in_box,
    n_boxes,
    on_level,
    points_of,
    require_metric,
    require_same_arms,
)
from gdcb.bandits.predictive import log_moderated, log_normal, moderated
from gdcb.bandits.prequential import before, in_blocks, normal_ahead, rows_of
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior, left_out, logistic_mode, times
from gdcb.parts import check_choice, check_number, numbers, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


@dataclass(slots=True)
class CurveState:
    """Sums, and the Gaussian posterior that they imply.

    Parameters
    ----------
    levels, borders : C arrays each, the arms' levels and the borders of the boxes along each
        coordinate (logistic link, relative form; as all below but the last four)
    design : (B, d) features of the grid of levels
    frame : (2, C) middle and half-width of the arms, which scale coordinates to [−1, 1]
    trials : (cells, B) Σ w of the rows on each point of the grid of levels
    moments : (cells, boxes, q) Σ w·(1, t, t², t³) of the other rows in each box, t their place in
        it; `gdcb.bandits.nodes` says what they are of several coordinates
    wins : (cells, d) Σ w·y·φ of all rows
    precision, shift : (cells, d, d), (cells, d) natural parameters (identity link)
    mean : (cells, d) posterior mean of the coefficients
    root : (cells, d, d) with root·rootᵀ = posterior covariance
    """

    levels: tuple[Array, ...] = field(metadata={"axis": "constant"})
    borders: tuple[Array, ...] = field(metadata={"axis": "constant"})
    design: Array = field(metadata={"axis": "constant"})
    frame: Array = field(metadata={"axis": "constant"})
    trials: Array
    moments: Array
    wins: Array
    precision: Array
    shift: Array
    mean: Array
    root: Array


@dataclass(slots=True)
class CurveCounts:
    """What the relative logistic form keeps of rows: see `CurveState`."""

    trials: Array
    moments: Array
    wins: Array

    @staticmethod
    def zeros(n: int, state: CurveState) -> CurveCounts:
        """Return n times no rows."""
        sums = (state.trials, state.moments, state.wins)
        return CurveCounts(*(np.zeros((n, *part.shape[1:])) for part in sums))

    def add(
        self, state: CurveState, owner: Array, coord: Array, phi: Array, y: Array, weight: Array
    ) -> None:
        """Add rows in place: on the grid of the arms' levels, or in a box; beyond them none."""
        place, is_on = on_level(state.levels, coord)
        flat = owner * self.trials.shape[1] + place
        if is_all(is_on):
            scatter_add(self.trials.reshape(-1), flat, weight)
        else:
            scatter_add(self.trials.reshape(-1), flat[is_on], weight[is_on])
            index, moments, inside = in_box(state.borders, coord)
            weight = np.where(inside, weight, 0.0)
            off = np.flatnonzero(~is_on & inside)
            flat = (owner * self.moments.shape[1] + index)[off]
            sums = self.moments.reshape(-1, moments.shape[1])
            scatter_add(sums, flat, weight[off, None] * moments[off])
        scatter_add(self.wins, owner, (weight * y)[:, None] * phi)


@dataclass(frozen=True)
class CurveThompson:
    """Thompson sampling on a polynomial response curve of the arm coordinates.

    Relative form: η(c) = w₀ + Σⱼ wⱼcⱼ (+ Σⱼ wⱼⱼcⱼ², degree 2), where the coordinate c of an
    action is the arm it would be under the δ in force: e/δ for products, e − δ for sums. Additive
    form: η = w₀ + Σⱼ wⱼeⱼ (+ Σⱼ wⱼⱼeⱼ²) + Σⱼ γⱼℓⱼ, in the action itself, with an offset in what
    δ says of the context: e = c·δ and ℓ = log δ (`rebuild='product'`), or e = c + δ and ℓ = δ
    (`rebuild='sum'`). Either way overrides between the arms teach too, and what one arm learns all
    arms know.

    `link='identity'`: r = s·η + N(0, noise²), conjugate, exact. `link='logistic'`: P(y=1) = σ(η).
    In the relative form that is a Laplace posterior around the mode of the likelihood at the
    executed coordinates, kept as sums, which add up in any order. Outcomes enter it by Σ w·y·φ, to
    the digit. What is left, −Σ w·log(1 + exp η(c)), depends on the coordinates alone: fixed boxes
    along them keep Σ w·(1, c, c², c³), and two points in each box stand for its rows (Gauss's
    quadrature). That is exact for rows on arms, and otherwise an error of fourth order in the
    width of a box, an eighth of the arms' range. An action more than four gaps beyond the end arms
    is left out. In the additive form rows have two inputs and are learned one by one: after each
    the posterior is the Laplace approximation of the last one times the row's likelihood; `refit`
    puts the exact mode of all rows in place, and a refold does so.

    Parameters
    ----------
    link : 'logistic' for classes in [0, 1], 'identity' for rewards
    degree : 1 or 2
    prior_mean, prior_sd : independent normal prior of (w₀, wⱼ, wⱼⱼ, γⱼ); one number, or all.
        Coordinates are scaled to [−1, 1] over the arms, δ in a sum by the same half-width
    noise : standard deviation of a reward (identity link)
    form : 'relative' or 'additive'
    rebuild : how the additive form gets the action back from c and δ: 'product' or 'sum'

    Notes
    -----
    Assumes: the predictor is a polynomial in c (relative) or in e and ℓ (additive). In the additive
    form δ has no arm axis, and its q columns act on the first q coordinates, as in `Multiply` and
    `Add`; a base in e does not enter.

    Stops applying: where the truth has another form the posterior concentrates on the closest
    polynomial, with more confidence than it deserves. The boxes leave an error that does not shrink
    as rows come, so that in posterior standard deviations it grows with their root, and with the
    fourth power of the slope. With log odds that move by 6 over the arms and actions anywhere, it
    is at most 0.007 at 50,000 rows of a cell and 0.03 at a million; with two coordinates 0.02 and
    0.13. With few rows the logistic posterior is skew and its Gaussian is not. Learned one by one
    the error adds up, most where outcomes are rare, until the next refit.

    Examples
    --------
    Identity link, prior sd 1, noise 1, one arm coordinate c ∈ {−1, 1}; one reward 3 seen at
    c = 1: precision [[2, 1], [1, 2]], shift [3, 3], mean [1, 1], so η(1) = 2 and η(−1) = 0.

    >>> from gdcb.arms import ArmList
    >>> bandit = CurveThompson(link="identity", prior_sd=1.0, noise=1.0)
    >>> arms = ArmList(values=(-1.0, 1.0)).build()
    >>> state = bandit.init(np.zeros(1, dtype=int), arms)
    >>> zero = np.zeros(1, dtype=int)
    >>> bandit.update(
    ...     state, Evidence(zero, zero, np.ones((1, 1)), np.array([3.0]), None, np.ones(1))
    ... )
    >>> bandit.mean(state, Setting(zero), arms.nominal).round(12).tolist()
    [[0.0, 2.0]]
    """

    link: str = "logistic"
    degree: int = 1
    prior_mean: tuple[float, ...] = ()
    prior_sd: float | tuple[float, ...] = 2.0
    noise: float = 1.0
    form: str = "relative"
    rebuild: str = "product"
    is_curve: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        check_choice("bandit.link", self.link, ("logistic", "identity"))
        check_choice("bandit.form", self.form, ("relative", "additive"))
        check_choice("bandit.rebuild", self.rebuild, ("product", "sum"))
        check_degree(self.degree)
        check_number("bandit.noise", self.noise, 0.0, open_low=True)
        means: Any = self.prior_mean
        if not isinstance(means, tuple):
            raise InvalidInput(f"bandit.prior_mean: expected a tuple of numbers, got {means!r}")
        for value in self.prior_mean:
            check_number("bandit.prior_mean", value)
        sds = self.prior_sd if isinstance(self.prior_sd, tuple) else (self.prior_sd,)
        for sd in sds:
            check_number("bandit.prior_sd", sd, 0.0, open_low=True)

    @property
    def target(self) -> str:
        """Return 'class' for the logistic link; the identity link takes any number."""
        return "class" if self.link == "logistic" else "any"

    @property
    def reads(self) -> frozenset[str]:
        """Return {'delta'} in the additive form; the relative form reads neither x nor δ."""
        return frozenset({"delta"} if self._is_additive else ())

    @property
    def _is_additive(self) -> bool:
        return self.form == "additive"

    @property
    def rebuilds(self) -> str | None:
        """Return how it gets the action back from c and δ; None: it does not, in relative form."""
        return self.rebuild if self._is_additive else None

    @property
    def supports(self) -> frozenset[str]:
        """Return the optional methods: sums merge, rows learned one by one can be fitted anew."""
        return frozenset({"decay", "predictive", "merge" if self._has_sums else "refit"})

    @property
    def likelihood(self) -> str:
        """Return 'bernoulli' or 'normal': what `predictive` is a density of."""
        return "bernoulli" if self.link == "logistic" else "normal"

    @property
    def _has_counts(self) -> bool:
        return self.link == "logistic" and self.form == "relative"

    @property
    def _has_sums(self) -> bool:
        return self.link == "identity" or self.form == "relative"

    def init(self, group: Array, arms: Arms) -> CurveState:
        """Return the prior curve in every cell."""
        require_metric(arms, "CurveThompson")
        cells, c = group.shape[0], arms.n_coords
        mean, sd = self.prior(c)
        frame = frame_of(arms)
        counts = self._has_counts
        levels = tuple(np.unique(column) for column in arms.coords.T) if counts else ()
        borders = boxes_of(arms) if counts else ()
        grid = grid_of(levels) if counts else np.zeros((0, c))
        return CurveState(
            levels,
            borders,
            self.features((grid - frame[0]) / frame[1]),
            frame,
            np.zeros((cells, grid.shape[0])),
            np.zeros((cells, n_boxes(borders) if counts else 0, len(exponents_of(c)))),
            np.zeros((cells, mean.size if counts else 0)),
            np.tile(np.diag(sd**-2.0), (cells, 1, 1)),
            np.tile(mean * sd**-2.0, (cells, 1)),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(sd), (cells, 1, 1)),
        )

    def prior(self, c: int) -> tuple[Array, Array]:
        """Return mean and standard deviation (d,) of the coefficients over c coordinates."""
        d = 1 + c * (self.degree + self._is_additive)
        for name, value in (("prior_sd", self.prior_sd), ("prior_mean", self.prior_mean)):
            if isinstance(value, tuple) and len(value) not in (
                (0, d) if name[6:] == "mean" else (d,)
            ):
                raise InvalidInput(f"bandit.{name}: expected {numbers(d)}, got {len(value)}")
        sd = np.broadcast_to(np.asarray(self.prior_sd, dtype=float), (d,))
        return np.array(self.prior_mean or np.zeros(d), dtype=float), sd

    def features(self, coord: Array, offset: Array | None = None) -> Array:
        """Return (1, u, u², ℓ) of scaled coordinates u (..., C) and, if any, ℓ (..., C)."""
        c = coord.shape[-1]
        d = 1 + c * self.degree
        out = np.empty((*coord.shape[:-1], d if offset is None else d + c))
        out[..., 0] = 1.0
        out[..., 1 : 1 + c] = coord
        if self.degree == 2:
            out[..., 1 + c : d] = coord * coord
        if offset is not None:
            out[..., d:] = offset
        return out

    def draw(self, rng: Stream, state: CurveState, at: Setting) -> Array:
        """Sample each row's curve in c: coefficients, and the scaling of c behind them."""
        mean = state.mean.take(at.cell, axis=0)
        z = rng.normal(*mean.shape)
        drawn = mean + (state.root.take(at.cell, axis=0) @ z[..., None])[..., 0]
        return self.framed(state.frame, drawn, at)

    def framed(self, frame: Array, coefficients: Array, at: Setting) -> Array:
        """Turn coefficients (N, d) into curves in c: (N, 1 + C·degree + 2C).

        With e = c·δ the scaled action (e − middle)/half is (c − middle/δ)/(half/δ): a row's δ
        moves into its frame, and its offset γℓ into the intercept.
        """
        n, c = coefficients.shape[0], frame.shape[1]
        d = 1 + c * self.degree
        out = np.empty((n, d + 2 * c))
        out[:, :d] = coefficients[:, :d]
        middle, half = frame
        if self._is_additive:
            delta, offset = self._offset(frame, at.delta, n)
            for j in range(c):
                out[:, 0] += coefficients[:, d + j] * offset[:, j]
            if self.rebuild == "product":
                middle, half = middle / delta, half / delta
            else:
                middle = middle - delta
        out[:, d : d + c], out[:, d + c :] = middle, half
        return out

    def _offset(self, frame: Array, delta: Array | None, n: int) -> tuple[Array, Array]:
        """Return δ of every coordinate (N, C), neutral behind its own q columns, and ℓ."""
        c = frame.shape[1]
        if delta is None:
            raise InvalidInput("CurveThompson in the additive form needs δ, got none")
        if delta.ndim != 3 or delta.shape[:2] != (n, 1) or not 1 <= delta.shape[2] <= c:
            raise InvalidInput(
                f"CurveThompson in the additive form: expected δ of shape ({n}, 1, 1 to {c}), one "
                f"a row and none of its own for an arm; got {delta.shape}"
            )
        is_product = self.rebuild == "product"
        full = np.full((n, c), float(is_product))
        full[:, : delta.shape[2]] = delta[:, 0]
        if not is_all(np.isfinite(full) & (full > 0.0) if is_product else np.isfinite(full)):
            wanted = "finite numbers > 0" if is_product else "finite numbers"
            raise InvalidInput(f"CurveThompson: expected δ of {wanted}, got {delta}")
        return full, np.log(full) if is_product else full / frame[1]

    def inputs(self, frame: Array, coord: Array, delta: Array | None) -> Array:
        """Return the features of located actions, coordinate (N, C), under their δ: (N, d)."""
        middle, half = frame
        if not self._is_additive:
            return self.features((coord - middle) / half)
        full, offset = self._offset(frame, delta, coord.shape[0])
        return self.features((self._action(coord, full) - middle) / half, offset)

    def _action(self, coord: Array, delta: Array) -> Array:
        """Return the action behind a coordinate under δ."""
        return np.asarray(coord * delta if self.rebuild == "product" else coord + delta)

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn curves at located actions."""
        c = located.coord.shape[-1]
        d = draw.shape[1] - 2 * c
        middle, half = draw[:, None, d : d + c], draw[:, None, d + c :]
        if located.is_nominal and not self._is_additive:
            middle, half = middle[:1], half[:1]
        predictor = times(draw, self.features((located.coord - middle) / half))
        return logistic(predictor) if self.link == "logistic" else predictor

    def mean(self, state: CurveState, at: Setting, located: Located) -> Array:
        """Return the posterior mean at located actions: of η, or E σ(η) for the logistic link."""
        mean = state.mean[at.cell]
        if self.link == "identity":
            return self.value(self.framed(state.frame, mean, at), located)
        phi = self.at_actions(state.frame, at, located)
        along = phi @ state.root[at.cell]
        return moderated(times(mean, phi), (along * along).sum(axis=-1))

    def at_actions(self, frame: Array, at: Setting, located: Located) -> Array:
        """Return the features of located actions (N, M, C) under their rows' δ: (N, M, d)."""
        coord, offset = located.coord, None
        if self._is_additive:
            delta, offset = self._offset(frame, at.delta, at.cell.shape[0])
            coord, offset = self._action(coord, delta[:, None]), offset[:, None]
        return self.features((coord - frame[0]) / frame[1], offset)

    def predictive(self, state: CurveState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN where nothing ran."""
        return self._density(evidence, *self._predictor(state, evidence))

    def leave_one_out(self, state: CurveState, evidence: Evidence) -> Array:
        """Return the log density of learned outcomes, each as if it had not been learned.

        Exact for the identity link. For the logistic link a row's own Newton step is taken back
        (`left_out`), and what lies in no box has not been learned.
        """
        eta, variance = self._predictor(state, evidence)
        weight = evidence.weight
        if self._has_counts:
            weight = np.where(in_box(state.borders, evidence.coord)[2], weight, 0.0)
        if self.link == "logistic":
            return self._density(evidence, *left_out(eta, variance, evidence.y, weight))
        scale = 1.0 if evidence.scale is None else evidence.scale
        pull = weight * scale / self.noise**2
        spared = variance / np.maximum(1.0 - pull * scale * variance, 1e-12)
        return self._density(evidence, eta - pull * (evidence.y - scale * eta) * spared, spared)

    def _predictor(self, state: CurveState, evidence: Evidence) -> tuple[Array, Array]:
        """Return mean and variance (N,) of the rows' φᵀw."""
        self.check_evidence(evidence)
        phi = self.inputs(state.frame, evidence.coord, evidence.delta)
        eta = (phi * state.mean[evidence.cell]).sum(axis=1)
        along = (state.root[evidence.cell].swapaxes(-1, -2) @ phi[..., None])[..., 0]
        return eta, (along * along).sum(axis=1)

    def _density(self, evidence: Evidence, eta: Array, variance: Array) -> Array:
        """Return the log density of outcomes whose predictor is N(eta, variance)."""
        if self.link == "logistic":
            return log_moderated(evidence.y, eta, variance)
        scale = 1.0 if evidence.scale is None else evidence.scale
        return log_normal(evidence.y, scale * eta, scale**2 * variance + self.noise**2)

    def prequential(self, state: CurveState, evidence: Evidence) -> Array:
        """Learn rows of one cell in their order; return each one's log density just before."""
        self.check_evidence(evidence)
        if self._has_sums:
            return in_blocks(self, state, evidence, self._ahead)
        found, known = np.full(evidence.cell.shape, np.nan), known_rows(evidence)
        rows = rows_of(evidence, known)
        phi = self.inputs(state.frame, rows.coord, rows.delta)
        posterior = LogisticPosterior(state.mean, state.root)
        found[known] = self._density(rows, *posterior.foresee(rows.cell, phi, rows.y, rows.weight))
        return found

    def _ahead(self, state: CurveState, rows: Evidence) -> Array:
        """Return the log density of rows of one cell, each behind those before it."""
        cell, phi = int(rows.cell[0]), self.inputs(state.frame, rows.coord, rows.delta)
        mean, root, one = state.mean[cell], state.root[cell], np.ones(rows.y.shape)
        if self.link == "identity":
            scale = one if rows.scale is None else rows.scale
            strength = rows.weight / self.noise**2
            return self._density(rows, *normal_ahead(mean, root, phi, rows.y, scale, strength))
        n, d = phi.shape
        added = CurveCounts.zeros(n, state)
        added.add(state, np.arange(n), rows.coord, phi, rows.y, rows.weight)
        modes, precision = self._mode(
            state,
            CurveCounts(
                before(state.trials[cell], added.trials),
                before(state.moments[cell], added.moments),
                before(state.wins[cell], added.wins),
            ),
            np.broadcast_to(state.precision[cell], (n, d, d)),
            np.broadcast_to(state.shift[cell], (n, d)),
            np.broadcast_to(mean, (n, d)),
        )
        reach = np.linalg.solve(precision, phi[..., None])[..., 0]
        return self._density(rows, (phi * modes).sum(axis=1), (phi * reach).sum(axis=1))

    def check_evidence(self, evidence: Evidence) -> None:
        """Refuse outcomes and scales that cannot be."""
        if self.link == "logistic":
            require_unscaled(evidence, "CurveThompson with the logistic link")
        else:
            require_finite(evidence, "CurveThompson")

    def update(self, state: CurveState, evidence: Evidence) -> None:
        """Add the rows' sums and refresh the posterior of the touched cells."""
        self.check_evidence(evidence)
        known = known_rows(evidence)
        cell, y, weight = evidence.cell[known], evidence.y[known], evidence.weight[known]
        if cell.size == 0:
            return
        coord = evidence.coord[known]
        if self._has_counts:
            counts = CurveCounts(state.trials, state.moments, state.wins)
            phi = self.inputs(state.frame, coord, None)
            counts.add(state, cell, coord, phi, y, weight)
            self._refresh(state, np.unique(cell))
            return
        phi = self.inputs(
            state.frame, coord, None if evidence.delta is None else evidence.delta[known]
        )
        if self.link == "logistic":
            LogisticPosterior(state.mean, state.root).observe(cell, phi, y, weight)
            return
        scale = 1.0 if evidence.scale is None else evidence.scale[known]
        strength = weight * scale / self.noise**2
        outer = phi[:, :, None] * phi[:, None, :]
        scatter_add(state.precision, cell, (strength * scale)[:, None, None] * outer)
        scatter_add(state.shift, cell, (strength * y)[:, None] * phi)
        self._refresh(state, np.unique(cell))

    def _refresh(self, state: CurveState, cell: Array) -> None:
        """Work out the posterior of some cells from their sums."""
        precision, shift = state.precision[cell], state.shift[cell]
        if self._has_counts:
            counts = CurveCounts(state.trials[cell], state.moments[cell], state.wins[cell])
            mean, precision = self._mode(state, counts, precision, shift, state.mean[cell])
        else:
            mean = np.linalg.solve(precision, shift[..., None])[..., 0]
        _write(state, cell, mean, precision)

    def _mode(
        self, state: CurveState, counts: CurveCounts, precision: Array, shift: Array, start: Array
    ) -> tuple[Array, Array]:
        """Return the mode (n, d) of n posteriors and the precision there, from what was counted."""
        mean, found = np.empty_like(start), np.empty_like(precision)
        shift = shift + counts.wins
        is_plain = ~(counts.moments[:, :, 0] > 0.0).any(axis=1)
        if is_any(is_plain):  # all rows are on the arms, as without a gate
            some: Any = slice(None) if is_all(is_plain) else np.flatnonzero(is_plain)
            trials = counts.trials[some]
            mean[some], found[some] = logistic_mode(
                state.design,
                trials,
                np.zeros_like(trials),
                precision[some],
                shift[some],
                start[some],
            )
        low, width = corner_and_width(state.borders)
        for rows, box, moments in boxes_with_rows(counts.moments):
            coord, weight = points_of(moments, low[box], width[box])
            scaled = np.where(
                weight[..., None] > 0.0, (coord - state.frame[0]) / state.frame[1], 0.0
            )
            on = np.broadcast_to(state.design, (rows.size, *state.design.shape))
            trials = np.concatenate((counts.trials[rows], weight), axis=1)
            mean[rows], found[rows] = logistic_mode(
                np.concatenate((on, self.features(scaled)), axis=1),
                trials,
                np.zeros_like(trials),
                precision[rows],
                shift[rows],
                start[rows],
            )
        return mean, found

    def decay(self, state: CurveState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the prior stays.

        In the additive logistic form that is the share of the way from the prior's natural
        parameters to the posterior's.
        """
        if check_factor(factor) == 1.0:
            return
        if self._has_counts:
            for sums in (state.trials, state.moments, state.wins):
                sums[cell] *= factor
            self._refresh(state, cell)
            return
        mean, sd = self.prior(state.frame.shape[1])
        prior, pull = np.diag(sd**-2.0), mean * sd**-2.0
        precision, shift = self._natural(state, cell)
        precision, shift = prior + factor * (precision - prior), pull + factor * (shift - pull)
        if self.link == "identity":
            state.precision[cell], state.shift[cell] = precision, shift
        _write(state, cell, np.linalg.solve(precision, shift[..., None])[..., 0], precision)

    def _natural(self, state: CurveState, cell: Array) -> tuple[Array, Array]:
        """Return precision (n, d, d) and shift (n, d) of some cells' posterior."""
        if self.link == "identity":
            return state.precision[cell], state.shift[cell]
        inverse = np.linalg.inv(state.root[cell])
        precision = inverse.swapaxes(-1, -2) @ inverse
        return precision, (precision @ state.mean[cell][..., None])[..., 0]

    @property
    def refit(self) -> Callable[[CurveState, Evidence], None]:
        """Put the exact mode of rows in place of what every cell among them has learned.

        Only there where rows are learned one by one; sums give the exact mode anyhow.
        """
        if self._has_sums:
            raise AttributeError("sums are the exact posterior of all rows")
        return self._refit

    def _refit(self, state: CurveState, evidence: Evidence) -> None:
        self.check_evidence(evidence)
        rows = rows_of(evidence, known_rows(evidence))
        phi = self.inputs(state.frame, rows.coord, rows.delta)
        LogisticPosterior(state.mean, state.root).refit(
            np.unique(evidence.cell),
            (rows.cell, phi, rows.y, rows.weight),
            *self.prior(state.frame.shape[1]),
        )

    @property
    def merge(self) -> Callable[[CurveState, CurveState], None]:
        """Add another state's evidence, its prior counted once; only there where it is sums.

        Both must come of the same settings: a state does not say what its prior and noise were.
        """
        if not self._has_sums:
            raise AttributeError("rows learned one by one leave no sums to merge")
        return self._merge

    def _merge(self, state: CurveState, other: CurveState) -> None:
        require_same_shape(state.mean, other.mean)
        require_same_arms(state.frame, other.frame)
        for mine, theirs in zip(state.levels, other.levels, strict=True):
            require_same_arms(mine, theirs)
        state.trials += other.trials
        state.moments += other.moments
        state.wins += other.wins
        if self.link == "identity":
            mean, sd = self.prior(state.frame.shape[1])
            state.precision += other.precision - np.diag(sd**-2.0)
            state.shift += other.shift - mean * sd**-2.0
        self._refresh(state, np.arange(state.mean.shape[0]))


def known_rows(evidence: Evidence) -> Array:
    """Return which rows teach: those with weight in which something ran."""
    return np.flatnonzero((evidence.weight > 0) & np.isfinite(evidence.coord).all(axis=-1))


def _write(state: CurveState, cell: Array, mean: Array, precision: Array) -> None:
    """Put a posterior in force in some cells."""
    state.mean[cell] = mean
    state.root[cell] = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)
