"""The advice of an existing model: what a fit to other clinics, frozen, says of the offset.

Everybody in the field could have such a model, so contextual rivals read it as a column. Our scaler
does not: it learns from its own clinic's labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.dosing.columns import FEATURES
from gdcb.instances.dosing.learners import feature_map, of_map
from gdcb.scalers import GaussianProcessScaler


def advice(variant: str, x: Array) -> Array:
    """Return the offset that the pilot clinics' model advises for contexts (N, 5 or more): (N,)."""
    return np.asarray((_bound(variant).phi(x) * _head(variant)).sum(axis=1))


def head_of(known: Mapping[str, Any], x: Array, label: Array) -> Array:
    """Return the head (1 + points,) of one model for all clinics, on a feature map.

    One fit to all labels, and not the mean of the clinics' own: a clinic's head says nothing of
    patients whom it does not have, so that their mean would advise too little.
    """
    scaler = replace(of_map(known), features=tuple(range(len(FEATURES))))
    state, one = scaler.init(1), np.zeros(x.shape[0], dtype=np.int64)
    scaler.observe(state, one, x, label, label, np.ones(x.shape[0]))
    return np.asarray(scaler.solve(state.sums, np.zeros(1, dtype=np.int64))[0, 0])


@cache
def _bound(variant: str) -> GaussianProcessScaler:
    return replace(of_map(feature_map(variant)), features=tuple(range(len(FEATURES))))


@cache
def _head(variant: str) -> Array:
    return np.array(feature_map(variant)["head"])
