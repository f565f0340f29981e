"""An instance from a file, with a world modelled on its log, as the protocol runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import declaration
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history import ReadReport, open_log
from gdcb.history.batch import Batch
from gdcb.history.certification import LEVEL
from gdcb.history.maturity import maturity_of
from gdcb.history.model_world import MOST_ROWS, ROWS, Drawn, ModelWorld, world_of
from gdcb.history.plan import has_dates
from gdcb.history.reading import Source
from gdcb.instance import Instance
from gdcb.instances.catalogue import Domain, Study
from gdcb.instances.options import whole_number
from gdcb.instances.own_log.rivals import left_out, rivals, settings
from gdcb.instances.own_log.start import can_certify, certified_past
from gdcb.instances.own_log.words import MODELLED, about, specification
from gdcb.records import Rows
from gdcb.scalers import ConstantScaler

VARIANT = "model"
GIVEN = ("history", "query", "rows", "log", "file")
_DIGITS = 16  # of a fingerprint, as it stands in settings and on the page
_SAMPLE = 0  # seed of which rows of a long log are kept
_BINS = 36


def fingerprints(file: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints of the instance's file and of its log."""
    log, query = str(options["history"]), options.get("query")
    return {
        "log": _of_log(file, log, query, _stamp(file), _stamp(log)),
        "file": hashlib.sha256(Path(file).read_bytes()).hexdigest()[:_DIGITS],
    }


def _stamp(path: str) -> tuple[int, int] | None:
    """Return when a file was last written and how long it is; None: it is no file."""
    if not Path(path).is_file():
        return None
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _of_log(file: str, log: str, query: str | None, *_: tuple[int, int] | None) -> str:
    """Return the fingerprint of a log; what has not been touched is not read again."""
    declared = declaration.read(file)
    source = open_log(log, declared.instance, columns=declared.columns, query=query)
    return str(source.fingerprint)[:_DIGITS]


def study(file: str, options: Mapping[str, Any]) -> Study:
    """Return the instance of a file as the protocol runs it on its log.

    Options: `history`, where the log is; `query`, for a database; `rows` of a replicate's history;
    and the fingerprints that log and file must have, where they were given.
    """
    unknown = sorted(set(options) - set(GIVEN))
    if unknown:
        raise InvalidInput(f"{file} with a log has the option rows, not {', '.join(unknown)}")
    if "history" not in options:
        raise InvalidInput(f"{file}: expected a log, --history LOG")
    rows = whole_number(options, "rows", ROWS)
    given = {name: str(options[name]) for name in ("log", "file") if name in options}
    found = fingerprints(file, options)
    for name, what in (("log", options["history"]), ("file", file)):
        if given.get(name, found[name]) != found[name]:
            raise InvalidInput(
                f"{what} has changed since the run began: its fingerprint was {given[name]} and is "
                f"{found[name]}"
            )
    query = options.get("query")
    return _study(file, str(options["history"]), query, rows, found["log"], found["file"])


@lru_cache(maxsize=2)
def _study(file: str, log: str, query: str | None, rows: int, *_: str) -> Study:
    """Return the study; the fingerprints are part of what it is kept under."""
    declared = declaration.read(file)
    source = open_log(log, declared.instance, columns=declared.columns, query=query)
    gathered, report = _gathered(source)
    if gathered is None:
        why = "; ".join(report.sentences()[:3]) or "it has none"
        raise InvalidInput(f"{log}: no row of it is valid for {file}: {why}")
    # Once and for all: rows that are left are old enough, and are not asked for their age again.
    maturity = maturity_of(gathered, source.matures_after, LEVEL, has_dates(gathered.time))
    batch = maturity.keep(gathered)
    world, said = world_of(declared.instance, batch, rows)
    said = (*said, maturity.says) if maturity.set_aside else said
    instance = world.instance
    features = _features(world)
    unit = (declared.columns.unit or "unit") if world.units > 1 else "decision"
    domain = Domain(
        instance,
        declared.bandit,
        world,
        units=world.units,
        unit=unit,
        is_endogenous=False,
        about=MODELLED,
    )
    without = left_out(instance, world.units)
    return Study(
        domain=domain,
        variant=VARIANT,
        features=features,
        past=world.past,
        incumbent=world.incumbent,
        own=lambda r: world.incumbent(None, None, r),  # type: ignore[arg-type]
        scaler=lambda _: instance.scaler,
        learner=lambda _: declared.bandit,
        delta=lambda state, r: _delta(world, state, r),
        specification=specification(world, gathered, report, without),
        about=about(instance, world, said, batch, unit),
        settings=settings(world, features),
        rivals=rivals(instance, declared.bandit, world),
        labels={} if world.response.is_class else {"B1": "Gaussian Thompson"},
        left_out=without,
        edges=_edges(world),
        certified=partial(certified_past, world) if can_certify(instance) else None,
        response="model",
    )


