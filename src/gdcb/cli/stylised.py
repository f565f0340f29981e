"""Stylised worlds: a short run of the recommended learner, and of the same without its scaler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.analysis import Ledger
from gdcb.arrays import Array
from gdcb.cli.instances import paragraphs
from gdcb.cli.say import bar_of, fail, notice
from gdcb.errors import GdcbError
from gdcb.instance import Instance
from gdcb.instances import Domain, load
from gdcb.protocol.record import Ground, Record
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, simulate

LABELS = {"B4": "GDCB", "A1": "no scaler"}
EDGES = np.array([0.0, 1.0])  # actions are not counted: they have no common base
NO_FLOOR = (
    "what runs here changes later contexts: a gate floor would hang on the trajectory, so that "
    "only totals are compared"
)


def without_scaler(instance: Instance) -> Instance:
    """Return the instance with δ held at its neutral value."""
    scaler = instance.scaler
    neutral = float(
        np.ravel(scaler.predict(scaler.init(1), np.zeros(1, dtype=np.int64), _zeros(instance)))[0]
    )
    constant = ConstantScaler(neutral, scaler.per, scaler.n_arms, scaler.n_columns)
    return replace(instance, scaler=constant, gate=instance.chain)


def _zeros(instance: Instance) -> Array:
    return np.zeros((1, instance.context.width))


def run_domain(
    domain: Domain, episodes: int, replicates: int, seed: int, progress: Callable[[str], None]
) -> tuple[dict[str, Record], Ground]:
    """Run every method on the same worlds; `progress` hears of each finished episode."""
    records, floor = {}, np.full((episodes, replicates), np.nan)
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
        records[key] = _record(ledger)
        floor = floor if ledger.floor is None else ledger.floor
    return records, Ground(floor, EDGES)


def _record(ledger: Ledger) -> Record:
    """Return the ledger as the protocol has it: no δ*, incumbent, class or reference contexts."""
    unknown = np.full_like(ledger.reward, np.nan)
    uncounted = np.zeros((unknown.shape[1], EDGES.size - 1))
    return Record(
        parts=ledger.parts,
        parts_paper=np.full((*unknown.shape, 3), np.nan),
        reward=ledger.reward,
        advantage=unknown,
        overridden=ledger.overridden,
        success=unknown,
        error=unknown,
        recommended=uncounted,
        executed=uncounted,
    )


def run(name: str, episodes: int, replicates: int, seed: int, folder: Path) -> dict[str, Any]:
    """Run a stylised instance, write its files and return the document."""
    from gdcb.protocol import files
    from gdcb.protocol.report import report
    from gdcb.protocol.store import Store
    from gdcb.protocol.summary import Entry, document
    from gdcb.protocol.task import Settings

    kept = Settings(
        name, "stylised", (), episodes, replicates, seed, tuple(LABELS), version("gdcb")
    )
    settings = {
        "instance": name,
        "variant": "stylised",
        "episodes": episodes,
        "replicates": replicates,
        "seed": seed,
        "version": kept.version,
        "command": f"gdcb run {name} --episodes {episodes} --replicates {replicates} --seed {seed}",
        "options": {},
    }
    try:
        # No part of it is worth keeping; the store guards the folder, and all or nothing appears.
        with Store(folder, kept) as store:
            for sentence in store.notices:
                notice(sentence)
            domain = load(name)
            with bar_of() as bar:
                task = bar.add_task(name, total=episodes * len(LABELS))

                def step(label: str) -> None:
                    bar.update(task, advance=1, description=f"{name}: {label}")

                records, ground = run_domain(domain, episodes, replicates, seed, step)
            ask = {key: (lambda record=record: record) for key, record in records.items()}
            entries = {key: Entry(label, ask[key]) for key, label in LABELS.items()}
            found = document(settings, entries, ground, extras_of(domain))
            found["cold_start"] = None  # there is no history, so that B4 is no warm start here
            with store.publishing() as staging:
                files.write_episodes(staging / files.EPISODES, ask, ground)
                files.write_summary(staging / files.SUMMARY, found)
                files.write_text_whole(staging / files.REPORT, report(found))
    except GdcbError as error:
        fail(f"{name}: {error}")
    return found


def extras_of(domain: Domain) -> dict[str, Any]:
    """Return the tuple in words, and what is real and what is made."""
    instance = domain.instance
    short, _, text = paragraphs(domain.about).partition("Made: ")
    made, _, real = text.partition(" Real: ")
    arms = ", ".join(instance.space.names[:8]) + (" …" if instance.space.n > 8 else "")
    specification = [
        ("", "in short", short.strip()),
        ("𝒳", "context", ", ".join(instance.context.columns)),
        ("𝒜", "nominal arms", f"{instance.space.n}: {arms}"),
        ("δ_θ", "scaler", type(instance.scaler).__name__),
        ("Φ", "composition", type(instance.composition).__name__),
        ("e", "action", ", ".join(column.name for column in instance.actions)),
        ("g", "gate", " → ".join(gate.name for gate in instance.chain.gates) or "open"),
        ("𝒴", "outcome", ", ".join(instance.reward.outcome)),
        ("φ", "reward", type(instance.reward).__name__),
        ("", "bandit", type(domain.bandit).__name__),
        ("", "units", f"{domain.units} a replicate, each a {domain.unit}"),
    ]
    about = {
        "title": instance.title,
        "unit": f"units of reward a {domain.unit}",
        "real": [real],
        "made": [made, NO_FLOOR] if domain.is_endogenous else [made],
    }
    return {"specification": specification, "about": about}
