"""The outlook: what must happen next, worked out of what is known; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.cases import Record, gate_event, whole_verdict
from gdcb.errors import Conflict, InvalidInput
from gdcb.instance import Instance
from gdcb.kept import Kept
from gdcb.records import (
    EXPIRED,
    HELD,
    MODIFIED,
    PASSED,
    VETOED,
    Decision,
    Rows,
    Verdict,
    copy,
    flatten,
    grow,
)
from gdcb.refold import publish
from gdcb.streams import DRAW, GATE, LAUNCH, Stream, check_seed, key_of

VERDICTS = dict(zip(ev.ANSWERS, (PASSED, MODIFIED, VETOED), strict=True))
WORDS = {"approve": "approved", "edit": "edited", "veto": "vetoed"}

# What random numbers of a row are keyed by: its request (with its nonce), and its place there.
Key = tuple[str, int]
# Shares and what they are drawn by, and the incumbent's actions (N, D): `events.DecisionMade`.
Launched = tuple[Array | None, str, Array | None]


def keyed(name: str, nonce: str) -> str:
    """Return what the random numbers of a request or unit are keyed by.

    >>> keyed("r-17", "9f3c"), keyed("r-17", "")
    ('9f3c:r-17', 'r-17')
    """
    return f"{nonce}:{name}" if nonce else name


def keys_of(made: ev.DecisionMade) -> list[Key]:
    """Return what the random numbers of decisions are keyed by."""
    rows: list[int] = made.row.tolist()
    if made.nonce is None:
        return list(zip(made.batch, rows, strict=True))
    return list(zip(map(keyed, made.batch, made.nonce), rows, strict=True))


class Outlook:
    """What the learners of one instance know, and what follows from it.

    Attributes
    ----------
    state : what the learners know
    units, group : place of each unit by name, and the group of each place
    kept : finished rows that a refit or a correction may read
    drawn : by unit, the nonce with which a launch first drew its side; empty: it had none
    """

    def __init__(self, instance: Instance, bandit: Bandit, seed: int = 0) -> None:
        given: tuple[Any, Any] = (instance, bandit)
        if not isinstance(given[0], Instance):
            raise InvalidInput(f"instance: expected an Instance, got {instance!r}")
        if isinstance(given[1], type) or not hasattr(given[1], "draw"):
            raise InvalidInput(f"bandit: expected a bandit such as BetaThompson(), got {bandit!r}")
        if instance.adjustment is not None and instance.adjustment.form == "aipw":
            raise InvalidInput(
                "adjustment: form 'aipw' needs propensities, which a live decision gives only on "
                "demand; take form 'centred' here"
            )
        self.instance, self.seed = instance, check_seed(seed)
        self.bandit = instance.bind(bandit)
        self.units: dict[str, int] = {}
        self.kept = Kept()
        self.drawn: dict[str, str] = {}
        self.group = np.zeros(1, dtype=np.int64)
        self._random = Stream((self.seed, 0), 0, 1)
        self.state = turn.init(instance, self.bandit, self.group)
        self._sizes: tuple[Instance, int, int] | None = None

    def places(self, units: Sequence[str]) -> list[int]:
        """Return where each unit is, newcomers behind those who are there."""
        new: dict[str, int] = {}
        for unit in units:
            if unit not in self.units:
                new.setdefault(unit, len(self.units) + len(new))
        return [self.units[unit] if unit in self.units else new[unit] for unit in units]

    def propose(self, keys: Sequence[Key], rows: Rows) -> Decision:
        """Propose for rows, without folding anything: room is made for newcomers on the side."""
        stream = self.stream(keys, DRAW)
        state = self.room(int(rows.unit.max()) + 1)[0]
        return turn.decide(stream, self.instance, self.bandit, state, rows)

    def launched(
        self,
        keys: Sequence[Key],
        units: Sequence[str],
        share: Array,
        drawn_by: str,
        instead: Array,
        nonce: Sequence[str] | None = None,
    ) -> Launched:
        """Draw whether the proposal or the incumbent's action (N, D) enters the gates.

        With `drawn_by` 'unit' a unit always draws the same number, so that a rising share only
        ever adds units. It is drawn with the nonce of the unit's first decision in such a launch.
        """
        is_live = self.is_live(keys, units, share, drawn_by, nonce)[:, None]
        return share, drawn_by, np.where(is_live, np.nan, instead)

    def is_live(
        self,
        keys: Sequence[Key],
        units: Sequence[str],
        share: Array,
        drawn_by: str,
        nonce: Sequence[str] | None = None,
    ) -> Array:
        """Return the rows (N,) whose draw lies below their share: their proposals are live."""
        drawn = keys
        if drawn_by == "unit":
            new: dict[str, str] = {}
            for unit, fresh in zip(units, nonce or [""] * len(units), strict=True):
                new.setdefault(unit, self.drawn.get(unit, fresh))
            drawn = [(keyed(unit, new[unit]), 0) for unit in units]
        below: Array = self.stream(drawn, LAUNCH).uniform(len(keys)) < share
        return below

    def judge(self, keys: Sequence[Key], action: Array, rows: Rows) -> Verdict:
        """Send what was proposed through the gates, with the random numbers of each row."""
        draws = self.instance.chain.draw(self.stream(keys, GATE), rows.n)
        return self.instance.chain.apply(draws, action, rows)

    def gated(self, made: ev.DecisionMade, rows: Rows) -> ev.GateApplied:
        """Work out what the gates say of decisions that were just made."""
        entered = made.action
        if made.instead is not None:
            runs = np.isfinite(made.instead).all(axis=1, keepdims=True)
            entered = np.where(runs, made.instead, made.action)
        verdict = self.judge(keys_of(made), entered, rows)
        return gate_event(list(made.id), verdict, self.instance.chain.reasons(verdict, rows))

    def reason(
        self, record: Record, verdict: Verdict, answer: ev.Reviewed | ev.Expired | None
    ) -> str:
        """Say why a decision ended as it did, the person's own words included."""
        reason = self.instance.chain.reason(verdict, record.rows, 0)
        if answer is None:
            return reason
        why = f": {answer.reason}" if answer.reason else ""
        if isinstance(answer, ev.Expired):
            return f"the hold expired{why}"
        who = f" by {answer.by}" if answer.by else ""
        return f"{reason}; {WORDS[answer.verdict]}{who}{why}"

    def resume(self, record: Record, answer: ev.Reviewed | ev.Expired) -> Verdict:
        """Work out what an answer makes of a held decision, behind the gate that held it.

        An expiry is nobody's answer: the gate's status stays EXPIRED whatever runs after it.
        """
        held = record.verdict
        if held is None:
            raise Conflict(f"decision {record.id} is not held; the gates have not answered")
        entered = held.trail[0, int(held.gate[0])]
        action, status = np.full(entered.shape, np.nan), EXPIRED
        if isinstance(answer, ev.Reviewed):
            status = VERDICTS[answer.verdict]
            if status == PASSED:
                action = entered
        if answer.action is not None:
            action = np.array(answer.action)
            if status != EXPIRED:
                status = PASSED if bool((action == entered).all()) else MODIFIED
        draws = self.draws_of(record)
        return self.instance.chain.resume(draws, held, record.rows, action, status)

    def answered(self, record: Record, answer: ev.Reviewed | ev.Expired) -> ev.GateApplied:
        """Work out the verdict that an answer to a held decision leads to."""
        verdict = self.resume(record, answer)
        return gate_event([record.id], verdict, [self.reason(record, verdict, answer)])

    def draws_of(self, record: Record) -> tuple[Any, ...]:
        """Return the gates' random numbers of one decision."""
        made, at = record.made, record.at
        name = made.batch[at] if made.nonce is None else keyed(made.batch[at], made.nonce[at])
        return self.instance.chain.draw(self.stream([(name, int(made.row[at]))], GATE), 1)

    def requested(self, judged: ev.GateApplied) -> ev.ReviewRequested | None:
        """Work out who is to be asked after a verdict; None: nobody."""
        held = np.flatnonzero(judged.status == HELD)
        if not held.size:
            return None
        at = whole_verdict(judged).gate
        gates = self.instance.chain.gates
        return ev.ReviewRequested(
            [judged.id[i] for i in held],
            [gates[int(at[i])].name for i in held],
            [judged.reason[i] for i in held],
        )

    def released(
        self, judged: ev.GateApplied, rows: Rows, only_null: bool = False
    ) -> ev.ActionExecuted | None:
        """Work out what runs after a verdict; None: nothing does yet.

        `only_null`: what was let through runs when somebody says so, and not before.
        """
        done = (judged.status > MODIFIED) if only_null else True
        run = np.flatnonzero((judged.status != HELD) & done)
        if not run.size:
            return None
        verdict, ids = whole_verdict(judged), judged.id
        if run.size < rows.n:
            verdict, rows, ids = verdict.take(run), rows.take(run), [ids[i] for i in run]
        executed = turn.execute(self.instance, verdict, rows)
        return ev.ActionExecuted(list(ids), executed.action, executed.is_null)

    def check_owners(self, owners: list[int]) -> None:
        """Refuse to refit owners that are not there."""
        n = len(self.units) if self.instance.scaler.per == "unit" else 1
        is_known = all(type(owner) is int and 0 <= owner < n for owner in owners)
        if not is_known or len(set(owners)) != len(owners):
            raise InvalidInput(f"owners: expected owners 0 to {n - 1}, got {owners}")

    def fitted(self, owners: list[int]) -> ev.ScalerFitted:
        """Work out which versions a refit would put in force, as `teach` will do it."""
        scaler, index = self.instance.scaler, np.array(owners, dtype=np.int64)
        known = self.state
        ahead = replace(known, scaler=copy(known.scaler), limits=copy(known.limits))
        publish(self.instance, ahead, index, self.group, self.kept.log)
        return ev.ScalerFitted(owners, scaler.version(ahead.scaler, index).tolist())

    def room(self, n_units: int) -> tuple[turn.RoundState, Array]:
        """Return the state with room for so many units; who is there keeps what they learned."""
        if n_units <= self.group.size:
            return self.state, self.group
        group = np.zeros(max(n_units, 2 * self.group.size), dtype=np.int64)
        return grow(self.state, turn.init(self.instance, self.bandit, group)), group

    def bytes_for(self, n_units: int) -> int:
        """Return how many bytes are taken by what is learned of so many units."""
        if self._sizes is None or self._sizes[0] is not self.instance:
            one, two = (
                sum(array.nbytes for array in flatten(state).values())
                for state in (
                    turn.init(self.instance, self.bandit, np.zeros(n, int)) for n in (1, 2)
                )
            )
            self._sizes = self.instance, one, two - one
        _, first, further = self._sizes
        return first + (n_units - 1) * further

    def stream(self, keys: Sequence[Key], stage: int) -> Stream:
        """Return the random numbers of rows in a stage; valid until the next call."""
        seed, found = self.seed, dict.fromkeys(batch for batch, _ in keys)
        number = {batch: key_of(batch) for batch in found}
        return self._random.rekey_rows([(seed, number[batch], row) for batch, row in keys], stage)