def _gathered(source: Source) -> tuple[Batch | None, ReadReport]:
    """Return the rows of a log, or a sample of a long one in its order; and what reading found."""
    rng = np.random.default_rng(_SAMPLE)
    kept: list[Batch] = []
    keys = np.empty(0)
    for batch in source.batches():
        kept.append(batch)
        keys = np.concatenate((keys, rng.random(batch.n)))
        if keys.size > 2 * MOST_ROWS:
            kept, keys = _thinned(kept, keys)
    if not kept:
        return None, source.report
    if keys.size > MOST_ROWS:
        kept, keys = _thinned(kept, keys)
    return Batch.concatenate(kept), source.report


def _thinned(kept: list[Batch], keys: Array) -> tuple[list[Batch], Array]:
    """Keep the rows with the smallest keys, in their order."""
    some = np.sort(np.argpartition(keys, MOST_ROWS)[:MOST_ROWS])
    return [Batch.concatenate(kept).take(some)], keys[some]


def _features(world: ModelWorld) -> tuple[str, ...]:
    """Return what rivals read: all columns that vary, but those that the action is relative to."""
    instance = world.instance
    base = set(getattr(instance.composition, "base", ()))
    columns = [at for at in world.response.features.columns if at not in base]
    names = instance.context.names
    return tuple(names[at] for at in columns or world.response.features.columns)


def _scaled_columns(instance: Instance) -> list[int]:
    """Return the columns that the scaler reads."""
    scaler: Any = instance.scaler
    found: Any = getattr(scaler, "_columns", None) or getattr(scaler, "features", ())
    return [at for at in found if isinstance(at, int)]


def _delta(world: ModelWorld, state: Drawn, rows: Rows) -> Array:
    """Return δ° (groups, N): what of the scaler's family follows the best action most closely.

    The least-squares fit of the best relative action, or of its logarithm for products, on the
    scaler's columns, for the first unit of every replicate; NaN where there is no such family.
    """
    instance, columns = world.instance, _scaled_columns(world.instance)
    n_groups, joins = len(state.replicates), instance.composition.joins
    if isinstance(instance.scaler, ConstantScaler) or joins == "other" or not columns:
        return np.full((n_groups, rows.n), np.nan)
    first = np.cumsum([0, *[one.units.size for one in state.replicates[:-1]]])
    group = np.repeat(np.arange(n_groups), rows.n)
    x = np.tile(rows.x, (n_groups, 1))
    best = world.best(state, Rows(first[group], group, x))
    place = world.response.features.place(best[:, None], x)[:, 0, 0].reshape(n_groups, -1)
    phi = rows.x[:, columns] - rows.x[:, columns].mean(axis=0)
    design = np.concatenate((np.ones((rows.n, 1)), phi), axis=1)
    target = np.log(np.maximum(place, 1e-12)) if joins == "product" else place
    theta = np.linalg.lstsq(design, target.T, rcond=None)[0][1:]
    linear = (phi @ theta).T
    return np.asarray(np.exp(linear) if joins == "product" else linear)


def _edges(world: ModelWorld) -> Array:
    """Return edges between which relative actions are counted: the seen range and a margin."""
    features = world.response.features
    if features.is_category:
        return np.arange(world.instance.space.n + 1) - 0.5
    low, high = float(features.low[0]), float(features.high[0])
    margin = 0.1 * (high - low)
    return np.linspace(low - margin, high + margin, _BINS + 1)
