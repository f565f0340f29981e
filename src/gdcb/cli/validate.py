"""`gdcb validate FILE`: whether a TOML instance is valid, before anything runs on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdcb.cli.say import as_json, fail, out
from gdcb.declaration import Declaration, read
from gdcb.errors import InvalidInput
from gdcb.gates import UNGATED


def validate(
    file: Annotated[Path, typer.Argument(help="A TOML file that declares an instance.")],
    json: Annotated[bool, typer.Option("--json", help="Print the JSON schema.")] = False,
) -> None:
    """Check a TOML instance; with --json, print the JSON schema of its context."""
    try:
        declared = read(file)
        _check_service(declared)
    except InvalidInput as error:
        fail(str(error))
    instance = declared.instance
    if json:
        as_json(instance.context.json_schema())
        return
    gates = f"gates {instance.chain.path}" if instance.chain.gates else UNGATED
    out.print(
        f"{file}: instance '{instance.name}' is valid: {instance.space.n} arms, "
        f"{type(instance.composition).__name__}, {type(instance.scaler).__name__}, "
        f"{gates}, {type(declared.bandit).__name__}"
    )


def _check_service(declared: Declaration) -> None:
    """Refuse a table [service] that `gdcb serve` would refuse."""
    if not declared.service:
        return
    try:
        from gdcb.service.policy import policy_of
    except ImportError as error:
        fail(f"[service] is checked with the service: pip install 'gdcb[serve]' ({error})")
    policy_of(declared.service, declared.instance)
