"""Theorem 1's estimators of an arm's value: what is left of its mean and variance.

Rewards r = v(a) + s(a)·x₁ + b(a)·(x₁² − 1) + σ·ε, x standardised and independent. The regression m
knows x, not its square. Arms are dealt evenly, or by x₁ with known odds. Replicates are owners of
one batch, so all fits are one program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.adjustment import Adjustment
from gdcb.arrays import Array
from gdcb.records import Evidence
from gdcb.theorems.verdict import PAPER, REPAIRED, Check

VALUES = np.array([1.0, 1.3, 0.7])
SLOPES = np.array([0.6, 0.9, 0.3])
BENDS = np.array([0.4, -0.3, 0.2])
SIGMA = 0.5
_Z = 3.29  # 99.9 % an arm: a check must not cry wolf over its many figures
_MANY = 60_000  # rows from which the limits are computed
_EDGE = 3.0**0.5
_REFERENCE = ((-1.0, -1.0), (1.0, 1.0))  # m is linear, so two rows with mean 0 are enough
_NAMES = {
    "plain": "the plain mean",
    "paper": "the paper's form",
    "centred": "the centred form",
    "aipw": "the doubly robust form",
}


_OURS = ("centred", "aipw")


@dataclass(frozen=True, slots=True)
class Case:
    """How arms are dealt ('even', or by 'context'), and whether m can be 'right' or is 'wrong'."""

    design: str
    model: str

    @property
    def name(self) -> str:
        """In words."""
        return f"arms dealt {'evenly' if self.design == 'even' else 'by context'}, m {self.model}"


CASES = (
    Case("even", "right"),
    Case("even", "wrong"),
    Case("context", "right"),
    Case("context", "wrong"),
)


def estimate(rng: np.random.Generator, replicates: int, n: int) -> dict[str, Any]:
    """Return bias and variance of every estimator in every case, over replicates of n rows."""
    found: list[dict[str, Any]] = []
    for case in CASES:
        by_form, noise = _estimates(rng, case, replicates, n)
        limits = _limits(rng, case)
        for form, means in by_form.items():
            arms = [
                _arm(means[:, a], float(VALUES[a]), float(noise[a]), float(limits[form][a]))
                for a in range(VALUES.size)
            ]
            about = {"case": case.name, "design": case.design, "model": case.model}
            found.append({**about, "form": form, "arms": arms})
    columns = ["case", "estimator", "arm", "bias", "low", "high", "variance / (σ²/n)", "its limit"]
    keys = ("bias", "low", "high", "variance", "limit")
    rows = [
        [one["case"], _NAMES[one["form"]], a + 1, *(arm[key] for key in keys)]
        for one in found
        for a, arm in enumerate(one["arms"])
    ]
    return {
        "replicates": replicates,
        "n": n,
        "values": VALUES.tolist(),
        "noise": SIGMA**2,
        "table": {"columns": columns, "rows": rows},
        "estimators": found,
    }


def checks(figures: dict[str, Any]) -> list[Check]:
    """Judge what each form does to an arm's mean, and to its variance."""
    by = {(one["design"], one["model"], one["form"]): one["arms"] for one in figures["estimators"]}
    papers = by["even", "right", "paper"]
    plain, centred = by["even", "right", "plain"], by["even", "right", "centred"]
    robust, naive = by["context", "wrong", "aipw"], by["context", "wrong", "centred"]
    right = [arms for (_, model, form), arms in by.items() if model == "right" and form in _OURS]
    return [
        Check(
            PAPER,
            "subtracting u(Φ(a, δ̂(x))) leaves an estimate of the arm's value",
            _unbiased(papers),
            f"means {_list(papers, 'mean')} for the values {_say(VALUES)}",
        ),
        Check(
            PAPER,
            "the variance of that estimate tends to σ²/n",
            _at_limit(papers),
            f"{_list(papers, 'variance')} of σ²/n",
        ),
        Check(
            REPAIRED,
            "centring, r − (m(a, x) − m̄(a)), keeps the arm's value and takes off what context "
            "explains",
            _unbiased(centred) and _at_limit(centred),
            f"means {_list(centred, 'mean')}; variances {_list(centred, 'variance')} of σ²/n, "
            f"against {_list(plain, 'variance')} for plain means",
        ),
        Check(
            REPAIRED,
            "with m right, the centred and the doubly robust form reach their limits however arms "
            "are dealt",
            all(_unbiased(arms) and _at_limit(arms) for arms in right),
            f"largest bias {max(_largest(arms) for arms in right):.3f}; variances "
            f"{_range([arm['variance'] / arm['limit'] for arms in right for arm in arms])} of "
            "their limits",
        ),
        Check(
            REPAIRED,
            "where arms are dealt by context and m is wrong, the doubly robust form keeps the "
            "value and centring does not",
            _unbiased(robust) and not _unbiased(naive),
            f"largest bias {_largest(robust):.3f} against {_largest(naive):.3f}",
        ),
    ]


