"""Our posteriors and values beside the peers' on the same rows: they must agree to 1e-8."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.off_policy import beside_obp
from benchmarks.peers_driver import posterior
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import BetaThompson, GaussianThompson, LinearThompson
from gdcb.logistic import LogisticPosterior
from gdcb.posterior import unpack
from gdcb.records import Evidence

N, ARMS, D = 200, 3, 4
TOLERANCE = 1e-8
LINEAR = {
    "mabwiser": (2.5, 0.3),
    "contextualbandits": (2.5, 0.3),
    "bayesianbandits": (2.5, 0.3),
    "river": (2.5, 0.3),
    "obp": (1.0, 1.0),
}


def sample() -> tuple[Array, Array, Array]:
    """Return arm, x and y of 200 rows."""
    rng = np.random.default_rng(11)
    arm, x = rng.integers(0, ARMS, N), rng.normal(size=(N, D))
    return arm, x, x[:, 0] * arm + rng.normal(size=N)


def seen(arm: Array, x: Array, y: Array) -> Evidence:
    """Return rows of one cell as evidence."""
    zero = np.zeros(arm.size, dtype=np.int64)
    return Evidence(zero, arm, np.zeros((arm.size, 1)), y, None, np.ones(arm.size), x)


def table() -> list[tuple[str, str, str]]:
    """Compare every posterior that a peer also has; raise where one differs."""
    return [*linear(), *beta(), *gaussian(), *logistic(), *off_policy_values()]


def linear() -> list[tuple[str, str, str]]:
    """LinTS and LinUCB: the peers have no intercept, so that they get a column of ones."""
    arm, x, y = sample()
    wide = np.concatenate((np.ones((N, 1)), x), axis=1)
    found = []
    for peer, (precision, noise) in LINEAR.items():
        bandit = LinearThompson(tuple(range(D)), precision**-0.5, noise)
        state = _learned(bandit, arm, x, y)
        prior = {"arms": ARMS, "precision": precision, "noise": noise}
        theirs = posterior(peer, "linear", arm, wide, y, **prior)
        if "reason" in theirs:
            found.append(("linear", peer, theirs["reason"]))
            continue
        covariance = theirs.get("covariance")
        if covariance is None:
            covariance = np.linalg.inv(theirs["precision"])
        ours = unpack(state.weights.covariance[0], D + 1)
        gaps = (state.weights.mean[0] - theirs["mean"], ours - covariance)
        found.append(("linear, mean and covariance", peer, _worst(*gaps)))
    return found


def beta() -> list[tuple[str, str, str]]:
    """Beta-Thompson under Beta(1, 1)."""
    arm, x, y = sample()
    won = (y > 0).astype(float)
    state = _learned(BetaThompson(), arm, x, won)
    found = []
    for peer in ("mabwiser", "bayesianbandits", "river", "obp"):
        theirs = posterior(peer, "beta", arm, x, won, arms=ARMS, a=1.0, b=1.0)
        gap = None if "reason" in theirs else state.counts[0].T - theirs["counts"]
        found.append(("Beta counts", peer, theirs["reason"] if gap is None else _worst(gap)))
    return found


def gaussian() -> list[tuple[str, str, str]]:
    """Normal-inverse-gamma arms: a regression on a column of ones."""
    arm, x, y = sample()
    bandit = GaussianThompson(strength=2.0, shape=1.5, rate=0.7)
    state = _learned(bandit, arm, x, y)
    prior = {"precision": 2.0, "a": 1.5, "b": 0.7}
    theirs = posterior("bayesianbandits", "nig", arm, np.ones((N, 1)), y, arms=ARMS, **prior)
    if "reason" in theirs:
        return [("Gaussian, variance unknown", "bayesianbandits", theirs["reason"])]
    strength, mean, shape, rate = bandit._posterior(state, np.zeros(1, dtype=np.int64))
    gaps = (
        mean[0] - theirs["mean"][:, 0],
        strength[0] - theirs["precision"][:, 0, 0],
        shape[0] - theirs["a"],
        rate[0] - theirs["b"],
    )
    return [("Gaussian, variance unknown", "bayesianbandits", _worst(*gaps))]


def logistic() -> list[tuple[str, str, str]]:
    """Logistic regression: the Laplace posterior of all rows at once."""
    arm, x, y = sample()
    won = (y > 0).astype(float)
    theirs = posterior("bayesianbandits", "logistic", arm, x, won, arms=ARMS, precision=2.0)
    if "reason" in theirs:
        return [("logistic, mode and precision", "bayesianbandits", theirs["reason"])]
    gaps = []
    for one in range(ARMS):
        own = arm == one
        fit = LogisticPosterior.fit(x[own], won[own], prior_precision=2.0)
        gaps.append(fit.mean[0] - theirs["mean"][one])
        gaps.append(np.linalg.inv(fit.covariance[0]) - theirs["precision"][one])
    return [("logistic, mode and precision", "bayesianbandits", _worst(*gaps))]


def off_policy_values() -> list[tuple[str, str, str]]:
    """DM, IPS, SNIPS, DR, SNDR and switch-DR of one gated log."""
    found = beside_obp()
    name = "off-policy values, six estimators"
    if "reason" in found:
        return [(name, "obp", found["reason"])]
    return [(name, "obp", _worst(np.array(list(found["difference"].values()))))]


def _learned(bandit: Any, arm: Array, x: Array, y: Array) -> Any:
    arms = ArmList(names=tuple(f"arm {i}" for i in range(ARMS))).build()
    state = bandit.init(np.zeros(1, dtype=np.int64), arms)
    bandit.update(state, seen(arm, x, y))
    return state


def _worst(*gaps: Array) -> str:
    worst = max(float(np.abs(gap).max()) for gap in gaps)
    if worst > TOLERANCE:
        raise AssertionError(f"a figure differs from its peer's by {worst:.1e}")
    return f"{worst:.0e}"
