"""`gdcb run [INSTANCE…]`: run stylised instances, print a table, write a report."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from gdcb.cli.experiment import LABELS, Result, in_words, run_domain
from gdcb.cli.page import page
from gdcb.cli.say import as_json, err, fail, out, wrong_usage
from gdcb.errors import GdcbError
from gdcb.instances import NAMES, load

HEADINGS = ("method", "regret", "calibration", "bandit", "gate", "reward")


def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[INSTANCE]...", help="Instances; default: str.")
    ] = None,
    all_instances: Annotated[bool, typer.Option("--all", help="Run all seven.")] = False,
    episodes: Annotated[int, typer.Option(help="Rounds a replicate.")] = 200,
    replicates: Annotated[int, typer.Option(help="Independent replicates.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the report; default: gdcb-out/NAME.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run an instance: the recommended learner, and the same without its scaler.

    The worlds are stylised: small and made, with a known truth, so that regret is exact.
    """
    chosen = list(NAMES) if all_instances else (names or ["str"])
    unknown = [name for name in chosen if name not in NAMES]
    if unknown and unknown[0].endswith(".toml"):
        wrong_usage(
            f"{unknown[0]} declares an instance, and running needs a world too: "
            "see examples/own_world.py; gdcb validate checks the file"
        )
    if unknown:
        wrong_usage(f"no instance {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for option, value in (("--episodes", episodes), ("--replicates", replicates)):
        if value < 1:
            wrong_usage(f"{option}: expected a whole number >= 1, got {value}")
    if not 0 <= seed < 2**64:
        wrong_usage(f"--seed: expected 0 to 2**64 - 1, got {seed}")
    folders = {name: _folder(folder, name, len(chosen)) for name in chosen}
    documents = []
    for name in chosen:
        result = _run_one(name, episodes, replicates, seed)
        document = result.document()
        _write(folders[name], document, page(result, document, _command(name, result)))
        documents.append(document)
        if not json:
            _show(result, document, folders[name])
    if json:
        as_json(documents[0] if len(documents) == 1 else documents)


def _command(name: str, result: Result) -> str:
    return (
        f"gdcb run {name} --episodes {result.episodes} "
        f"--replicates {result.replicates} --seed {result.seed}"
    )


def _run_one(name: str, episodes: int, replicates: int, seed: int) -> Result:
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bar:
            task = bar.add_task(name, total=episodes * len(LABELS))

            def step(label: str) -> None:
                bar.update(task, advance=1, description=f"{name}: {label}")

            return run_domain(name, load(name), episodes, replicates, seed, step)
    except KeyboardInterrupt:
        fail("interrupted; nothing was written")
    except GdcbError as error:
        fail(f"{name}: {error}")


def _folder(wanted: Path | None, name: str, count: int) -> Path:
    """Make the folder before the work, so that a bad one costs nothing."""
    folder = Path("gdcb-out") / name if wanted is None else wanted
    if wanted is not None and count > 1:
        folder = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        fail(f"--out: cannot write to {folder} ({error.strerror})")
    return folder


def _write(folder: Path, document: dict[str, Any], report: str) -> None:
    """Write both files whole, or leave the old ones."""
    try:
        for name, text in (
            ("summary.json", json_module.dumps(document, allow_nan=False)),
            ("report.html", report),
        ):
            part = folder / f".{name}.part"
            part.write_text(text, encoding="utf-8")
            part.replace(folder / name)
    except OSError as error:
        fail(f"--out: cannot write to {folder} ({error.strerror})")


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
