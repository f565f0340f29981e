"""Keyword routing: what sent requests to tools before there was a bandit."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.tools.columns import DENIED, NAMES, K, S
from gdcb.instances.tools.world import Tenants
from gdcb.records import Rows
from gdcb.streams import Stream

PREFERENCE = np.linspace(0.05, 0.0, K)  # a list of preference: earlier slots win near ties
AWAY = 0.15  # share of requests that somebody sends to another tool that is offered
USUAL = 2.0  # examples in every prompt


def own(rows: Rows) -> Array:
    """Return the offered tool whose description is nearest, with two examples: (N, 3)."""
    return _prompt(_keyword(rows))


def incumbent(rng: Stream, _state: Tenants, rows: Rows) -> Array:
    """Return the same, but now and then another tool that is offered: people try things."""
    u = rng.uniform(rows.n, K + 1)
    other = np.where(_offered(rows), u[:, :K], -1.0).argmax(axis=1)
    return _prompt(np.where(u[:, K] < AWAY, other, _keyword(rows)))


def _keyword(rows: Rows) -> Array:
    return np.asarray(np.where(_offered(rows), rows.x[:, S] + PREFERENCE, -1.0).argmax(axis=1))


def _offered(rows: Rows) -> Array:
    """Return which tools may be proposed (N, K): those offered, without the denied if possible."""
    offered = np.ones((rows.n, K), dtype=bool) if rows.mask is None else rows.mask
    allowed = offered & ~np.isin(NAMES, DENIED)
    return np.where(allowed.any(axis=1, keepdims=True), allowed, offered)


def _prompt(tool: Array) -> Array:
    return np.stack((tool.astype(float), np.full(tool.size, USUAL), np.ones(tool.size)), axis=1)
