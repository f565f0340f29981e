"""The Kalman lemma: whether its constant bounds what (Q, R) do, and whether λ > 0 identifies θ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import eigvals

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, riccati
from gdcb.kalman.sensitivity import derivative, lemma_bound
from gdcb.theorems.verdict import PAPER, REPAIRED, Check

SHAPES = ((1, 1), (2, 1), (3, 1), (2, 2), (4, 2))  # states and measurements
_STEP = 1e-3  # of the differences, relative to the smallest eigenvalue
_AGREED = 1e-5  # to which they tell a derivative


def sensitivity(rng: np.random.Generator, n_systems: int) -> dict[str, Any]:
    """Compare the lemma's bound with the truth, and the derivative with differences."""
    rows = []
    for n, m in SHAPES:
        count = n_systems // len(SHAPES)
        f, h, q, r = _systems(rng, count, n, m)
        found = lemma_bound(f, h, q, r)
        over = found.covariance / found.covariance_bound
        rows.append(
            {
                "states": n,
                "measurements": m,
                "systems": count,
                "violated": int(found.is_violated.sum()),
                "worst": float(over.max()),
                "repaired_worst": float((found.covariance / found.repaired_bound).max()),
                "off": _off(rng, f, h, q, r),
            }
        )
    columns = ["states", "measurements", "systems", "violated", "worst", "repaired_worst", "off"]
    return {
        "rows": rows,
        "systems": sum(row["systems"] for row in rows),
        "violated": sum(row["violated"] for row in rows),
        "table": {
            "columns": [
                *columns[:4],
                "most over the bound",
                "over the repaired one",
                "derivative off differences",
            ],
            "rows": [[row[name] for name in columns] for row in rows],
        },
    }


def identification(rng: np.random.Generator, n_rows: int) -> dict[str, Any]:
    """Fit ridge regressions on a design that repeats a column, and on one that does not."""
    found = {}
    truth = np.array([1.0, 0.0])
    for name in ("repeated", "apart"):
        x = rng.normal(size=(n_rows, 2))
        if name == "repeated":
            x[:, 1] = x[:, 0]
        y = x @ truth + rng.normal(size=n_rows)
        theta = np.linalg.solve(x.T @ x + np.eye(2), x.T @ y)
        found[name] = {
            "theta": theta,
            "error": float(np.linalg.norm(theta - truth)),
            "least": float(np.linalg.eigvalsh(x.T @ x / n_rows)[0]),
        }
    return {"rows": n_rows, **found}


def checks(found: dict[str, Any], ridge: dict[str, Any]) -> list[Check]:
    """Judge the lemma's constant, what is put in its place, and identifiability."""
    rows, n, count = found["rows"], found["systems"], found["violated"]
    share = count / n
    wide = 1.96 * (share * (1.0 - share) / n) ** 0.5
    repeated, apart = ridge["repeated"], ridge["apart"]
    return [
        Check(
            PAPER,
            "(Q, R) ↦ P has the Lipschitz constant L/(1 − ρ), ρ the Riemannian contraction",
            count == 0,
            f"violated in {count:,} of {n:,} random systems ({100 * share:.0f} ± {100 * wide:.0f} "
            f"%), by up to {max(row['worst'] for row in rows):.1f} times; with one state never, "
            "where both metrics are one",
        ),
        Check(
            PAPER,
            "λ > 0 makes θ identified, without a condition on the design",
            repeated["error"] < 0.1,
            f"unique, but off by {repeated['error']:.2f} after {ridge['rows']:,} rows of a design "
            f"with λ_min(XᵀX/N) = {abs(repeated['least']):.2f}, and by "
            f"{apart['error']:.3f} where it is {apart['least']:.2f}",
        ),
        Check(
            REPAIRED,
            "dP = A dP Aᵀ + dQ + FK dR KᵀFᵀ is the derivative, and ‖dP‖ ≤ L‖P‖/λ_min(Q)",
            all(row["off"] < _AGREED for row in rows)
            and all(row["repaired_worst"] <= 1.0 + 1e-9 for row in rows),
            f"off differences by up to {max(row['off'] for row in rows):.0e}; nearest to "
            f"the bound {max(row['repaired_worst'] for row in rows):.2f} of it",
        ),
    ]


def _systems(rng: np.random.Generator, count: int, n: int, m: int) -> tuple[Array, ...]:
    """Draw F of radius 0.3 to 1.1, H, and Q and R whose eigenvalues span two decades."""
    f = rng.normal(size=(count, n, n))
    f *= (rng.uniform(0.3, 1.1, count) / np.abs(eigvals(f)).max(axis=-1))[:, None, None]
    return (
        f,
        rng.normal(size=(count, m, n)),
        _covariances(rng, count, n),
        _covariances(rng, count, m),
    )


def _covariances(rng: np.random.Generator, count: int, k: int) -> Array:
    turned = np.linalg.qr(rng.normal(size=(count, k, k)))[0]
    values = 10.0 ** rng.uniform(-1.0, 1.0, size=(count, 1, k))
    return np.asarray((turned * values) @ turned.swapaxes(-1, -2))


def _off(rng: np.random.Generator, f: Array, h: Array, q: Array, r: Array) -> float:
    """Return the largest difference of dK to differences, relative to its size."""
    dq, dr = (
        0.5 * (x + x.swapaxes(-1, -2)) for x in (rng.normal(size=q.shape), rng.normal(size=r.shape))
    )
    step = _STEP * np.minimum(np.linalg.eigvalsh(q)[:, 0], np.linalg.eigvalsh(r)[:, 0])
    step = step[:, None, None]

    def at(sign: float) -> Array:
        there = q + sign * step * dq, r + sign * step * dr
        return gain(h, riccati(f, h, *there), there[1])

    slopes = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * step)
    _, dk = derivative(f, h, q, r, dq, dr)
    off = np.linalg.norm(slopes - dk, axis=(1, 2)) / np.linalg.norm(dk, axis=(1, 2))
    return float(off.max())
