"""Certify a log of past decisions, and start warm from it.

    python examples/warm_start.py days.csv      # keeps the log
    gdcb check days.csv --instance examples/shop.toml

The shop charged more on busy days, when everything sells: the plain means of its log praise high
prices. The certificate sees it, and the warm start takes off what context explains.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import gdcb
from gdcb.declaration import read

DAYS = 6000
HERE = Path(__file__).parent


def made_log(seed=5):
    """Make the log of a shop: nothing in it is real, so the best level, 0.95, is known."""
    rng = np.random.default_rng(seed)
    footfall, weekend = rng.uniform(0, 1, DAYS), rng.random(DAYS) < 2 / 7
    levels = np.array([0.8, 0.9, 1.0, 1.1, 1.2])
    wanted = 1.0 + 0.25 * (footfall - 0.5) + 0.1 * rng.standard_normal(DAYS)
    proposed = levels[np.abs(wanted[:, None] - levels).argmin(axis=1)]
    is_edited = rng.random(DAYS) < 0.2
    charged = np.where(is_edited, rng.choice(levels, DAYS), proposed)
    profit = 10 - 60 * (charged - 0.95) ** 2 + 6 * footfall + 2 * weekend
    return pl.DataFrame(
        {
            "day": pl.date_range(pl.date(2010, 1, 1), pl.date(2030, 1, 1), eager=True)[:DAYS],
            "visitors_expected": footfall,
            "weekend": weekend,
            "stock": rng.integers(0, 101, DAYS),
            "level_proposed": proposed,
            "owner_said": np.where(charged == proposed, "approved", "edited"),
            "level_charged": charged,
            "profit": profit + rng.standard_normal(DAYS),
        }
    )


declared = read(HERE / "shop.toml")
with tempfile.TemporaryDirectory() as folder:
    path = Path(sys.argv[1]) if sys.argv[1:] else Path(folder) / "days.csv"
    log = made_log()
    log.write_csv(path)
    agent = gdcb.Agent(declared.instance, declared.bandit, seed=1)
    certificate = agent.warm_up(path, columns=declared.columns)

print(f"verdict: {certificate.verdict}")
for reason in certificate.reasons:
    print(f"- {reason}")
plain = log.group_by("level_charged").agg(pl.col("profit").mean()).sort("level_charged")
learned = agent.state.bandit.estimate[0]
print("level  plain mean  learned  counts as")
for arm, mean, value in zip(certificate.arms, plain["profit"], learned, strict=True):
    print(f"{arm.arm:>5}  {mean:10.2f}  {value:7.2f}  {arm.n_eff:9.0f}")

case = agent.decide({"footfall": 0.9, "weekend": True, "stock": 40})
print(f"first proposal: {case.proposed}, {case.status}")
