"""The service as the load meets it: one instance, one key, no rate limits, an own process."""

from __future__ import annotations

import json
import os
import sys

from fastapi import FastAPI

from gdcb.service import operating
from gdcb.service.access import CONSOLE, Rate, RateLimits, add_key, open_books
from gdcb.service.app import build
from gdcb.service.house import House, Settings
from gdcb.service.running import sql_store

LISTING = """
name = "listing"
title = "Prices of one listing a unit"

[context]
base = { type = "number", low = 1, high = 1000 }
occupancy = { type = "number", low = 0, high = 1 }

[arms]
part = "list"
values = [0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3]

[composition]
part = "multiply"
base = ["base"]
names = ["price"]

[[gates]]
part = "bounds"
low = 40
high = 900

[reward]
part = "payoff"
outcome = ["booked"]
action = 0

[bandit]
part = "curve-thompson"
"""
_FREE = Rate(1e9, 1e9)


def prepare(db: str, text: str = LISTING) -> str:
    """Declare the instance, make a key that may decide and report, and return it."""
    store = sql_store(db)
    operating.create(store, text, "benchmark", "load")
    books = open_books(store.engine)
    key = add_key(books, CONSOLE, "load", [("decide", "*"), ("outcome", "*"), ("audit", "*")])
    store.close()
    return key.text


def application() -> FastAPI:
    """Return the application of one process; the environment says where the ledger is."""
    said = json.loads(os.environ["GDCB_LOAD"])
    rates = RateLimits(_FREE, _FREE, _FREE, _FREE, _FREE, _FREE)
    settings = Settings(rates=rates, waiting=said["waiting"], tick=said["tick"])
    return build(House(sql_store(said["db"]), settings))


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(
        "benchmarks.load.server:application",
        factory=True,
        port=int(sys.argv[1]),
        log_level="warning",
        access_log=False,
    )
