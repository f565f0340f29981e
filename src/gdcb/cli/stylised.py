"""Stylised worlds: a short run of the recommended learner, and of the same without its scaler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from gdcb.analysis import Ledger
from gdcb.arrays import Array
from gdcb.cli.say import err, fail, out
from gdcb.errors import GdcbError
from gdcb.instance import Instance
from gdcb.instances import Domain, load
from gdcb.protocol.files import write_summary, write_text_whole
from gdcb.protocol.metrics import estimate, in_words
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, simulate

HEADINGS = ("method", "regret", "calibration", "bandit", "gate", "reward")
LABELS = {"B4": "GDCB", "A1": "no scaler"}


@dataclass(frozen=True)
class Result:
    """Ledgers of every method on the same worlds and random numbers."""

    name: str
    domain: Domain
    episodes: int
    replicates: int
    seed: int
    ledgers: dict[str, Ledger]

    def document(self) -> dict[str, Any]:
        """Return the result as the JSON that scripts read."""
        floor = self.ledgers["B4"].floor
        return {
            "instance": self.name,
            "variant": "stylised",
            "episodes": self.episodes,
            "replicates": self.replicates,
            "seed": self.seed,
            "floor": None if floor is None else estimate(floor.sum(axis=0)),
            "floor_curve": None
            if floor is None
            else [estimate(row) for row in floor.cumsum(axis=0)],
            "methods": {key: self._method(key, ledger) for key, ledger in self.ledgers.items()},
        }

    def _method(self, key: str, ledger: Ledger) -> dict[str, Any]:
        total = ledger.parts[..., 0]
        floor = self.ledgers["B4"].floor
        names = ("calibration", "bandit", "gate")
        return {
            "label": LABELS[key],
            "regret": estimate(total.sum(axis=0)),
            "excess": None if floor is None else estimate((total - floor).sum(axis=0)),
            "vs_B4": None
            if key == "B4"
            else estimate((total - self.ledgers["B4"].parts[..., 0]).sum(axis=0)),
            "regret_curve": [estimate(row) for row in total.cumsum(axis=0)],
            "parts": {
                name: estimate(ledger.parts[..., i + 1].sum(axis=0)) for i, name in enumerate(names)
            },
            "reward": estimate(ledger.reward.sum(axis=0)),
            "override_rate_curve": [estimate(row) for row in ledger.overridden],
        }


def without_scaler(instance: Instance) -> Instance:
    """Return the instance with δ held at its neutral value."""
    scaler = instance.scaler
    neutral = float(
        np.ravel(scaler.predict(scaler.init(1), np.zeros(1, dtype=np.int64), _zeros(instance)))[0]
    )
    constant = ConstantScaler(neutral, scaler.per, scaler.n_arms, scaler.n_columns)
    return dataclasses.replace(instance, scaler=constant, gate=instance.chain)


def _zeros(instance: Instance) -> Array:
    return np.zeros((1, instance.context.width))


def run_domain(
    name: str,
    domain: Domain,
    episodes: int,
    replicates: int,
    seed: int,
    progress: Callable[[str], None],
) -> Result:
    """Run every method on the same worlds; `progress` hears of each finished episode."""
    ledgers = {}
    for key in LABELS:
        instance = domain.instance if key == "B4" else without_scaler(domain.instance)
        with_floor = key == "B4" and not domain.is_endogenous
        ledger = Ledger(instance, domain.world, episodes, replicates, with_floor)

        def watch(turn: Turn, ledger: Ledger = ledger, key: str = key) -> None:
            ledger(turn)
            progress(LABELS[key])

        simulate(
            instance,
            domain.bandit,
            domain.world,
            rounds=episodes,
            replicates=replicates,
            units=domain.units,
            seed=seed,
            watch=watch,
        )
        ledgers[key] = ledger
    return Result(name, domain, episodes, replicates, seed, ledgers)


def run(
    name: str, episodes: int, replicates: int, seed: int, folder: Path, quiet: bool
) -> dict[str, Any]:
    """Run a stylised instance, write its files, and print a table unless `quiet`."""
    from gdcb.cli.page import page

    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bar:
            task = bar.add_task(name, total=episodes * len(LABELS))

            def step(label: str) -> None:
                bar.update(task, advance=1, description=f"{name}: {label}")

            result = run_domain(name, load(name), episodes, replicates, seed, step)
        document = result.document()
        command = f"gdcb run {name} --episodes {episodes} --replicates {replicates} --seed {seed}"
        write_summary(folder / "summary.json", document)
        write_text_whole(folder / "report.html", page(result, document, command))
    except KeyboardInterrupt:
        fail("interrupted; nothing was written")
    except (GdcbError, OSError) as error:
        fail(f"{name}: {error}")
    if not quiet:
        _show(result, document, folder)
    return document


def _show(result: Result, document: dict[str, Any], folder: Path) -> None:
    title = result.domain.instance.title
    table = Table(
        *(Column(name, no_wrap=True) for name in HEADINGS),
        box=None,
        pad_edge=False,
        title=f"{title}: {result.replicates} replicates of {result.episodes} episodes",
        caption="Sums over the episodes, mean over replicates ± half a 95 % interval.",
    )
    for method in document["methods"].values():
        cells = [method["regret"], *method["parts"].values(), method["reward"]]
        table.add_row(method["label"], *(in_words(cell) for cell in cells))
    out.print(table)
    against = document["methods"]["A1"]["vs_B4"]
    out.print(f"Paired, the scaler saves {in_words(against)} of regret.")
    if document["floor"] is not None:
        out.print(f"Gate floor (what even the best proposal loses): {in_words(document['floor'])}")
    out.print(f"Report: [bold]{folder / 'report.html'}[/bold]  (a stylised world: made, not real)")
