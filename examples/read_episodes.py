"""Run a small experiment from Python, and read its episodes: regret above the floor by night 30."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from gdcb.engine import named
from gdcb.protocol.experiment import experiment, settings_of

settings = settings_of(
    "str", "well", episodes=30, replicates=4, seed=1, methods=("B4", "A3", "B2g", "B2gw")
)
with TemporaryDirectory() as folder:
    summary = experiment(
        settings, Path(folder), named("local"), progress=lambda done, total: None, say=print
    )
    episodes = pl.read_parquet(Path(folder) / "episodes.parquet")

print(summary["command"])
excess = (pl.col("regret") - pl.col("floor")).sum().alias("excess")
by_replicate = episodes.group_by("method", "replicate", maintain_order=True).agg(excess)
print(by_replicate.group_by("method", maintain_order=True).agg(pl.col("excess").mean().round(1)))
