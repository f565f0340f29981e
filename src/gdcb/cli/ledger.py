"""`gdcb ledger verify | replay | export | evidence | acknowledge`: what an auditor asks of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from gdcb.cli.say import as_json, bar_of, fail, out, wrong_usage
from gdcb.cli.stores import open_ledger
from gdcb.errors import (
    GdcbError,
    UnknownDecision,
    UnknownInstance,
)

if TYPE_CHECKING:
    from gdcb.ledger.store import Store

SHOWN = 20  # findings on the screen; --json has more

ledger_app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Verify, replay and export a ledger of decisions, and prove one of them.",
)

Url = Annotated[str, typer.Option("--db", metavar="URL", help="A SQLite file, or postgresql://….")]
Name = Annotated[
    str | None, typer.Option("--instance", help="One instance; all of them where left out.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@ledger_app.command("verify")
def verify(db: Url, instance: Name = None, json: Json = False) -> None:
    """Check every hash, every root, the index and the head: that all is as it was written.

    Exit 0: nothing is wrong. Exit 3: something is; every finding is named.
    """
    from gdcb.ledger.audit import chains_of, verify_chain

    with open_ledger(db, to_read=True) as store:
        chains = _chosen(chains_of(store), instance)
        found = _each(chains, "verifying", lambda c, step: verify_chain(store, c, step))
    audits = [one.as_json() for one in found]
    if json:
        as_json({"ok": all(one["ok"] for one in audits), "chains": audits})
    else:
        for audit in found:
            colour = "green" if audit.ok else "red"
            word = "as it was written" if audit.ok else f"{audit.n_findings:,} findings"
            out.print(f"[bold {colour}]{escape(audit.chain)}: {word}[/]")
            out.print(f"  {audit.entries:,} entries with {audit.rows:,} rows, ", end="")
            out.print(f"{audit.places:,} places and {audit.touches:,} touches of the index")
            out.print(f"  verified up to {audit.verified.hex()}", soft_wrap=True)
            _some([one.says for one in audit.findings], audit.n_findings)
    if not all(one.ok for one in found):
        raise typer.Exit(3)


@ledger_app.command("replay")
def replay(
    db: Url,
    instance: Name = None,
    start: Annotated[
        int, typer.Option("--from", min=0, help="Take entries before this one as said.")
    ] = 0,
    tolerance: Annotated[
        float, typer.Option(help="How far numbers may be apart and count as rounding.")
    ] = 1e-9,
    json: Json = False,
) -> None:
    """Work every decision, verdict, execution and refit out again, and compare.

    Exit 0: all come out as recorded, to the bit or to rounding. Exit 3: something differs.
    """
    from gdcb.ledger.replaying import replay_chain

    if not 0 <= tolerance < 1:
        wrong_usage(f"--tolerance: expected a number from 0 to below 1, got {tolerance:g}")
    with open_ledger(db, to_read=True) as store:
        chains = _chains(store, instance)
        sizes = {chain: store.head(chain).size for chain in chains}
        # Of several chains some may be shorter; what is asked of one alone must be there.
        shorter = [chain for chain in chains if sizes[chain] < start]
        if len(shorter) == len(chains):
            fail(f"from: expected an entry from 0 to {max(sizes.values())}, got {start}")
        found = _each(
            [chain for chain in chains if chain not in shorter],
            "replaying",
            lambda chain, step: replay_chain(store, chain, start, tolerance, step),
        )
    documents = [one.as_json() for one in found]
    if json:
        document = {"ok": all(one.ok for one in found), "chains": documents, "shorter": shorter}
        as_json(document)
    else:
        for chain in shorter:
            out.print(f"[bold]{escape(chain)}: it has only {sizes[chain]:,} entries[/]")
        for report, told in zip(found, documents, strict=True):
            _show_replay(report, told)
    if not all(one.ok for one in found):
        raise typer.Exit(3)


def _show_replay(report: Any, told: dict[str, Any]) -> None:
    words = {
        "equal": "comes out the same to the last bit",
        "to rounding": f"comes out the same to {report.tolerance:g}",
        "differs": "does not come out as recorded",
    }
    colour = "green" if report.ok else "red"
    out.print(f"[bold {colour}]{escape(report.chain)}: {words[report.verdict]}[/]")
    counts = told["decisions"]
    out.print(
        f"  {counts['rows']:,} decisions: {counts['equal']:,} equal, "
        f"{counts['to_rounding']:,} to rounding, {counts['differ']:,} differ"
    )
    if report.erased or report.unknown:
        out.print(
            f"  not worked out again: {report.erased:,} whose fields were erased, and "
            f"{report.unknown:,} on a state that these taught"
        )
    for seq in report.seals:
        out.print(f"  the state that was sealed in entry {seq:,} was taken as said")
    speed = told["events_per_second"]
    out.print(f"  {told['events']:,} events in {told['seconds']:.1f} s ({speed or 0:,} a second)")
    worded = sum(kind.worded for kind in report.kinds.values())
    if worded:
        out.print(f"  {worded:,} verdicts are worded otherwise by this version")
    if report.based_on:
        out.print(f"  the snapshot after {report.based_on:,} entries was taken as said")
    for one in report.states:
        odd = f": {escape(', '.join(one.odd[:5]))}" if one.odd else ""
        out.print(f"  snapshot after {one.size:,} entries: {one.verdict}{odd}")
    found = sorted((d for kind in report.kinds.values() for d in kind.found), key=lambda d: d.seq)
    _some([one.says for one in found], len(found))


@ledger_app.command("acknowledge")
def acknowledge(
    db: Url,
    instance: Annotated[str, typer.Option("--instance", help="Which instance stands still.")],
    reason: Annotated[
        str, typer.Option("--reason", help="Who put it back, and what became of what ran since.")
    ],
) -> None:
    """Let an instance go on of whose ledger an earlier state was put back.

    It stands still since a process found fewer entries than it had read. What was decided in
    between may have run, and is not on record. The reason is written into the ledger.
    """
    from gdcb.service import operating
    from gdcb.service.desk import Desk

    with open_ledger(db, to_read=False) as store:
        _chosen(store.chains(), instance)
        desk = Desk(store, instance)
        try:
            news = operating.acknowledge(desk, reason, "command line [console]").result()
        finally:
            desk.close()
    if not news:
        fail(f"{instance}: no earlier state was put back, or it is acknowledged already")
    out.print(f"[bold]{escape(instance)}[/bold]: acknowledged; it goes on")


@ledger_app.command("export")
def export(
    db: Url,
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Made by this command.")],
    instance: Name = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an export.")] = False,
    json: Json = False,
) -> None:
    """Write decisions, events and reviews as Parquet, a folder an instance.

    `gdcb check FOLDER/decisions.parquet --instance FOLDER/instance.toml` reads them back.
    """
    from gdcb.ledger.export import export_chain

    found: list[dict[str, Any]] = []
    with open_ledger(db, to_read=True) as store, bar_of() as bar:
        chains = _chains(store, instance)
        task = bar.add_task("exporting", total=None)

        def step(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        try:
            for chain in chains:
                target = folder / chain if len(chains) > 1 else folder
                found.append(export_chain(store, chain, target, force=force, progress=step))
                found[-1]["folder"] = str(target)
        except KeyboardInterrupt:
            fail("interrupted: what was not whole was not written")
        except (GdcbError, OSError) as error:
            fail(str(error))
    if json:
        as_json({"chains": found})
        return
    for one in found:
        rows = ", ".join(f"{n:,} in {escape(name)}" for name, n in one["rows"].items())
        out.print(f"[bold]{escape(one['chain'])}[/bold]: {escape(one['folder'])}", soft_wrap=True)
        out.print(f"  rows: {rows}")


@ledger_app.command("evidence")
def evidence(
    id: Annotated[str, typer.Argument(help="The decision's id.")],
    db: Url,
    instance: Annotated[
        str | None,
        typer.Option("--instance", help="Whose decision it is; needed where several have its id."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page to be filed.")
    ] = None,
    json: Json = False,
) -> None:
    """Prove one decision: what went in, how it was chosen, who changed it and why, what came of it.

    Exit 3: its proof does not hold, or it does not come out again.
    """
    from gdcb.ledger.evidence import evidence_of
    from gdcb.ledger.evidence import verify as verify_evidence
    from gdcb.ledger.evidence_page import answer_in_words, evidence_page, outcome_in_words, plain
    from gdcb.protocol.files import write_text_whole

    with open_ledger(db, to_read=True) as store, bar_of() as bar:
        try:
            bar.add_task("working it out again", total=None)
            document = evidence_of(store, _chain_of(store, instance, id), id)
            wrong, codes = verify_evidence(document), _codes(store, document)
            if page is not None:
                page.parent.mkdir(parents=True, exist_ok=True)
                write_text_whole(page, evidence_page(document, codes))
        except KeyboardInterrupt:
            fail("interrupted")
        except (GdcbError, OSError) as error:
            fail(str(error))
    again = document["recomputed"]["verdict"]
    if json:
        as_json(document)
    else:
        out.print(f"[bold]{escape(id)}[/bold] of {escape(document['chain'])}: ", end="")
        out.print(f"{document['status']}, {escape(document['reason'])}", soft_wrap=True)
        out.print(f"  proposed {escape(document['proposed']['arm'])}: ", end="")
        out.print(escape(plain(document["proposed"]["action"])), soft_wrap=True)
        for one in document["reviews"]:
            what, why = answer_in_words(one, codes)
            told = f"{what} by {one['by']}{': ' if why else ''}{why}"
            out.print(f"  {escape(told)}", soft_wrap=True)
        ran = document["executed"]
        what = (
            "not known yet" if ran is None else plain(ran["action"]) if ran["action"] else "nothing"
        )
        out.print(f"  ran: {escape(what)}", soft_wrap=True)
        came = outcome_in_words(document) or "not known yet"
        out.print(f"  outcome: {escape(came)}", soft_wrap=True)
        out.print(f"  {len(document['proofs'])} entries; worked out again: {again}")
        out.print("  proof: holds" if not wrong else f"[red]  proof: {escape(' '.join(wrong))}[/]")
        if page is not None:
            out.print(f"  page: {escape(str(page))}", soft_wrap=True)
    if wrong or again == "differs":
        raise typer.Exit(3)


# What the commands share


def _chains(store: Store, instance: str | None) -> list[str]:
    return _chosen(store.chains(), instance)


def _chosen(chains: list[str], instance: str | None) -> list[str]:
    """Return the chains to go through: all of them, or the one that was asked for."""
    if not chains:
        fail("this ledger is empty: it has no instance")
    if instance is not None and instance not in chains:
        fail(f"no instance '{instance}' in this ledger; there are {', '.join(chains)}")
    return chains if instance is None else [instance]


def _each(chains: list[str], what: str, work: Callable[..., Any]) -> list[Any]:
    """Do the work on each chain, with a bar."""
    found = []
    with bar_of() as bar:
        for chain in chains:
            task = bar.add_task(f"{what} {chain}", total=None)

            def step(done: int, total: int, task: Any = task) -> None:
                bar.update(task, completed=done, total=total)

            try:
                found.append(work(chain, step))
            except KeyboardInterrupt:
                fail("interrupted")
            except GdcbError as error:
                fail(f"{chain}: {error}")
    return found


def _chain_of(store: Store, instance: str | None, id: str) -> str:
    """Return the chain that has a decision; refuse where several do, and none was named."""
    from gdcb.ledger.story import request_of

    chains = _chains(store, instance)
    if len(chains) == 1:
        return chains[0]
    request = request_of(id)[0]
    found = [chain for chain in chains if store.places(chain, [request])]
    if not found:
        raise UnknownDecision(f"no decision {id!r} was made here")
    if len(found) > 1:
        raise UnknownInstance(f"{id!r} is in {', '.join(found)}; name one with --instance")
    return found[0]


def _codes(store: Store, document: dict[str, Any]) -> dict[str, str]:
    """Return the reviewers' reasons by code, as declared when the last verdict was given."""
    from gdcb import declaration
    from gdcb.ledger.recalled import declared_in
    from gdcb.service.policy import policy_of

    number = document["declarations"][-1]["seq"]
    for entry in store.get(document["chain"], [number]):
        event = declared_in(entry)
        if event is not None:
            declared = declaration.parse(event.declaration, is_recorded=True)
            return policy_of(declared.service, declared.instance).codes
    return {}


def _some(sentences: list[str], total: int) -> None:
    for sentence in sentences[:SHOWN]:
        out.print(f"  • {escape(sentence)}", soft_wrap=True)
    if total > SHOWN:
        out.print(f"[dim]  and {total - SHOWN:,} more; --json has up to 1,000[/dim]")
