"""Open the ledger that a command is about, or say in a sentence why it cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gdcb.cli.say import fail, wrong_usage
from gdcb.errors import GdcbError, InvalidInput, StoreReadOnly

if TYPE_CHECKING:
    from gdcb.ledger import Store


@contextmanager
def open_ledger(url: str, *, to_read: bool) -> Iterator[Store]:
    """Open a ledger that is there; none is made, and one to read is never written."""
    from gdcb.ledger import engines, open_store

    if url == "memory:":
        wrong_usage("--db: expected a SQLite file or a postgresql:// URL, got 'memory:'")
    try:
        given = engines.parse(url)
        if given.drivername == "sqlite" and not Path(given.database or "").is_file():
            fail(f"no ledger at {given.database}")
        store = open_store(engines.to_read(given) if to_read else url)
    except InvalidInput as error:
        wrong_usage(f"--db: {error}")
    except StoreReadOnly as error:
        if not to_read:
            fail(str(error))
        fail(f"no ledger of this version in it, and to bring one up is not this command's: {error}")
    except GdcbError as error:
        fail(str(error))
    try:
        yield store
    except GdcbError as error:
        fail(str(error))
    finally:
        store.close()
