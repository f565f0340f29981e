"""The tables: made step by step, by one of many who start at once, and as the code expects them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from gdcb.errors import StoreError
from gdcb.ledger import open_store
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.tables import NEWEST, VERSION_TABLE, metadata
from tests.ledger.conftest import Opener
from tests.ledger.drafts import fill
from tests.postgres import Cluster

START = """
import sys
from gdcb.ledger import Draft, open_store
print("ready", flush=True)
sys.stdin.readline()
store = open_store(sys.argv[1])
with store.writing("prices") as writing:
    writing.append([Draft("Resumed", b"", b"", 0, "ann")])
"""


def test_the_steps_make_the_tables_that_the_code_has(fresh_database: str) -> None:
    store = open_store(fresh_database)
    assert isinstance(store, SqlStore)
    ours = set(metadata.tables)
    with store.connecting() as connection:
        options = {
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "include_name": lambda name, kind, _: kind != "table" or name in ours,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []
    store.close()


def test_the_newest_step_is_the_last_of_all() -> None:
    config = Config()
    config.set_main_option("script_location", "gdcb.ledger:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [NEWEST]


def test_tables_that_are_up_are_opened_without_alembic(database: str) -> None:
    """What is imported to migrate takes a tenth of a second, and is for those who migrate."""
    program = """
import sys
from gdcb.ledger import open_store
open_store(sys.argv[1]).close()
sys.exit("alembic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program, database], check=False)
    assert done.returncode == 0


def test_many_start_at_once(fresh_database: str) -> None:
    command = [sys.executable, "-c", START, fresh_database]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(2)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    store = open_store(fresh_database)
    assert store.head("prices").size == 2
    store.close()


def test_what_is_there_stays(opener: Opener) -> None:
    entries = fill(opener(), 3)
    assert list(opener().read("prices")) == entries


def test_a_newer_database_is_refused(opener: Opener) -> None:
    store = opener()
    assert isinstance(store, SqlStore)
    with store.transaction() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"tables are those of a newer gdcb \(step 9999; this one"):
        opener()


def test_a_database_of_another_encoding_is_refused(postgres: Cluster) -> None:
    name = postgres.create("ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreError, match="expected a database in UTF8, got LATIN1"):
        open_store(postgres.url(name))
    postgres.drop(name)
