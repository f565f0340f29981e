"""How likely each arm was to be proposed, and each arm cell to be executed.

Asked for on demand: a decision never pays for it. Exact where a formula exists (an index is
certain, two normal arms), by quadrature where the arms' drawn values are independent and no gate
mixes them, otherwise by repeating the decision with seeded draws. The answer says which, and how
large its error is. What persons do is learned, and no arithmetic says how well: that takes rows
which were not learned from (`kernel_misfit`), and shows only what differs between groups of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.analysis.best_arm import best_arm
from gdcb.analysis.contraction import PIECES, arm_cells, cell_kernel
from gdcb.arrays import Array
from gdcb.bandits import Bandit, Marginals
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows, Setting
from gdcb.streams import PROPENSITY, Stream, check_seed

_A_BIN = 100  # rows
_DEPTH = 4  # splits above one another that are chosen by where the gap differs
_CUTS = 15  # places at which a column may be split
_OF_LAW = 3.0  # standard deviations of a context column that a probability from 0 to 1 is worth
TOLERANCE = 1e-3  # 'auto' repeats the decision of rows in which quadrature errs by more


@dataclass(slots=True)
class Propensity:
    """Probabilities of a decision, with their error.

    Parameters
    ----------
    proposed : (N, K) probability that each arm is proposed
    executed : (N, K + 2) probability that each arm cell is executed; then 'off every arm', then
        'nothing ran'
    error : (N, K) of `proposed`. Sampled: standard error, above 0 even for an arm that was never
        drawn. Quadrature: an estimate of the error itself (`best_arm`). Exact: 0
    method : 'exact', 'quadrature', 'sampled', or 'mixed': quadrature, and sampled in the rows in
        which it would err by more than 10⁻³
    numerical_error : (N, K + 2) of `executed` as if the learned kernels were true: what the error
        of `proposed` becomes behind the gates, plus what halving the pieces of the persons' own
        laws changes, plus what is missing from a sum of 1
    executed_error : (N, K + 2) of `executed`: `numerical_error`, plus how far the learned kernels
        were seen to be from what ran (`kernel_misfit`). It is no bound: misfit that differs between
        similar rows is not in it, and it is a mean over contexts. NaN, which is 'not known', where
        a kernel is learned and nobody has compared it
    """

    proposed: Array
    executed: Array
    error: Array
    method: str
    executed_error: Array
    numerical_error: Array


@dataclass(frozen=True, slots=True)
class KernelMisfit:
    """How far what gates do is from what was learned of them, by the arm that was proposed.

    Parameters
    ----------
    variation : (K,) upper limit of the total variation between the learned law of the executed
        cell and the true one, each averaged over groups of similar rows; 1 for an arm with too few
        rows. It is no limit of the error in single contexts: misfit that differs between similar
        rows is not seen
    n : (K,) rows compared
    level : probability with which all K limits hold, of groups
    """

    variation: Array
    n: Array
    level: float

    def __str__(self) -> str:
        """Say it in a sentence."""
        worst = float(self.variation.max())
        return (
            f"In groups of similar rows, what the gates were learned to do is off by at most "
            f"{worst:.2g} in total variation on average ({100 * self.level:g} % confidence, "
            f"{int(self.n.sum()):,} rows). Misfit that differs between similar rows is not seen."
        )


def kernel_misfit(
    instance: Instance,
    kernels: tuple[Any, ...],
    rows: Rows,
    arm: Array,
    executed: Array,
    delta: Array | None = None,
    *,
    level: float = 0.95,
) -> KernelMisfit:
    """Compare what gates were learned to do with what ran in rows that they were not learned from.

    Every second row of an arm chooses up to 4 levels of splits, by the column of the context or of
    what was predicted along which what ran departs from it most. The other n rows are put into
    these groups and, within them, into bins of about 100 that are alike. In each bin the mean
    prediction of every cell is compared with how often it ran. The mean total variation of the
    bins, T̂, is on average no smaller than that of the true means of the bins, and a row moves it by
    at most 1/n; so the latter is at most T̂ + √(ln(K/δ)/(2n)) with probability 1 − δ for all arms
    together (McDiarmid).

    Parameters
    ----------
    kernels : what was learned (`RoundState.kernels`), before these rows
    rows : contexts
    arm : (N,) arm that was proposed
    executed : (N, D) action that ran; NaN: nothing
    delta : (N, 1 or K, q) δ in force; None: 1
    level : 1 − δ

    Notes
    -----
    Assumes: rows are independent given their contexts, and nothing was learned from them.

    Stops applying: misfit that differs between similar rows averages out within a bin and is not
    seen, so this is no upper limit of the mean total variation row by row. Splits find what depends
    on few columns and shows in half of the rows. Few rows make the limit large, never small.
    """
    check_number("level", level, 0.5, 1.0 - 1e-9)
    n, k = rows.n, instance.space.n
    proposed, ran = np.asarray(arm), np.asarray(executed, dtype=float)
    if proposed.shape != (n,) or proposed.dtype.kind not in "iu":
        raise InvalidInput(f"arm: expected {n} whole numbers, got {proposed.dtype}")
    if n and not ((proposed >= 0) & (proposed < k)).all():
        raise InvalidInput(f"arm: expected 0 to {k - 1}")
    if ran.ndim != 2 or ran.shape[0] != n:
        raise InvalidInput(f"executed: expected ({n}, D) numbers, got {ran.shape}")
    scale = np.ones((n, 1, 1)) if delta is None else delta
    law = cell_kernel(instance, rows, scale, kernels)[np.arange(n), proposed]
    is_there = np.zeros_like(law)
    is_there[np.arange(n), arm_cells(instance, ran[:, None], scale, rows.x)[:, 0]] = 1.0
    spread = rows.x.std(axis=0)
    z = np.hstack(
        ((rows.x - rows.x.mean(axis=0)) / np.where(spread > 0, spread, 1.0), _OF_LAW * law)
    )
    variation, count, gap = np.ones(k), np.zeros(k, dtype=np.int64), is_there - law
    for a in np.unique(proposed):
        own = np.flatnonzero(proposed == a)
        choosing, compared = own[1::2], own[::2]
        count[a] = compared.size
        total = 0.0
        for part in _groups(z, gap, choosing, compared):
            bins = _alike(z[part])
            total += sum(np.abs(np.bincount(bins, gap[part, c])).sum() for c in range(k + 2))
        noise = np.sqrt(np.log(k / (1.0 - level)) / (2.0 * count[a]))
        variation[a] = min(1.0, 0.5 * float(total) / count[a] + noise)
    return KernelMisfit(variation, count, level)


def _groups(z: Array, gap: Array, choosing: Array, compared: Array) -> list[Array]:
    """Split rows where the gap (N, C) of the rows `choosing` differs most: parts of `compared`.

    A shallow regression tree on all columns of z: each split has the largest Σ n·|mean gap|² of
    its two sides, with at least half a bin of choosing rows on each.
    """
    waiting, found = [(choosing, compared, 0)], []
    while waiting:
        rows, others, depth = waiting.pop()
        split = None if depth == _DEPTH else _best_split(z[rows], gap[rows])
        if split is None:
            found.append(others)
            continue
        column, cut = split
        below, is_below = z[rows, column] <= cut, z[others, column] <= cut
        waiting.append((rows[below], others[is_below], depth + 1))
        waiting.append((rows[~below], others[~is_below], depth + 1))
    return [part for part in found if part.size]


def _best_split(z: Array, gap: Array) -> tuple[int, float] | None:
    """Return the column and the place of the best split; None: too few rows, or all alike."""
    n, best, found = z.shape[0], 0.0, None
    if n < _A_BIN:
        return None
    at = np.unique(np.linspace(_A_BIN // 2, n - _A_BIN // 2, _CUTS).astype(int))
    for column in range(z.shape[1]):
        order = np.argsort(z[:, column], kind="stable")
        ordered, sums = z[order, column], gap[order].cumsum(axis=0)
        here = at[ordered[at - 1] < ordered[np.minimum(at, n - 1)]]
        if not here.size:
            continue
        left, all_ = sums[here - 1], sums[-1]
        gain = (left**2).sum(axis=1) / here + ((all_ - left) ** 2).sum(axis=1) / (n - here)
        gain -= (all_**2).sum() / n
        if gain.max() > best:
            best = float(gain.max())
            found = (column, float(ordered[here[gain.argmax()] - 1]))
    return found


def _alike(z: Array) -> Array:
    """Return the bin of every row, about `_A_BIN` rows each: halves by the widest column of z."""
    found, waiting, n_bins = np.zeros(z.shape[0], dtype=np.int64), [np.arange(z.shape[0])], 0
    while waiting:
        rows = waiting.pop()
        widest = int(z[rows].std(axis=0).argmax())
        order = rows[np.argsort(z[rows, widest], kind="stable")]
        if rows.size >= 2 * _A_BIN and z[order[0], widest] < z[order[-1], widest]:
            waiting += [order[: rows.size // 2], order[rows.size // 2 :]]
            continue
        found[rows] = n_bins
        n_bins += 1
    return found


def propensity(
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    rows: Rows,
    *,
    method: str = "auto",
    draws: int = 2000,
    seed: int = 0,
    misfit: KernelMisfit | None = None,
) -> Propensity:
    """Return how likely each arm was to be proposed in this state, and each cell to be executed.

    The executed law is ∫ K_g dπ on arm cells, with the gates' kernels as learned so far. An
    executed action mixes atoms (the arms) and a density (a person's own numbers): only cells have
    a probability. See `cell_kernel` for what of K_g is exact and what is integrated.

    Parameters
    ----------
    rows : as for a decision; units that the state has
    method : 'auto', or insist on 'exact', 'quadrature' or 'sampled'
    draws : repetitions a row, where sampled
    seed : of these repetitions
    misfit : how far the learned kernels were seen to be from what ran (`kernel_misfit`), for
        `executed_error`; None: not known
    """
    given: Any = rows
    if not isinstance(given, Rows):
        raise InvalidInput(f"rows: expected Rows (see gdcb.records), got {type(given).__name__}")
    check_choice("method", method, ("auto", "exact", "quadrature", "sampled"))
    check_number("draws", draws, 2)
    check_seed(seed)
    instance.check_rows(rows, int(state.null.count.shape[0]))
    bandit = instance.bind(bandit)
    found = _computed(instance, bandit, state, rows, method)
    if found is None and method in ("exact", "quadrature"):
        raise InvalidInput(
            f"propensity: {type(bandit).__name__} behind these gates has no {method} form here; "
            "use method='sampled'"
        )
    is_sampled: Array = np.ones(rows.n, dtype=bool)
    if found is None:
        proposed, error = np.empty((2, rows.n, instance.space.n))
        how = "sampled"
    else:
        proposed, error, how = found
        is_sampled = np.asarray((error > TOLERANCE).any(axis=1) & (method == "auto"))
    if is_sampled.any():
        which = np.flatnonzero(is_sampled)
        asked = (instance, bandit, state, rows, which, int(draws), seed)
        proposed[which], error[which] = _sampled(*asked)
        how = "sampled" if is_sampled.all() else "mixed"
    delta, _ = turn.scale(instance, state, rows)
    kernel = coarse = cell_kernel(instance, rows, delta, state.kernels)
    if any(known is not None for known in state.kernels):
        coarse = cell_kernel(instance, rows, delta, state.kernels, pieces=PIECES // 2)
    executed = (proposed[:, None, :] @ kernel)[:, 0]
    # Sampled shares of two arms are correlated below 0, so that variances at most add up.
    apart = np.sqrt((error[:, None, :] ** 2 @ kernel**2)[:, 0])
    spread = np.where(is_sampled[:, None], apart, (error[:, None, :] @ kernel)[:, 0])
    rough = np.abs(kernel - coarse) + np.abs(1.0 - kernel.sum(axis=-1, keepdims=True))
    numerical = spread + (proposed[:, None, :] @ rough)[:, 0]
    off = np.zeros((rows.n, 1))
    if any(known is not None for known in state.kernels):
        # No cell is off by more than the total variation, as far as that was seen.
        off += np.nan if misfit is None else proposed @ misfit.variation[:, None]
    return Propensity(proposed, executed, error, how, numerical + off, numerical)


def _computed(
    instance: Instance, bandit: Bandit, state: turn.RoundState, rows: Rows, method: str
) -> tuple[Array, Array, str] | None:
    """Return probabilities, their error and the method, without drawing; None: no such form."""
    laws = None if method == "sampled" else _laws(instance, bandit, state, rows)
    if laws is None:
        return None
    if laws.kind == "point":
        return (*_certain(instance, bandit, state, rows), "exact")
    found = None if method == "quadrature" else _two_normal(laws, rows)
    if found is None and method != "exact":
        proposed, error = best_arm(laws, rows.mask)
        # Rounding leaves a hair below 0 where an arm hardly ever wins; whoever divides by a
        # probability must never meet it.
        kept = np.clip(proposed, 0.0, 1.0)
        total = kept.sum(axis=1, keepdims=True)
        kept = kept / np.where(total > 0, total, 1.0)
        found = (kept, np.maximum(error, np.abs(kept - proposed)), "quadrature")
    return found


def _laws(instance: Instance, bandit: Any, state: turn.RoundState, rows: Rows) -> Marginals | None:
    """Return the arms' laws in units of worth, or None where a gate or payoff mixes them."""
    if "marginals" not in bandit.supports:
        return None
    delta, _ = turn.scale(instance, state, rows)
    actions = instance.composition.compose(instance.space, delta, rows.x)
    at = Setting(instance.cells.of(rows.unit, delta), rows.x, delta)
    laws: Marginals = bandit.marginals(state.bandit, at)
    if laws.kind == "point":
        return laws
    if not np.isfinite(actions).all() or not _is_open(instance, actions, rows):
        return None
    if laws.kind != "beta" and not (laws.parameters[1] > 0).all():
        return None  # an arm that does not vary has no density
    levels = (np.full(actions.shape[:2], level) for level in (0.0, 0.5, 1.0))
    low, middle, high = (instance.reward.worth(level, actions, rows.x) for level in levels)
    is_affine = np.allclose(middle, (low + high) / 2, rtol=1e-12, atol=1e-300)
    slope = high - low
    if not is_affine or not (slope > 0).all():
        return None
    return Marginals(laws.kind, laws.parameters, low, slope)


def _is_open(instance: Instance, actions: Array, rows: Rows) -> bool:
    """Whether an arm is worth its own draw: selection ignores the gates, or they move nothing."""
    if instance.rules.select == "nominal":
        return True
    gates = instance.chain.gates
    return all(gate.is_hard for gate in gates) and not instance.chain.moved(actions, rows).any()


def _certain(
    instance: Instance, bandit: Bandit, state: turn.RoundState, rows: Rows
) -> tuple[Array, Array]:
    """Decide once: an index knows no chance."""
    arm = turn.decide(Stream((0, PROPENSITY), 0, 1), instance, bandit, state, rows).arm
    proposed = np.zeros((rows.n, instance.space.n))
    proposed[np.arange(rows.n), arm] = 1.0
    return proposed, np.zeros_like(proposed)


def _two_normal(laws: Marginals, rows: Rows) -> tuple[Array, Array, str] | None:
    """P(a > b) = Φ((μ_a − μ_b)/√(σ_a² + σ_b²)) where there are two arms and no mask."""
    if laws.kind != "normal" or laws.parameters[0].shape[1] != 2 or rows.mask is not None:
        return None
    from scipy.special import ndtr

    mean = laws.offset + laws.slope * laws.parameters[0]
    sd = laws.slope * laws.parameters[1]
    first = ndtr((mean[:, 0] - mean[:, 1]) / np.hypot(sd[:, 0], sd[:, 1]))
    proposed = np.stack((first, 1.0 - first), axis=1)
    return proposed, np.zeros_like(proposed), "exact"


def _sampled(
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    rows: Rows,
    which: Array,
    draws: int,
    seed: int,
) -> tuple[Array, Array]:
    """Repeat the decisions of some rows `draws` times; each row has a key of its own.

    The standard error is √(p̃(1 − p̃)/draws) with p̃ = (times + ½)/(draws + 1): an arm that was
    never drawn may still have a small chance. An arm that is masked has none.
    """
    k = instance.space.n
    times = np.zeros((which.size, k))
    stream = Stream((seed, PROPENSITY), 0, draws)
    for j, i in enumerate(which):
        stream.rekey((seed, PROPENSITY), int(i), draws)
        same = rows.take(np.full(draws, i))
        arm = turn.decide(stream, instance, bandit, state, same).arm
        times[j] = np.bincount(arm, minlength=k)
    share = (times + 0.5) / (draws + 1.0)
    error = np.sqrt(share * (1.0 - share) / draws)
    if rows.mask is not None:
        error[~rows.mask[which]] = 0.0
    return times / draws, error
