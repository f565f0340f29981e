"""`gdcb run [INSTANCE…]`: the experimental protocol, a table, and a report to open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID

from gdcb.cli.say import as_json, bar_of, fail, notice, out, wrong_usage
from gdcb.cli.tables import show, show_all
from gdcb.errors import GdcbError, InvalidInput
from gdcb.instances import DECLARED, NAMES


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="INSTANCE", help="Default: str. Or a TOML file, with --history."),
    ] = None,
    all_instances: Annotated[
        bool, typer.Option("--all", help="Run every instance, both variants: one table.")
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Truth inside the scaler's family: well, outside: mis; both. Default: well."
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Rounds a replicate.")] = 200,
    replicates: Annotated[int, typer.Option(help="Independent replicates.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    methods: Annotated[
        str | None, typer.Option(help="Keys such as B1,B4,A3. Default: all that apply.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="LOG", help="With a TOML file: the log on which its world is modelled."
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="Where the log is a database's URL.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Of the instance's world, such as manager=private for str: its README says which. "
            "Of a log: rows=ROWS of history a replicate.",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="local, pool (all cores) or ray.")] = "pool",
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder. Default: gdcb-out/INSTANCE.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run the experimental protocol: all methods on the same worlds, with a report.

    Baselines B1 to B5, GDCB and its ablations A1 to A4 face the same simulated worlds behind the
    same gate. It writes report.html, summary.json and episodes.parquet; --all, which leaves out the
    paper's ungated forms, adds a page with one table over all instances. kalman has methods of its
    own, K1 to K4; --option picks what an instance has several of, such as plant=demand there.

    With MINE.toml --history LOG the world is a model of your own log, and every page says so.
    """
    if all_instances and names:
        wrong_usage(f"--all runs every instance; leave out {' '.join(names)}")
    chosen = list(NAMES) if all_instances else (names or ["str"])
    variants = _variants(variant, all_instances)
    try:
        if history is not None or any(name.endswith(DECLARED) for name in chosen):
            _check_own(chosen, history, query, variant or "well")
            _check_sizes(episodes, replicates, seed, engine)
            settings = _own_plan(
                chosen[0], history, query, episodes, replicates, seed, methods, option or []
            )
            where = _folder(folder, Path(chosen[0]).stem)
            found = next(_experiments([(settings, where)], engine, resume, False))
            as_json(found) if json else show(found, where, out)
            return
        if query is not None:
            wrong_usage("--query goes with MINE.toml --history URL")
        _check(chosen, episodes, replicates, seed, engine)
        if all_instances and option:
            wrong_usage("--option is for one instance; with --all there are several")
        base = folder or Path("gdcb-out") / "all" if all_instances else folder
        runs = [(name, one) for name in chosen for one in variants]
        plans = {
            (name, one): _plan(name, one, episodes, replicates, seed, methods, option or [])
            for name, one in runs
        }
        is_named = all_instances or len(variants) > 1
        if all_instances and methods is None:
            plans = {run: _behind_the_gate(plan) for run, plan in plans.items()}
        folders = {run: _folder(base, *run, len(runs), is_named) for run in runs}
        documents: list[dict[str, Any]] = []
        planned = [(plans[run], folders[run]) for run in runs]
        for run, document in zip(
            runs, _experiments(planned, engine, resume, len(runs) > 1), strict=True
        ):
            if not json and not all_instances:
                out.print(end="\n" if documents else "")
                show(document, folders[run], out)
            documents.append(document)
        if all_instances and base is not None:
            found = _across(documents, base, episodes, replicates, seed, variants, methods)
            if not json:
                show_all(found, base, out)
    except KeyboardInterrupt:
        fail("interrupted: no report yet; the same command with --resume goes on where it stopped")
    except MemoryError:
        fail("out of memory: ask for fewer episodes or replicates")
    if json:
        as_json(documents[0] if len(documents) == 1 else documents)


