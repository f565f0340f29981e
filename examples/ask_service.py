"""Ask a decision service from Python: decide, report, and prove it afterwards.

It starts a service of its own on a temporary ledger, so that it runs by itself; against yours, only
the lines from `Client` on are needed.
"""

import argparse
import socket
import tempfile
import threading
import time
from pathlib import Path

import uvicorn

from gdcb.client import Client, Refused
from gdcb.ledger.evidence import evidence_of, verify
from gdcb.service import operating
from gdcb.service.access import CONSOLE, add_key, open_books
from gdcb.service.app import build
from gdcb.service.house import House
from gdcb.service.running import sql_store

argparse.ArgumentParser(description=__doc__).parse_args()  # it takes nothing; --help says what

folder = Path(tempfile.mkdtemp())
store = sql_store(str(folder / "ledger.db"))
text = Path(__file__).with_name("listing.toml").read_text()
name = operating.create(store, text, "example", "to try the client")
key = add_key(open_books(store.engine), CONSOLE, "booking", [("decide", name), ("outcome", name)])

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
config = uvicorn.Config(build(House(store)), port=port, log_level="warning")
server = uvicorn.Server(config)
running = threading.Thread(target=server.run)
running.start()
while not server.started:
    time.sleep(0.05)

client = Client(f"http://127.0.0.1:{port}", key.text)
context = {"base": 120.0, "occupancy": 0.7, "lead": 0.1, "gap": False}
made = client.decide(name, context, unit="harbour view", id="harbour-view-2026-12-24")
print(f"{made['id']}: proposed {made['proposed']}, {made['status']}: {made['reason']}")

# The id is the idempotency key: asked again, the same decision is the answer.
assert client.decide(name, context, unit="harbour view", id="harbour-view-2026-12-24") == made

# This instance holds every price for its manager, so that nothing has run yet.
try:
    client.outcome(name, made["id"], {"booked": 1})
except Refused as refused:
    print(f"refused: {refused}")

# What an auditor gets: the whole decision, with a proof that needs nothing but the document.
document = evidence_of(store, name, made["id"])
print(f"worked out again: {document['recomputed']['verdict']}")
print(f"faults in the proof: {verify(document)}")

server.should_exit = True
running.join()
