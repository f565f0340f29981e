"""Webhooks of instances: add, list, remove; replace a secret; start again after a failure."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from gdcb.errors import Conflict, GdcbError, InvalidInput, UnknownInstance
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.tables import chains
from gdcb.service.answering import written
from gdcb.service.desk import now
from gdcb.service.tables import hooks
from gdcb.service.webhooks.addresses import Resolver, addresses_of, resolve, target_of
from gdcb.service.webhooks.messages import check_kinds
from gdcb.service.webhooks.signing import Secrets, new_secrets, show_secret
from gdcb.service.who import name_of

MOST = 20
OVERLAP = 86_400.0
_SECOND = 1_000_000


class UnknownHook(GdcbError, KeyError):
    """A webhook that this instance does not have."""

    def __str__(self) -> str:
        """Show the sentence; KeyError would show its repr."""
        return str(self.args[0]) if self.args else ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook as a list shows it; times in µs since the epoch.

    Parameters
    ----------
    id, chain : its own id, and whose events it tells
    url, kinds : where messages go, and which
    made_by, made_at : who asked for it, and when
    cursor : the first entry that it has not told of yet
    is_on : whether messages are sent; False after days of failure
    failures, failing_since, last_error : tries in a row that failed, since when, and why the last
        one did; 0, None and '' where all is well
    next_at : no further try before then
    waiting : entries of the ledger behind which it is
    """

    id: str
    chain: str
    url: str
    kinds: tuple[str, ...]
    made_by: str
    made_at: int
    cursor: int
    is_on: bool
    failures: int
    failing_since: int | None
    last_error: str
    next_at: int
    waiting: int


def document(hook: Hook) -> dict[str, Any]:
    """Return a hook as the API shows it: how it fares, and never its secret."""
    return {
        "id": hook.id,
        "url": hook.url,
        "kinds": list(hook.kinds),
        "made_by": name_of(hook.made_by),
        "made_at": written(hook.made_at),
        "is_on": hook.is_on,
        "waiting": hook.waiting,
        "failures": hook.failures,
        "failing_since": None if hook.failing_since is None else written(hook.failing_since),
        "last_error": hook.last_error or None,
        "next_at": written(hook.next_at) if hook.failures and hook.is_on else None,
    }


def add_hook(
    store: SqlStore,
    chain: str,
    url: str,
    kinds: Iterable[str],
    by: str,
    *,
    clock: Callable[[], int] = now,
    allow_local: bool = False,
    resolver: Resolver = resolve,
) -> tuple[Hook, str]:
    """Add a hook that tells of all that happens from now on; return it with its secret.

    Parameters
    ----------
    store, chain : where the instance is
    url : where to POST; https, on the public internet
    kinds : some of `messages.KINDS`
    by : who asks
    allow_local : whether it may be http, and on this machine or its network; for trying out

    Returns
    -------
    The hook, and its secret as text, which is shown this once.
    """
    wanted = check_kinds(kinds)
    addresses_of(target_of(url, allow_local), allow_local, resolver)
    made, at = new_secrets(), clock()
    id = f"hook_{secrets.token_hex(8)}"
    with store.transaction() as connection:
        size = connection.scalar(select(chains.c.size).where(chains.c.name == chain))
        if not size:
            raise UnknownInstance(f"no instance '{chain[:80]}' here")
        count = select(func.count()).select_from(hooks).where(hooks.c.chain == chain)
        if (connection.scalar(count) or 0) >= MOST:
            raise Conflict(f"instance '{chain}' has {MOST} webhooks already; remove one first")
        row = {
            "id": id,
            "chain": chain,
            "url": url,
            "kinds": ",".join(wanted),
            "secret": made.to_bytes(),
            "made_by": by,
            "made_at": at,
            "cursor": size,
            "is_on": True,
            "failures": 0,
            "next_at": 0,
            "last_error": "",
            "leased_until": 0,
            "leased_by": "",
        }
        connection.execute(insert(hooks).values(row))
    return find_hook(store, chain, id), show_secret(made.current)


def list_hooks(store: SqlStore, chain: str | None = None) -> list[Hook]:
    """Return the hooks of an instance, or of all, in the order of their making."""
    asked = (
        select(hooks, chains.c.size)
        .outerjoin(chains, chains.c.name == hooks.c.chain)
        .order_by(hooks.c.made_at, hooks.c.id)
    )
    if chain is not None:
        asked = asked.where(hooks.c.chain == chain)
    with store.connecting() as connection:
        return [_hook(row) for row in connection.execute(asked)]


def find_hook(store: SqlStore, chain: str, id: str) -> Hook:
    """Return one hook of an instance."""
    for hook in list_hooks(store, chain):
        if hook.id == id:
            return hook
    raise _unknown(chain, id)


def remove_hook(store: SqlStore, chain: str, id: str) -> None:
    """Remove a hook; what it has not told of is not told."""
    with store.transaction() as connection:
        done = connection.execute(delete(hooks).where(hooks.c.chain == chain, hooks.c.id == id))
        if not done.rowcount:
            raise _unknown(chain, id)


def rotate(
    store: SqlStore,
    chain: str,
    id: str,
    *,
    clock: Callable[[], int] = now,
    overlap_s: float = OVERLAP,
) -> str:
    """Replace a hook's secret, and return the new one, which is shown this once.

    For `overlap_s` seconds messages carry a signature under either, so that the receiver may
    change over in its own time; 0: the old one ends at once, as it must where it is known.
    """
    if not 0 <= overlap_s <= 30 * OVERLAP:
        raise InvalidInput(f"overlap_s: expected 0 to {30 * OVERLAP:g} seconds, got {overlap_s!r}")
    until = clock() + round(overlap_s * _SECOND)
    with store.transaction() as connection:
        this = (hooks.c.chain == chain) & (hooks.c.id == id)
        kept = connection.scalar(select(hooks.c.secret).where(this))
        if kept is None:
            raise _unknown(chain, id)
        made = Secrets.from_bytes(bytes(kept)).replaced(until)
        connection.execute(update(hooks).where(this).values(secret=made.to_bytes()))
    return show_secret(made.current)


def resume_hook(store: SqlStore, chain: str, id: str) -> Hook:
    """Start a hook again after its receiver was mended, from where it stopped: nothing is lost."""
    with store.transaction() as connection:
        done = connection.execute(
            update(hooks)
            .where(hooks.c.chain == chain, hooks.c.id == id)
            .values(is_on=True, failures=0, next_at=0, last_error="")
        )
        if not done.rowcount:
            raise _unknown(chain, id)
    return find_hook(store, chain, id)


def trouble(since: int, says: str) -> str:
    """Write down since when a hook fails, and why it did last."""
    return json.dumps({"since": since, "says": says[:500]})


def read_trouble(kept: str) -> tuple[int | None, str]:
    """Read what `trouble` wrote.

    >>> read_trouble(trouble(17, "answered 500")), read_trouble("")
    ((17, 'answered 500'), (None, ''))
    """
    if not kept:
        return None, ""
    found = json.loads(kept)
    return int(found["since"]), str(found["says"])


def _hook(row: Any) -> Hook:
    since, says = read_trouble(row.last_error)
    return Hook(
        row.id,
        row.chain,
        row.url,
        tuple(row.kinds.split(",")),
        row.made_by,
        row.made_at,
        row.cursor,
        bool(row.is_on),
        row.failures,
        since,
        says,
        row.next_at,
        max(0, (row.size or 0) - row.cursor),
    )


def _unknown(chain: str, id: str) -> UnknownHook:
    return UnknownHook(f"instance '{chain[:80]}' has no webhook {id[:60]!r}")
