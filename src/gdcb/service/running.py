"""From a plan to a running process: open the ledger, furnish it, hand the application out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from gdcb.errors import InvalidInput
from gdcb.instances.catalogue import NAMES
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import open_store
from gdcb.service import demo, operating
from gdcb.service.access import RateLimits, first_link, open_books, remember_base
from gdcb.service.app import Application, build
from gdcb.service.house import House, Settings

_PLAN = "GDCB_PLAN"
_BY = "command line [console]"
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What `gdcb serve` was asked for.

    Parameters
    ----------
    db, base_url : where the ledger is, and where people reach the service
    instances : TOML files or names to declare where they are not declared yet
    is_demo : whether the made-up operator is shown where there is nothing else
    rate : decisions a second of one key or person
    timeout : seconds for the headers of a request, and for its body to begin and go on
    """

    db: str
    base_url: str
    instances: tuple[str, ...] = ()
    is_demo: bool = False
    rate: float = RateLimits().decide.per_second
    timeout: float = Settings().timeout

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Hand the plan to the processes that are started meanwhile."""
        before = os.environ.get(_PLAN)
        os.environ[_PLAN] = json.dumps(asdict(self))
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(_PLAN, None)
            else:
                os.environ[_PLAN] = before


def sql_store(db: str) -> SqlStore:
    """Open the database of a service."""
    store = open_store(db)
    if not isinstance(store, SqlStore):
        raise InvalidInput("a service keeps its ledger in a database: give a path or a URL")
    return store


@dataclass(frozen=True, slots=True)
class Furnished:
    """What there is now: a link to sign in, if one is due, and which instances are made up.

    Parameters
    ----------
    link : for the first administrator; None once somebody could administer
    made_up : a sentence about what is made up; empty where the ledger is real
    """

    link: str | None
    made_up: str


def furnished(plan: Plan, told: Told = lambda *_: None) -> Furnished:
    """Make what the plan asks for and is not there."""
    store = sql_store(plan.db)
    try:
        known = set(store.chains())
        if plan.is_demo and (not known or demo.is_half(store)):
            demo.furnish(store, told)
        for one in plan.instances:
            text = declaration_of(one)
            name = operating.read_declaration(text, one).instance.name
            if name not in known:
                operating.create(store, text, _BY, f"declared by gdcb serve {one}")
        books = open_books(store.engine)
        link = first_link(books, plan.base_url)
        remember_base(books, plan.base_url)
        return Furnished(link, _made_up(store))
    finally:
        store.close()


def _made_up(store: SqlStore) -> str:
    """Say what is made up, by what the ledger has and not by what was asked for."""
    if not demo.is_ours(store):
        return ""
    what = "Everything shown" if store.chains() == [demo.NAME] else f"Instance '{demo.NAME}'"
    return f"{what} is made up: listings, guests and manager."


def declaration_of(one: str) -> str:
    """Return the TOML of a file, or of an instance that ships one."""
    if one.endswith(".toml"):
        try:
            return Path(one).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{one}: cannot be read ({error})") from error
    folder = NAMES.get(one)
    shipped = None if folder is None else files("gdcb.instances") / folder / f"{one}.toml"
    if shipped is None or not shipped.is_file():
        raise InvalidInput(f"no instance '{one}' that ships a TOML file; give a path to one")
    return shipped.read_text(encoding="utf-8")


def planned() -> Plan:
    """Return the plan that the parent of this process left, without its instances."""
    return _read(os.environ[_PLAN])


@cache
def _read(plan: str) -> Plan:
    return Plan(**(json.loads(plan) | {"instances": ()}))


def application() -> Application:
    """Return the application of one process, by the plan that its parent left."""
    plan = planned()
    store = sql_store(plan.db)
    rates = RateLimits.deciding(plan.rate)
    house = House(store, Settings(base_url=plan.base_url, rates=rates, timeout=plan.timeout))
    feed = (
        demo.Feed(lambda: house.desk(demo.NAME)) if plan.is_demo and demo.is_ours(store) else None
    )
    return build(house, feed)
