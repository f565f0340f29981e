"""How fast a ledger is replayed: one written under load, every decision worked out again.

    python -m benchmarks.replay --decisions 100000 --folder FOLDER

It writes a ledger with a desk on a SQLite file, unless the folder holds it already: single
decisions that came about thirty at a time, batches of 1,000, a person's answers to what was held,
outcomes in groups. Then it replays it and prints what came out, as JSON. A row of an event counts
as an event: a decision that was made, judged and executed is three. The instances are `str`, the
pricing of short-term rentals with a person at the gate, and `list`, seven prices behind bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from gdcb.instances.str_pricing.live import Feed
from gdcb.ledger import Store, open_store
from gdcb.ledger.replaying import replay_chain
from gdcb.service import answering, deciding, observing, operating
from gdcb.service.desk import Desk
from gdcb.service.turn import Turn

DECISIONS = 100_000
TOGETHER = 30  # singles that are waiting when the desk looks
BATCH = 1_000
GROUP = 50  # outcomes that are reported together
WHICH = ("str", "list")
LISTED = """
name = "list"
context.base = { type = "number", low = 1, high = 1000 }
context.busy = { type = "number", low = 0, high = 1 }
arms = { part = "list", values = [0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = [{ part = "bounds", low = 40, high = 150 }]
bandit = { part = "beta-thompson" }
reward = { part = "payoff", outcome = ["booked"], action = 0 }
"""


def declaration_of(which: str) -> str:
    """Return the TOML of an instance to write a ledger with."""
    if which == "list":
        return LISTED
    file = files("gdcb.instances") / "str_pricing" / "str.toml"
    return file.read_text(encoding="utf-8")


class Writer:
    """Somebody who asks, answers and reports, with times of their own: nothing reads a clock."""

    def __init__(
        self, store: Store, which: str, seed: int = 7, *, together: int = TOGETHER
    ) -> None:
        self._now, self._together, self._number = 1_780_000_000_000_000, together, 0
        self._feed, self._which = Feed(1), which
        self._asked: dict[str, tuple[str, dict[str, Any]]] = {}
        self.chain = operating.create(
            store, declaration_of(which), "owner", "to measure", seed=seed, clock=self._clock
        )
        self.desk = Desk(store, self.chain, clock=self._clock, limit=10**6)

    def singles(self, n: int) -> None:
        """Ask for single decisions, about thirty at once, and see them through."""
        for first in range(0, n, self._together):
            nights = self._nights(min(self._together, n - first))
            ids = [f"d{self._number + i}" for i in range(len(nights))]
            self._number += len(nights)
            self._decide([(id, [night], True) for id, night in zip(ids, nights, strict=True)])

    def batch(self, n: int = BATCH) -> None:
        """Ask for a batch of decisions, and see them through."""
        self._number += n
        self._decide([(f"b{self._number}", self._nights(n), False)])

    def _nights(self, n: int) -> list[tuple[str, dict[str, Any]]]:
        if self._which == "str":
            return self._feed.nights(n, first=self._number)
        at = range(self._number, self._number + n)
        return [(f"u{i % 8}", {"base": 80.0 + i * 7 % 90, "busy": i * 13 % 100 / 100}) for i in at]

    def _decide(self, asked: Sequence[tuple[str, list[tuple[str, dict[str, Any]]], bool]]) -> None:
        """Decide, answer what is held, and report the outcomes of what ran."""
        desk, instance = self.desk, self.desk.look(lambda live: live.instance).result()
        requests = []
        for id, nights, is_one in asked:
            units, contexts = [unit for unit, _ in nights], [context for _, context in nights]
            request = deciding.request_of(
                instance, desk.policy, id, contexts, is_one, "client", units
            )
            requests.append(request)
            self._asked |= dict(zip(request.ids, nights, strict=True))
        jobs = [deciding.job(request) for request in requests]
        for future in desk.put_all(jobs):
            future.result()
        ids = [id for request in requests for id in request.ids]
        for id in [id for id in ids if id in desk.look(lambda live: set(live.waiting)).result()]:
            desk.submit(partial(self._answer, id=id)).result()
        for first in range(0, len(ids), GROUP):
            some = ids[first : first + GROUP]
            desk.submit(partial(self._report, ids=some)).result()
        for id in ids:
            del self._asked[id]

    def _answer(self, turn: Turn, id: str) -> None:
        record = answering.find(turn.live, id)
        unit, context = self._asked[id]
        price = float(record.entered[0])
        verdict, action, given, words = self._feed.person(unit, context, price)
        content = answering.show(turn, id, "manager")
        code = given if given in turn.policy.codes else "other"
        answering.review(
            turn,
            answering.Review(
                id, verdict, action, "manager", code, words, record.judged_at, content
            ),
        )

    def _report(self, turn: Turn, ids: list[str]) -> None:
        given = []
        for id in ids:
            record = answering.find(turn.live, id)
            if record.ran is None:
                continue
            event, row = record.ran
            price = None if bool(event.is_null[row]) else float(event.action[row][0])
            unit, context = self._asked[id]
            if self._which == "str":
                outcome = self._feed.outcome(unit, context, price)
            else:
                outcome = {"booked": int(hash_of(id) < 1.4 - (price or 200.0) / 150)}
            given.append(observing.Outcome(id, {k: float(v) for k, v in outcome.items()}))
        observing.observe(turn, given, "client")

    def _clock(self) -> int:
        self._now += 1_000
        return self._now


def hash_of(id: str) -> float:
    """Return a number between 0 and 1 that belongs to an id."""
    from gdcb.streams import key_of

    return key_of(id) / 2**64


def write(store: Store, which: str, decisions: int, *, batch: int = BATCH, seed: int = 7) -> str:
    """Write a ledger of so many decisions, half of them in batches; return the chain."""
    writer = Writer(store, which, seed)
    step = 2 * batch
    for first in range(0, decisions, step):
        n = min(step, decisions - first)
        writer.singles(n - n // 2)
        if n // 2:
            writer.batch(n // 2)
        sys.stderr.write(f"\r{first + n:,} of {decisions:,} decisions written")
    sys.stderr.write("\n")
    writer.desk.close()
    return writer.chain


def measure(path: Path, which: str, decisions: int) -> dict[str, Any]:
    """Replay a ledger, written before where there is none."""
    is_new = not path.exists()
    store = open_store(path)
    begin = time.perf_counter()
    if is_new:
        write(store, which, decisions)
    written = time.perf_counter() - begin
    report = replay_chain(store, which)
    found = report.as_json()
    found["write_seconds"] = round(written, 1) if is_new else None
    found["differing"] = found["differing"][:5]
    store.close()
    return found


def main() -> None:
    """Write, replay, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument("--which", default=",".join(WHICH), help="str, list, or both")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    found: dict[str, Any] = {
        "decisions": given.decisions,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }
    for which in given.which.split(","):
        path = folder / f"{which}-{given.decisions}.db"
        found[which] = measure(path, which, given.decisions)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