def _check(chosen: list[str], episodes: int, replicates: int, seed: int, engine: str) -> None:
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        wrong_usage(f"no instance {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if len(set(chosen)) < len(chosen):
        wrong_usage(f"an instance twice in {' '.join(chosen)}")
    _check_sizes(episodes, replicates, seed, engine)


def _check_own(chosen: list[str], history: str | None, query: str | None, variant: str) -> None:
    """Refuse a file without a log, a log without a file, and what belongs to made worlds."""
    files = [name for name in chosen if name.endswith(DECLARED)]
    if not files:
        wrong_usage(f"--history is for a TOML file, not for {', '.join(chosen)}")
    if len(chosen) > 1:
        wrong_usage(f"a file runs by itself, got {' '.join(chosen)}")
    if history is None:
        wrong_usage(
            f"{files[0]} declares an instance, and running needs a world too: give its log with "
            "--history LOG, or see examples/own_world.py; gdcb validate checks the file"
        )
    if variant != "well":
        wrong_usage("--variant is for made worlds; a log has one truth")
    if query is not None and "://" not in history:
        wrong_usage("--query: the log is no database's URL")
    if re.search(r"://[^/@]*:[^/@]+@", history):
        wrong_usage(
            "--history: settings and report name the URL, so that it may hold no password; put "
            "that where the database's driver looks for it"
        )


def _check_sizes(episodes: int, replicates: int, seed: int, engine: str) -> None:
    from gdcb.engine import NAMES as ENGINES

    for option, value in (("--episodes", episodes), ("--replicates", replicates)):
        if value < 1:
            wrong_usage(f"{option}: expected a whole number >= 1, got {value}")
    if not 0 <= seed < 2**64:
        wrong_usage(f"--seed: expected 0 to 2**64 - 1, got {seed}")
    if engine not in ENGINES:
        wrong_usage(f"--engine: expected {', '.join(ENGINES)}, got {engine}")


def _behind_the_gate(settings: Any) -> Any:
    """Return the settings without the paper's ungated forms, which no table compares."""
    from gdcb.protocol.methods import parse

    keys = tuple(key for key in settings.methods if parse(key).is_gated)
    return replace(settings, methods=keys)


def _variants(asked: str | None, all_instances: bool) -> tuple[str, ...]:
    """Return the variants to run: one, unless both are asked for, or all instances."""
    if asked == "both" or (asked is None and all_instances):
        return ("well", "mis")
    return (asked or "well",)


def _across(
    documents: list[dict[str, Any]],
    folder: Path,
    episodes: int,
    replicates: int,
    seed: int,
    variants: tuple[str, ...],
    methods: str | None,
) -> dict[str, Any]:
    """Write the table over all instances."""
    from gdcb.protocol.across import whole, write

    words = [f"gdcb run --all --episodes {episodes} --replicates {replicates} --seed {seed}"]
    words += [f"--variant {variants[0]}"] if len(variants) == 1 else []
    words += [f"--methods {methods}"] if methods else []
    found = whole(documents)
    write(found, folder, " ".join(words))
    return found


def _plan(
    name: str,
    variant: str,
    episodes: int,
    replicates: int,
    seed: int,
    methods: str | None,
    options: list[str],
) -> Any:
    """Return the settings of a run; what cannot be is wrong usage, and costs nothing."""
    from gdcb.protocol.experiment import settings_of

    keys = _keys(methods)
    try:
        pairs = tuple(_option(text) for text in options)
        return settings_of(name, variant, episodes, replicates, seed, keys, pairs)
    except InvalidInput as error:
        wrong_usage(str(error))


def _own_plan(
    file: str,
    history: str | None,
    query: str | None,
    episodes: int,
    replicates: int,
    seed: int,
    methods: str | None,
    options: list[str],
) -> Any:
    """Return the settings of a run on a log; reading it says whether it can be."""
    from gdcb.protocol.experiment import settings_of_own

    keys = _keys(methods)
    try:
        pairs = tuple(_option(text) for text in options)
        if query is not None:
            pairs = (("query", query), *pairs)
        return settings_of_own(file, history or "", episodes, replicates, seed, keys, pairs)
    except GdcbError as error:
        fail(f"{file}: {error}" if file not in str(error) else str(error))


def _keys(methods: str | None) -> tuple[str, ...] | None:
    if methods is None:
        return None
    keys = tuple(dict.fromkeys(key.strip() for key in methods.split(",") if key.strip()))
    if not keys:
        wrong_usage(f"--methods: expected keys such as B1,B4,A3, got {methods!r}")
    return keys


def _option(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; whole numbers are numbers."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise InvalidInput(f"--option: expected NAME=VALUE, got {text!r}")
    return name, int(value) if value.removeprefix("-").isdecimal() else value


def _experiments(
    plans: list[tuple[Any, Path]], engine: str, resume: bool, takes_finished: bool
) -> Iterator[dict[str, Any]]:
    """Run what is planned, with a bar, and give the documents in its order."""
    from gdcb.engine import named
    from gdcb.protocol.several import Planned, several

    shown: list[tuple[Progress, TaskID]] = []

    def step(name: str, done: int, total: int) -> None:
        bar, task = shown[-1]
        what = name if done < total else "writing the report"
        bar.update(task, description=what, completed=done, total=total)

    runs = [Planned(settings, folder, resume) for settings, folder in plans]
    documents = several(runs, named(engine), step, notice, takes_finished)
    for _ in runs:
        with bar_of() as bar:
            shown.append((bar, bar.add_task("", total=None)))
            try:
                found = next(documents)
            except (GdcbError, OSError) as error:
                fail(str(error))
        yield found


def _folder(
    wanted: Path | None, name: str, variant: str = "", count: int = 1, is_named: bool = False
) -> Path:
    """Make the folder before the work, so that a bad one costs nothing.

    Its name has the variant in it where `is_named`.
    """
    from gdcb.protocol.files import prepare_folder

    leaf = f"{name}-{variant}" if is_named else name
    folder = Path("gdcb-out") / leaf if wanted is None else wanted
    if wanted is not None and count > 1:
        folder = folder / leaf
    try:
        return prepare_folder(folder)
    except InvalidInput as error:
        fail(f"--out: {error}")
