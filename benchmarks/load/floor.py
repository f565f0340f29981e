"""The floor: the same server and the same group commit, with nothing decided.

An endpoint that reads a small JSON body, hands one row to a thread which writes all that wait in
one durable transaction, and answers when it is committed: by the very `Line` that the service has.
What the service adds to that is what it does: authenticate, check, propose, judge, chain, index.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from gdcb.service.line import Job, Line, answer


class Asked(BaseModel):
    """A body of the size of a request to decide."""

    id: str
    context: dict[str, float]
    unit: str = "default"


class Writer:
    """Rows that wait are written together, by the same line as before the service's desk."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS rows (id TEXT PRIMARY KEY, body BLOB)")
        self.line = Line(self._work, "floor", 10**6)

    def _work(self, jobs: list[Job]) -> None:
        rows = [job.what for job in jobs]
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)
        self._db.execute("COMMIT")
        answer(jobs)


def application() -> FastAPI:
    """Return the floor's application; the database is named by the environment."""
    app = FastAPI(openapi_url=None)
    writer = Writer(os.environ["GDCB_FLOOR"])

    @app.post("/v1/instances/listing/decisions", status_code=201)
    async def write(asked: Asked) -> dict[str, Any]:
        body = asked.model_dump_json().encode()
        await writer.line.done(Job(what=(asked.id, body)))
        return {"id": asked.id, "status": "passed", "action": {"price": 100.0}}

    return app


def bare_inserts(path: str, seconds: float) -> float:
    """Return rows a second, one durable transaction each, without HTTP."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, body BLOB)")
    n, body, until = 0, bytes(500), time.perf_counter() + seconds
    while time.perf_counter() < until:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO bare (body) VALUES (?)", (body,))
        db.execute("COMMIT")
        n += 1
    db.close()
    return n / seconds


def synced(path: str, seconds: float) -> list[float]:
    """Return the times of single writes with fsync, in ms: what no durable answer can beat."""
    found, until = [], time.perf_counter() + seconds
    with Path(path).open("wb", buffering=0) as file:
        while time.perf_counter() < until:
            begun = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            found.append(1e3 * (time.perf_counter() - begun))
    return found


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(
        "benchmarks.load.floor:application",
        factory=True,
        port=int(sys.argv[1]),
        log_level="warning",
        access_log=False,
    )
