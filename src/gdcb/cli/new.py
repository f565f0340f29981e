"""`gdcb new NAME [--from LOG]`: a TOML instance to start from, validated before it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from gdcb.cli.say import as_json, fail, notice, out, wrong_usage
from gdcb.errors import GdcbError

_SHOWN = 10  # columns left out that are named on the terminal
TEMPLATE = """\
# An instance to start from. `gdcb validate` checks it; lines that say CHOOSE are yours to decide.
name = {name}
title = {name}  # CHOOSE: a title for people

# CHOOSE: what is known before the decision; number, flag or category.
[context]
demand = {{ type = "number", low = 0, high = 1, about = "how busy it is" }}
weekend = {{ type = "flag", about = "Saturday or Sunday" }}
base = {{ type = "number", low = 1, high = 10000, about = "what an action is relative to" }}

# CHOOSE: nominal arms, here multiples of the base.
[arms]
part = "list"
values = [0.8, 0.9, 1.0, 1.1, 1.2]

# CHOOSE: how context moves all arms at once; δ is 1 at `centre`. Leave the table out for none.
[scaler]
part = "log-linear"
factors = {{ context = ["demand", "weekend"] }}
centre = [0.5, 0.29]
growth = 0.5
row_by_row = false
follows = "both"

# action = base · δ(x) · arm
[composition]
part = "multiply"
base = ["base"]
names = ["price"]

# CHOOSE: who may stop or change a proposal, in order; a hard gate closes the chain.
[[gates]]
part = "approval"
name = "reviewer"
kernel = {{ part = "number", features = ["demand"], base = ["base"] }}

[[gates]]
part = "bounds"
name = "bounds"
low = 10
high = 5000

# CHOOSE: a success (0 or 1) pays the action; leave `action` out where it pays 1.
[reward]
part = "payoff"
outcome = ["sold"]
action = 0

# CHOOSE: gdcb parts bandit lists the others.
[bandit]
part = "curve-thompson"
# Log-odds of a success at the middle arm, and how they change from there to the highest arm.
prior_mean = [0.0, -1.0]
prior_sd = [1.5, 1.0]

