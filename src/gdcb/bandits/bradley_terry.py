"""Learn what a person would rather have run: a Bradley–Terry model of pairwise preferences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.bandits.base import require_context
from gdcb.bandits.shared import LogisticState, LogisticThompson
from gdcb.errors import InvalidInput
from gdcb.parts import Column, column, take_all


@dataclass(frozen=True)
class BradleyTerryThompson(LogisticThompson):
    """Thompson sampling on a person's utility, learned from which of two actions they prefer.

    In every row a person compares the action that ran, at coordinate c, with a rival at c′ in the
    same context, and says y = 1 if they would rather have had the first:
    P(y = 1) = σ(u(x, c) − u(x, c′)) (Bradley and Terry 1952), u(x, c) = ψ(x, c)ᵀw,
    ψ = (c, c², x⊗c), w_j ~ N(prior_mean_j, prior_sd_j²), c scaled to [−1, 1] over the arms. What
    does not depend on c cancels, so ψ has neither an intercept nor x alone. It is a logistic
    regression on ψ(x, c) − ψ(x, c′), and the posterior is that of `LogisticThompson`. A drawn value
    is the probability of being preferred to the row's rival: it rises with u, so the arm of the
    largest drawn utility is picked whichever the rival is. This is the reward model of learning
    from human feedback alone: it knows what the person likes, not what it earns.

    Parameters
    ----------
    features : context columns; '*' is all of them but the rival
    degree : 1 (c) or 2 (c and c²)
    interactions : whether x⊗c is among the features
    prior_sd : standard deviation of the weights beforehand, one number or d in the order of ψ
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    rival : context column with the rival's coordinate c′, in the arms' own scale; of several
        coordinates as many columns
    prior_mean : mean of the weights beforehand, d numbers in the order of ψ; 0 without
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: each answer depends on the two utilities alone, with logistic noise, and answers are
    independent; u is a polynomial in c whose slope is linear in x; arms have a metric, and no
    scaler moves them between the question and the arm. Categories: `BradleyTerryArmsThompson`.

    Stops applying: utilities are known up to a constant a context, so nothing says whether either
    action was good, and where the person's taste and the reward differ it settles on the taste.
    Utilities that differ by 36 and more are both preferred for certain in double precision, and
    such arms tie. Row by row the posterior is approximate, as that of `LogisticThompson` is.

    Examples
    --------
    No context but the rival, degree 1, arms at c = ∓1, prior variance log 3. The second arm ran
    and was preferred to the first, ψ − ψ′ = 2: the mode solves w/log 3 = 2·(1 − σ(2w)), so
    w = ½·log 3, where both sides are ½. Against the first arm the second then wins with
    σ(log 3) = ¾, and the first with ½. (Width 0 draws the mode itself.)

    >>> from gdcb.arms import ArmList
    >>> from gdcb.records import Evidence, Setting
    >>> from gdcb.streams import Stream
    >>> arms, zero, x = ArmList(values=(-1, 1)).build(), np.zeros(1, int), np.array([[-1.0]])
    >>> bandit = BradleyTerryThompson((), degree=1, prior_sd=np.log(3.0) ** 0.5, width=0, rival=0)
    >>> state, one = bandit.init(zero, arms), np.ones(1)
    >>> bandit.update(state, Evidence(zero, zero + 1, np.ones((1, 1)), one, None, one, x))
    >>> draw = bandit.draw(Stream((0, 0), 0, 1), state, Setting(zero, x))
    >>> state.weights.mean.round(6).tolist(), bandit.value(draw, arms.nominal).round(9).tolist()
    ([[0.549306]], [[0.5, 0.75]])
    """

    degree: int = 2
    interactions: bool = True
    rival: Column | tuple[Column, ...] = column("rival")
    has_level: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self._columns
        if not columns or any(
            isinstance(name, bool) or not isinstance(name, str | int) for name in columns
        ):
            raise InvalidInput(f"bandit.rival: expected a context column, got {self.rival!r}")
        # A utility of one action cannot depend on what it is compared with.
        own = tuple(name for name in self.features if name not in columns)
        if own != tuple(self.features):
            object.__setattr__(self, "features", own)

    @property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(self.rival) if isinstance(self.rival, tuple | list) else (self.rival,)

    def init(self, group: Array, arms: Arms) -> LogisticState:
        """Return the prior: every weight N(prior_mean, prior_sd²)."""
        n = len(self._columns)
        if arms.n_coords != n:
            along = "one coordinate" if n == 1 else f"{n} coordinates"
            raise InvalidInput(
                f"{type(self).__name__}: expected arms along {along}, as the rival is, "
                f"got {arms.n_coords}"
            )
        return super().init(group, arms)

    def _other(self, x: Array | None) -> Array:
        """Return the rivals' coordinates: (N, C)."""
        return take_all(require_context(x, type(self).__name__), self._columns)

    def at_actions(self, x: Array | None, coord: Array, frame: Array) -> Array:
        """Return ψ(x, c) − ψ(x, c′) of actions (N, M, C): (N, M, d)."""
        rival = self._other(x)[:, None]
        own = super().at_actions(x, coord, frame)
        with np.errstate(invalid="ignore"):  # an infinite context is refused by name, not here
            return np.asarray(own - super().at_actions(x, rival, frame))

    def at_context(self, x: Array | None, frame: Array) -> Array:
        """Return B(x) with ψ(x, c) − ψ(x, c′) = B(x)·(1, c, c²): (N, d, 1 + C·degree)."""
        basis = super().at_context(x, frame)
        powers = self.powers(self._other(x), frame[0], frame[1])
        with np.errstate(invalid="ignore"):  # an infinite context is refused by name, not here
            basis[:, :, 0] = -(basis[:, :, 1:] @ powers[:, 1:, None])[:, :, 0]
        return basis