def _rows(rng: np.random.Generator, case: Case, n: int) -> tuple[Array, Array, Array, Array]:
    """Return contexts, arms, their propensities and rewards of n rows."""
    k = VALUES.size
    x = rng.uniform(-_EDGE, _EDGE, size=(n, 2))
    odds = np.exp(0.6 * x[:, :1] * np.arange(-1, k - 1) * (case.design == "context"))
    odds /= odds.sum(axis=1, keepdims=True)
    arm = (odds.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    reward = VALUES[arm] + SLOPES[arm] * x[:, 0] + SIGMA * rng.normal(size=n)
    if case.model == "wrong":
        reward += BENDS[arm] * (x[:, 0] ** 2 - 1.0)
    return x, arm, odds[np.arange(n), arm], reward


def _estimates(
    rng: np.random.Generator, case: Case, replicates: int, n: int
) -> tuple[dict[str, Array], Array]:
    """Return estimates (replicates, K) by form, and σ²·E[1/n_a] of every arm."""
    k, total = VALUES.size, replicates * n
    owner = np.repeat(np.arange(replicates), n)
    x, arm, propensity, reward = _rows(rng, case, total)
    seen = Evidence(owner, arm, x, reward, None, np.ones(total), x)
    # The paper's limit: θ̂ = θ*, and the whole prediction is taken off.
    known = VALUES[arm] + SLOPES[arm] * x[:, 0]
    found = {"plain": seen, "paper": replace(seen, y=reward - known)}
    for form in _OURS:
        adjust = Adjustment(_REFERENCE, features=(0, 1), form=form, penalty=0.01)
        found[form] = adjust.cross_fit(replicates, k, owner, seen, propensity)
    place = owner * k + arm
    means = {name: _means(place, rows, replicates, k) for name, rows in found.items()}
    counts = np.bincount(place, minlength=replicates * k).reshape(replicates, k)
    return means, SIGMA**2 * (1.0 / counts).mean(axis=0)


def _limits(rng: np.random.Generator, case: Case) -> dict[str, Array]:
    """Return the limit of n·Var/σ² of every form and arm, from many rows.

    An estimate is a mean of wᵢ(rᵢ − m(xᵢ) + m̄), and the error of m̄ adds Σwᵢxᵢ times that of the
    slopes: together a sum over rows of hᵢ·(rᵢ − fit), h = w/w̄ − x̄_wᵀS⁻¹(x − x̄), whatever m is.
    """
    x, arm, propensity, reward = _rows(rng, case, _MANY)
    limits: dict[str, list[float]] = {name: [] for name in _NAMES}
    for a in range(VALUES.size):
        mine = np.flatnonzero(arm == a)
        z, r = x[mine], reward[mine]
        off = z - z.mean(axis=0)
        inner = np.linalg.inv(off.T @ off / mine.size)
        slope = inner @ (off * r[:, None]).mean(axis=0)
        left = r - r.mean() - off @ slope
        limits["plain"].append(float(r.var()))
        limits["paper"].append(float((r - VALUES[a] - SLOPES[a] * z[:, 0]).var()))
        for form in _OURS:
            w = 1.0 / propensity[mine] if form == "aipw" else np.ones(mine.size)
            w /= w.mean()
            centre = (w[:, None] * z).mean(axis=0)
            adjusted = r - z @ slope
            part = w * (adjusted - (w * adjusted).mean()) - (off @ inner @ centre) * left
            limits[form].append(float((part**2).mean()))
    return {name: np.array(values) / SIGMA**2 for name, values in limits.items()}


def _means(place: Array, rows: Evidence, replicates: int, k: int) -> Array:
    weight = np.bincount(place, rows.weight, replicates * k)
    total = np.bincount(place, rows.weight * rows.y, replicates * k)
    return (total / weight).reshape(replicates, k)


def _arm(estimates: Array, value: float, noise: float, limit: float) -> dict[str, float]:
    """Return mean and variance (in σ²/n) of one arm's estimates, with intervals."""
    n, variance = estimates.size, float(estimates.var(ddof=1))
    half, spread = _Z * (variance / n) ** 0.5, _Z * (2.0 / (n - 1)) ** 0.5
    mean, ratio = float(estimates.mean()), variance / noise
    return {
        "value": value,
        "mean": mean,
        "bias": mean - value,
        "low": mean - value - half,
        "high": mean - value + half,
        "variance": ratio,
        "variance_low": ratio * (1.0 - spread),
        "variance_high": ratio * (1.0 + spread),
        "limit": limit,
    }


def _unbiased(arms: list[dict[str, float]]) -> bool:
    return all(one["low"] <= 0.0 <= one["high"] for one in arms)


def _at_limit(arms: list[dict[str, float]]) -> bool:
    """Return whether no interval of the variance lies more than a tenth away from its limit."""
    return all(
        one["variance_low"] <= 1.1 * one["limit"] and one["variance_high"] >= 0.9 * one["limit"]
        for one in arms
    )


def _largest(arms: list[dict[str, float]]) -> float:
    return max(abs(one["bias"]) for one in arms)


def _list(arms: list[dict[str, float]], what: str) -> str:
    return _say([one[what] for one in arms])


def _range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _say(values: Any) -> str:
    # No −0.00: a mean that tends to zero is 0.00 from either side.
    return ", ".join(f"{round(float(value), 2) + 0.0:.2f}" for value in values)
