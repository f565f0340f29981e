"""Small logs for tests: prices behind a manager, doses, categories; written as CSV."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl


def prices(path: Path, n: int = 900, seed: int = 0, units: int = 3, person: bool = True) -> Path:
    """Write bookings: P = σ(3 − 3·price/base + 2·(demand − ½)), a manager who changes a third.

    The incumbent asks for more where demand is high, so that a fit without context would be biased.
    """
    rng = np.random.default_rng(seed)
    demand, weekend = rng.random(n), rng.random(n) < 0.3
    base = np.round(80 + 120 * rng.random(n), 2)
    wanted = base * (0.9 + 0.4 * (demand - 0.5)) * np.exp(0.15 * rng.standard_normal(n))
    approved = rng.random(n) < 0.65
    own = base * (1.0 + 0.1 * rng.standard_normal(n))
    ran = np.round(np.where(approved | (not person), wanted, own), 2)
    log_odds = 3.0 - 3.0 * ran / base + 2.0 * (demand - 0.5)
    booked = (rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
    day = np.datetime64("2025-01-01") + np.arange(n) // 5
    data = {
        "order_id": np.arange(10_000, 10_000 + n),
        "decided_at": day.astype(str),
        "listing": [f"L{i % units}" for i in range(n)],
        "demand": demand.round(4),
        "weekend": weekend,
        "channel": np.where(rng.random(n) < 0.5, "web", "desk"),
        "base_price": base,
        "note": [f"guest {i}" for i in range(n)],
        "currency": ["EUR"] * n,
        "recommended_price": np.round(np.where(approved | (not person), ran, wanted), 2),
        "price": ran,
        "booked": booked,
        "revenue": booked * ran,
        "checked_in": np.where(booked == 1, "yes", "never"),
    }
    frame = pl.DataFrame(data)
    if not person:
        frame = frame.drop("recommended_price")
    if units == 1:
        frame = frame.drop("listing")
    frame.write_csv(path)
    return path


def doses(path: Path, n: int = 600, seed: int = 0) -> Path:
    """Write rewards of offsets around 0: r = 5 − (dose − severity)² + noise; no gate."""
    rng = np.random.default_rng(seed)
    severity = rng.normal(size=n)
    dose = np.round(0.5 * severity + rng.normal(size=n), 3)
    reward = 5.0 - (dose - severity) ** 2 + 0.5 * rng.normal(size=n)
    pl.DataFrame({"severity": severity, "dose": dose, "reward": reward}).write_csv(path)
    return path


def choices(path: Path, n: int = 800, seed: int = 0) -> Path:
    """Write what a moderator made of proposals: three categories, a 0/1 outcome, a status."""
    rng = np.random.default_rng(seed)
    names = np.array(["allow", "remove", "warn"])
    toxicity = rng.random(n)
    proposed = rng.integers(0, 3, n)
    approved = rng.random(n) < 0.7
    ran = np.where(approved, proposed, np.where(toxicity > 0.5, 1, 0))
    right = np.where(toxicity > 0.6, 1, 0)
    p = np.where(ran == right, 0.8, 0.4)
    data = {
        "toxicity": toxicity.round(4),
        "proposed_action": names[proposed],
        "action": names[ran],
        "status": np.where(ran == proposed, "approved", "overridden"),
        "success": (rng.random(n) < p).astype(int),
    }
    pl.DataFrame(data).write_csv(path)
    return path