# Which column of a log is what, where it is not called as above.
[history]
# action = ["price"]
# outcome = ["sold"]
# recommended = ["recommended_price"]
# unit = "shop"
# time = "decided_at"
"""
# What every instance may declare for `gdcb serve`, at its defaults where there is one.
SERVICE = """
# How `gdcb serve` runs it; all of it may be left out. Times are seconds.
# [service]
# expiry = { after = 14400, then = "veto" }  # nobody answered in time: "veto", "fallback" or "wait"
# execution = "release"  # what is let through has run; "report": when somebody says so
# outcomes = { late = "refuse", correction = "refuse" }  # corrections: "refuse" or "replace"
# launch = { mode = "live" }  # "shadow", "holdback" or "ramp": what runs today goes on for a share
# batch = 5000  # rows of a request
"""


def new(
    name: Annotated[str, typer.Argument(help="What the instance is called.")],
    log: Annotated[
        str | None,
        typer.Option("--from", metavar="LOG", help="CSV or Parquet, a folder, or a database URL."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="Where the log is a database's URL.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Default: NAME.toml.")] = None,
    action: Annotated[str, typer.Option(metavar="COL", help="The action that ran.")] = "",
    outcome: Annotated[str, typer.Option(metavar="COL", help="What came of it.")] = "",
    reward: Annotated[str, typer.Option(metavar="COL", help="What that was worth.")] = "",
    recommended: Annotated[str, typer.Option(metavar="COL", help="What was proposed.")] = "",
    status: Annotated[str, typer.Option(metavar="COL", help="What the gates did.")] = "",
    time: Annotated[str, typer.Option(metavar="COL", help="When it was decided.")] = "",
    outcome_time: Annotated[
        str, typer.Option(metavar="COL", help="When the outcome was known.")
    ] = "",
    unit: Annotated[str, typer.Option(metavar="COL", help="Whose decision it was.")] = "",
    propensity: Annotated[str, typer.Option(metavar="COL", help="How likely the action was.")] = "",
    reviewer: Annotated[str, typer.Option(metavar="COL", help="Who answered a proposal.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Write a TOML instance: a template, or one whose context is inferred from a log.

    Columns that are not named are guessed by their names and said; choices to be made are marked
    CHOOSE in the file. It passes `gdcb validate` as it is written.
    """
    name = name.removesuffix(".toml")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        wrong_usage(f"NAME: expected letters, digits, '-', '_' or '.', got {name!r}")
    asked = {
        "action": action,
        "outcome": outcome,
        "reward": reward,
        "recommended": recommended,
        "status": status,
        "time": time,
        "outcome_time": outcome_time,
        "unit": unit,
        "propensity": propensity,
        "reviewer": reviewer,
    }
    if log is None and (query is not None or any(asked.values())):
        wrong_usage("columns and --query go with --from LOG")
    target = Path(f"{name}.toml") if file is None else file
    if target.exists() and not force:
        fail(f"{target} is there already; --force overwrites it, --out names another file")
    found: dict[str, Any] = {
        "guessed": {},
        "why": {},
        "left_out": {},
        "doubtful": [],
        "notices": [],
    }
    text = _template(name)
    if log is not None:
        text, found = _inferred(name, log, query, asked)
    text += SERVICE
    _checked(text, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {target} ({error.strerror})")
    if json:
        as_json({"file": str(target), **{k: v for k, v in found.items() if k != "why"}})
        return
    from gdcb.history.roles import called, option

    for sentence in found["notices"]:
        notice(sentence)
    for role, column in found["guessed"].items():
        notice(f"{role}: {column}, {found['why'][role]}; {option(role)} says otherwise")
    doubtful = found["doubtful"]
    for column in doubtful:
        notice(f"left out, look at it: {called(column)}: {found['left_out'][column]}")
    if doubtful:
        notice(
            f"in {target} each has a line that puts it back, if it was known before the decision; "
            "what the action was set by must go back, or its effect is taken for the action's"
        )
    without = [pair for pair in found["left_out"].items() if pair[0] not in doubtful]
    for column, why in without[:_SHOWN]:
        notice(f"left out: {called(column)}: {why}")
    if len(without) > _SHOWN:
        notice(f"left out: {len(without) - _SHOWN} more, with their reasons in {target}")
    n = text.count("CHOOSE")
    out.print(f"{target}: written and valid; {n} lines say CHOOSE", soft_wrap=True)


def _template(name: str) -> str:
    import json as plain

    return TEMPLATE.format(name=plain.dumps(name))


def _inferred(
    name: str, log: str, query: str | None, asked: dict[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return the file's text, and what was guessed and left out."""
    from gdcb.history.columns import hint, look
    from gdcb.history.infer import propose
    from gdcb.history.instance_file import beyond, toml
    from gdcb.history.roles import roles_of

    try:
        seen = look(log, query)
    except GdcbError as error:
        fail(str(error))
    try:
        roles = roles_of(seen, asked)
        found = propose(seen, roles)
        text = toml(name, found)
    except GdcbError as error:
        for column in seen.columns.values():
            if hint(column):  # that may be why
                notice(hint(column))
        fail(str(error))
    guessed = {role: getattr(roles, role) for role in roles.guessed if getattr(roles, role)}
    notices = [*found.notices, *(f"{name}: {asked}" for name, asked in found.pointed.items())]
    notices += [beyond(found)] if beyond(found) else []
    said = {"rows": seen.rows, "context": list(found.context), "guessed": guessed}
    why = {role: roles.why(role) for role in guessed}
    for role in {"time", "outcome_time"} & {*guessed}:
        if others := roles.guessed[role]:
            why[role] += f", though it might also be {', '.join(others)}"
    said |= {"left_out": found.without, "doubtful": found.doubtful, "notices": notices}
    return text, {**said, "why": why}


def _checked(text: str, target: Path) -> None:
    """Refuse to write what `gdcb validate` would not take."""
    from gdcb import declaration

    try:
        declaration.parse(text, where=str(target))
    except GdcbError as error:
        fail(f"the log does not make a valid instance: {error}")
