"""What a scaler is to a round."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from gdcb.arrays import Array


class Scaler(Protocol):
    """A supervised model of δ(x) with parameters of its own.

    `per` says who owns a fit: every unit ('unit'), or all units of a group together ('group').
    Statistics accumulate with every row; what `predict` uses changes only when `publish` is
    called, because each publication makes the bandit refold its arm statistics.

    Attributes
    ----------
    learns_from : what `observe` is given as labels. 'label': columns that come with the outcome
        or later. 'outcome': the row's own learning target y, (N, 1). 'nothing'.
    supports : which of the optional methods it has: 'decay' (`decay(state, factor, owner)`
        discounts evidence towards the prior), 'merge' (`merge(state, other)` adds another
        state's evidence), 'refit' (`refit(state, owners, owner, x, action, y, weight)` replaces
        the evidence of `owners` by these rows under these weights; `publish` then puts it in
        force)
    joins : the composition that δ is made for: 'product' (neutral 1), 'sum' (neutral 0), or 'any'

    One that starts from a δ known beforehand says so by `is_informed`; it is then in force before
    any row. One whose labels are log δ says by `most_log` how large they may be: in products, a new
    label above it, or below three times its negative, is refused. One whose labels are not (log) δ
    itself says what they are by `made_labels(rng, x, delta)`: labels of rows in which δ is true,
    which it can be tried with.
    """

    learns_from: ClassVar[str]
    supports: ClassVar[frozenset[str]]

    @property
    def per(self) -> str:
        """Who owns a fit: 'unit' or 'group'."""

    @property
    def n_arms(self) -> int:
        """Length of δ's arm axis: 1 where all arms share one δ."""

    @property
    def n_columns(self) -> int:
        """Columns q of δ."""

    @property
    def n_labels(self) -> int:
        """Labels that a row brings: n_arms · n_columns; 0 if it learns from no label.

        With `made_labels` it is whatever that makes.
        """

    @property
    def is_positive(self) -> bool:
        """Whether δ is always above 0, as a product needs it."""

    def init(self, n_owners: int) -> Any:
        """Return the state before any data: δ is neutral, or what is known beforehand."""

    def predict(self, state: Any, owner: Array, x: Array) -> Array:
        """Evaluate the published δ_θ(x): (N, 1 or K, q)."""

    def version(self, state: Any, owner: Array) -> Array:
        """Return the version of the fit that `predict` uses: (N,)."""

    def uncertainty(self, state: Any, owner: Array, x: Array) -> Array:
        """Return the standard error of δ's linear predictor, shaped as δ."""

    def observe(
        self, state: Any, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Accumulate rows: executed `action` (N, D), `label` (N, n_labels; NaN: not seen).

        A scaler that learns from outcomes gets them as `label`, (N, 1).
        """

    def due(self, state: Any) -> Array:
        """Return the owners whose publication is due: integers."""

    def publish(self, state: Any, owners: Array) -> Array:
        """Refit and publish; return the owners whose δ changed."""
