"""How likely each arm was to be proposed, and each arm cell to be executed.

Asked for on demand: a decision never pays for it. Exact where a formula exists (an index is
certain, two normal arms), by quadrature where the arms' drawn values are independent and no gate
mixes them, otherwise by repeating the decision with seeded draws. The answer says which, and how
large its error is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.analysis.contraction import cell_kernel
from gdcb.arrays import Array
from gdcb.bandits import Bandit, Marginals
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows, Setting
from gdcb.streams import PROPENSITY, Stream, check_seed

_LEVELS = 32  # quantiles of each arm between which its law is integrated
_ORDER = 5  # points of Gauss's rule between two quantiles
_CHUNK = 20_000  # rows decided at once when sampling


@dataclass(slots=True)
class Propensity:
    """Probabilities of a decision, with their error.

    Parameters
    ----------
    proposed : (N, K) probability that each arm is proposed
    executed : (N, K + 2) probability that each arm cell is executed; then 'off every arm', then
        'nothing ran'
    error : (N, K) standard error of `proposed` where sampled, else what halving the grid changes
    method : 'exact', 'quadrature' or 'sampled'
    """

    proposed: Array
    executed: Array
    error: Array
    method: str


def propensity(
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    rows: Rows,
    *,
    method: str = "auto",
    draws: int = 2000,
    seed: int = 0,
) -> Propensity:
    """Return how likely each arm was to be proposed in this state, and each cell to be executed.

    The executed law is ∫ K_g dπ on arm cells, with the gates' kernels as learned so far. An
    executed action mixes atoms (the arms) and a density (a person's own numbers): only cells have
    a probability.

    Parameters
    ----------
    method : 'auto', or insist on 'exact', 'quadrature' or 'sampled'
    draws : repetitions a row, where sampled
    seed : of these repetitions
    """
    check_choice("method", method, ("auto", "exact", "quadrature", "sampled"))
    check_number("draws", draws, 2)
    check_seed(seed)
    bandit = instance.bind(bandit)
    laws = None if method == "sampled" else _laws(instance, bandit, state, rows)
    found = None
    if laws is not None and laws.kind == "point":
        found = (*_certain(instance, bandit, state, rows), "exact")
    elif laws is not None and method != "exact":
        found = _two_normal(laws, rows) if method == "auto" else None
        found = found or (*_quadrature(laws, rows), "quadrature")
    elif laws is not None:
        found = _two_normal(laws, rows)
    if found is None and method in ("exact", "quadrature"):
        raise InvalidInput(
            f"propensity: {type(bandit).__name__} behind these gates has no {method} form here; "
            "use method='sampled'"
        )
    proposed, error, how = found or (
        *_sampled(instance, bandit, state, rows, int(draws), seed),
        "sampled",
    )
    delta, _ = turn.scale(instance, state, rows)
    kernel = cell_kernel(instance, rows, delta, state.kernels)
    executed = (proposed[:, None, :] @ kernel)[:, 0]
    return Propensity(proposed, executed, error, how)


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


def _quadrature(laws: Marginals, rows: Rows) -> tuple[Array, Array]:
    """P(a is best) = ∫ f_a Π_{b≠a} F_b, by Gauss's rule between the quantiles of all arms.

    So every law is resolved where it has its mass, however different their widths. The error is
    the difference from the same rule between every second quantile.
    """
    n, k = laws.parameters[0].shape
    allowed = np.ones((n, k), dtype=bool) if rows.mask is None else rows.mask
    share = np.sin(np.linspace(0.0, np.pi / 2, _LEVELS + 1)) ** 2
    share = np.clip(share, 1e-13, 1.0 - 1e-13)
    proposed, error = np.empty((n, k)), np.empty((n, k))
    for i in range(n):
        one = laws.take(slice(i, i + 1))
        nodes = one.quantile(share)[0]
        coarse = _best(one, nodes[allowed[i], ::2], allowed[i])
        proposed[i] = _best(one, nodes[allowed[i]], allowed[i])
        error[i] = np.abs(proposed[i] - coarse)
    return proposed, error


def _best(laws: Marginals, nodes: Array, allowed: Array) -> Array:
    """Integrate for one row between sorted nodes; arms that are not allowed never win."""
    edges = np.unique(nodes)
    point, weight = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(edges)[:, None] / 2
    grid = (edges[:-1, None] + half * (1.0 + point)).ravel()
    below = laws.cdf(grid[None, None, :])[0]
    below[~allowed] = 1.0
    before = np.cumprod(np.vstack((np.ones(grid.size), below[:-1])), axis=0)
    behind = np.cumprod(np.vstack((np.ones(grid.size), below[:0:-1])), axis=0)[::-1]
    mass = laws.density(grid[None, None, :])[0] * (half * weight).ravel()
    return np.where(allowed, (mass * before * behind).sum(axis=1), 0.0)


def _sampled(
    instance: Instance, bandit: Bandit, state: turn.RoundState, rows: Rows, draws: int, seed: int
) -> tuple[Array, Array]:
    """Repeat every decision `draws` times; each row's repetitions have a key of their own."""
    k = instance.space.n
    proposed = np.empty((rows.n, k))
    stream = Stream((seed, PROPENSITY), 0, draws)
    at_once = max(1, _CHUNK // draws)
    for start in range(0, rows.n, at_once):
        index = np.arange(start, min(start + at_once, rows.n))
        stream.rekey((seed, PROPENSITY), start, draws)
        some = rows.take(np.repeat(index, draws))
        arm = turn.decide(stream, instance, bandit, state, some).arm.reshape(-1, draws)
        for j, i in enumerate(index):
            proposed[i] = np.bincount(arm[j], minlength=k) / draws
    return proposed, np.sqrt(proposed * (1.0 - proposed) / draws)
