"""What came out of a replay: rows by kind of event, snapshots, and what differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.codec import unpack
from gdcb.errors import GdcbError, StoreError
from gdcb.ledger.differing import Compared, compare_arrays
from gdcb.ledger.live import FORMAT, Live, format_of
from gdcb.ledger.sealing import unsealed
from gdcb.ledger.store import Snapshot
from gdcb.records import flatten, from_bytes

_EARLIER = "of another version"
_UNREADABLE = (GdcbError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class StateCheck:
    """Say whether a stored snapshot is what the fold knows after as many entries.

    `verdict` is 'equal', 'to rounding' or 'differs', and 'of another version' where it is of an
    earlier format: nothing uses it, and the state is worked out anew when somebody opens the
    chain. `odd` names what differs.
    """

    size: int
    verdict: str
    worst: float
    odd: list[str]


@dataclass(slots=True)
class ReplayReport:
    """Say what came out of a replay.

    Parameters
    ----------
    chain, tolerance : which chain, and how far numbers may be apart
    start, stop : entries that were worked out again, from the first to before the last
    based_on : entries behind the snapshot that was taken as said; 0: none was
    kinds : what became of the rows of each kind of event
    states : what became of the snapshots
    erased, unknown : decisions whose personal fields were erased, and decisions on a state that
        cannot be worked out since: neither was decided again
    seals : entries whose sealed states were taken as said
    seconds : how long it took
    """

    chain: str
    tolerance: float
    start: int = 0
    stop: int = 0
    based_on: int = 0
    kinds: dict[str, Compared] = field(default_factory=dict)
    states: list[StateCheck] = field(default_factory=list)
    erased: int = 0
    unknown: int = 0
    seals: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def decisions(self) -> Compared:
        """What became of the decisions."""
        return self.kinds.get("DecisionMade", Compared())

    @property
    def rows(self) -> int:
        """Rows of all events: a decision that was made, judged and executed is three."""
        return sum(one.rows for one in self.kinds.values())

    @property
    def ok(self) -> bool:
        """Whether everything came out, to the bit or to rounding."""
        is_same = all(one.differ == 0 for one in self.kinds.values())
        return is_same and all(one.verdict != "differs" for one in self.states)

    @property
    def verdict(self) -> str:
        """'equal', 'to rounding' or 'differs'."""
        if not self.ok:
            return "differs"
        is_rounded = any(one.rounded for one in self.kinds.values())
        is_rounded |= any(one.verdict == "to rounding" for one in self.states)
        return "to rounding" if is_rounded else "equal"

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        found = [one for kind in self.kinds.values() for one in kind.found]
        return {
            "chain": self.chain,
            "verdict": self.verdict,
            "entries": {"from": self.start, "to": self.stop, "based_on": self.based_on},
            "decisions": self.decisions.as_json(),
            "kinds": {name: one.as_json() for name, one in sorted(self.kinds.items())},
            "differing": [one.as_json() for one in sorted(found, key=lambda one: one.seq)],
            "snapshots": [
                {"entries": s.size, "verdict": s.verdict, "worst": s.worst, "differing": s.odd}
                for s in self.states
            ],
            "erased": self.erased,
            "not_recomputable": self.unknown,
            "seals": self.seals,
            "worst": max([one.worst for one in self.kinds.values()], default=0.0),
            "tolerance": self.tolerance,
            "events": self.rows,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.rows / self.seconds) if self.seconds else None,
        }


def check_snapshot(
    live: Live, stored: Snapshot, last: bytes, tolerance: float
) -> StateCheck | None:
    """Hold a snapshot, as it is stored, against the entries behind it; None: its key is gone.

    `last` is the hash of the last of these entries. Of learners whose contexts were erased since,
    nobody knows what they must be: then only the digest is checked.
    """
    try:
        found = unsealed(live.store, stored)
        check = None if found is None or live.is_lossy else check_state(live, found, tolerance)
        if stored.is_after(last) or (check is not None and check.verdict == _EARLIER):
            return check
    except StoreError:
        raise
    except Exception as error:  # whatever somebody put there
        said = " ".join(str(error).split())[:300] or type(error).__name__
        return StateCheck(stored.size, "differs", 0.0, [said])
    worst, odd = (0.0, []) if check is None else (check.worst, check.odd)
    return StateCheck(stored.size, "differs", worst, ["digest", *odd])


def check_state(live: Live, stored: Snapshot, tolerance: float) -> StateCheck:
    """Hold a state against what the fold knows."""
    size, ours = stored.size, Snapshot(live.chain, stored.size, b"", live.to_bytes())
    if stored.body == ours.body:
        return StateCheck(size, "equal", 0.0, [])
    try:
        if format_of(unpack(stored.body)) != FORMAT:
            return StateCheck(size, _EARLIER, 0.0, [])
        old, new = _known(live, stored), _known(live, ours)
    except _UNREADABLE as error:
        return StateCheck(size, "differs", 0.0, [str(error)])
    names = sorted(old[1].keys() | new[1].keys())
    odd = [name for name in names if old[1].get(name) != new[1].get(name)]
    is_equal, worst, arrays = compare_arrays(old[0], new[0], tolerance)
    if odd or arrays:
        return StateCheck(size, "differs", worst, odd + arrays)
    return StateCheck(size, "equal" if is_equal else "to rounding", worst, [])


def _known(live: Live, snapshot: Snapshot) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays of a snapshot by name, and what else it says."""
    found = unpack(snapshot.body)
    state = from_bytes(found.pop("state").tobytes(), live.state)
    arrays = {f"state.{name}": array for name, array in flatten(state).items()}
    arrays |= {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return arrays, {name: value for name, value in found.items() if name not in arrays}
