"""δ°: the severity score in the trunk's family that lies nearest to a platform's severity."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.moderation.columns import REPORTS, TEXT
from gdcb.instances.moderation.world import REACH_LAW, WEIGHTS, Communities, Forum, reports
from gdcb.records import Rows

_SEED = 7  # of the attributes that the bank's posts are given here
_PENALTY = 1e-6


def nearest(world: Forum, state: Communities, rows: Rows, units: int) -> Array:
    """Return δ° of every platform on reference contexts: (platforms, N).

    In `well` it is the truth. In `mis` the least-squares fit of severity on the activations over
    all posts of the bank, which are as likely as each other.
    """
    phi = world.model.phi(rows.x[:, : REPORTS + 1])
    theta = state.theta[::units]
    if world.variant == "mis":
        theta = _fitted(world, state.weights[::units])
    # Sums and no matrix product: a platform's numbers must not hang on who is beside it.
    return np.asarray((theta[:, None, :] * phi).sum(axis=-1))


def _fitted(world: Forum, weights: Array) -> Array:
    """Return the head (platforms, d) that lies nearest to severities of weights (platforms, 3)."""
    bank, rng = world.posts, np.random.Generator(np.random.PCG64(_SEED))
    reach = rng.beta(*REACH_LAW, bank.n) if bank.reach is None else bank.reach
    usual = np.minimum((WEIGHTS * bank.parts).sum(axis=1), 1.0)
    told = reports(rng.random(bank.n), usual, reach) if bank.reports is None else bank.reports
    x = np.empty((bank.n, TEXT + 2))
    x[:, :TEXT], x[:, TEXT], x[:, TEXT + 1] = bank.x, reach, told
    phi = world.model.phi(x)
    normal = phi.T @ phi + _PENALTY * np.eye(phi.shape[1])
    solved = np.linalg.solve(normal, phi.T)  # (d, posts)
    theta = np.empty((weights.shape[0], phi.shape[1]))
    for g, weight in enumerate(weights):
        severity = np.minimum((weight * bank.parts).sum(axis=1), 1.0)
        theta[g] = (solved * severity).sum(axis=1)
    return theta
