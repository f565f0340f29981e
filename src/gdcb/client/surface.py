"""Everything that can be asked of the service, once for both clients.

A method says what is asked; how it is sent, `One` and `Many` are those of the client: what comes
back is a dictionary (or a list of them) from `Client`, and something to await from `AsyncClient`.
Dictionaries are as the service's API describes them.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from gdcb.client.calls import Call, get, given, path_of, post, text_of
from gdcb.errors import InvalidInput

One = TypeVar("One")
Many = TypeVar("Many")
Named = Mapping[str, Any]
_MEDIA = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
# Certifying a long log takes minutes.
_HISTORY_S = 1_800.0


class Surface(ABC, Generic[One, Many]):
    """The methods of a client."""

    @abstractmethod
    def _one(self, call: Call) -> One:
        """Send a call that is answered with a document."""

    @abstractmethod
    def _many(self, call: Call) -> Many:
        """Send a call that is answered with a list of documents."""

    # Decisions

    def decide(
        self,
        instance: str,
        context: Named,
        *,
        unit: str | None = None,
        mask: Sequence[str] | None = None,
        incumbent: Named | None = None,
        id: str | None = None,
    ) -> One:
        """Ask for one decision.

        Parameters
        ----------
        instance : its name
        context : context fields by name
        unit : whose learner decides; None: the service's default
        mask : names of the arms that may be proposed; None: all
        incumbent : what runs where the proposal does not, by name
        id : of the decision. The same id again is the same decision, so that a program that
            chooses it may ask again after its own restart; None: a fresh one.

        Returns
        -------
        id, unit, status (passed, modified, vetoed or held), arm, proposed, live, action (what was
        let through; None: nothing yet), has_run, reason, version.
        """
        said = given(id=_id(id), context=context, unit=unit, mask=_list(mask), incumbent=incumbent)
        return self._one(post("v1", "instances", instance, "decisions", said=said))

    def decide_batch(
        self,
        instance: str,
        contexts: Sequence[Named] | None = None,
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
        unit: str | Sequence[str] | None = None,
        mask: Sequence[str] | None = None,
        incumbent: Named | None = None,
        id: str | None = None,
    ) -> One:
        """Ask for many decisions at once; one `unit` for all, or one for each.

        Contexts come row by row, and 'decisions' come back as from `decide`; or column by column,
        which is quicker, and 'columns' come back. The ids are those of the batch with .0, .1, …
        """
        if (contexts is None) == (columns is None):
            raise InvalidInput("decide_batch: expected contexts or columns, one of the two")
        is_one = unit is None or isinstance(unit, str)
        said = given(
            id=_id(id),
            contexts=_list(contexts),
            columns=None if columns is None else {name: _list(v) for name, v in columns.items()},
            unit=unit if is_one else None,
            units=None if is_one else _list(unit),
            mask=_list(mask),
            incumbent=incumbent,
        )
        return self._one(post("v1", "instances", instance, "decisions", "batch", said=said))

    def decision(self, instance: str, id: str) -> One:
        """Read a decision, and what became of it."""
        return self._one(get(*_at(instance, id)))

    def evidence(self, instance: str, id: str) -> One:
        """Read everything that proves how a decision came about."""
        return self._one(get(*_at(instance, id), "evidence"))

    def queue(
        self,
        instance: str,
        *,
        rule: str | None = None,
        unit: str | None = None,
        limit: int | None = None,
    ) -> One:
        """See what waits for a person: 'total', and some of them in 'waiting'."""
        return self._one(
            get("v1", "instances", instance, "queue", rule=rule, unit=unit, limit=limit)
        )

    def review(
        self,
        instance: str,
        id: str,
        verdict: str,
        *,
        code: str,
        version: int,
        content: str,
        reason: str = "",
        action: Named | None = None,
    ) -> One:
        """Answer a held decision; `version` and `content` are those of what was looked at.

        One answer counts: where somebody was first, `Refused.decided` says who. Where no answer
        comes back, look at the decision before you ask again.
        """
        said = given(
            verdict=verdict,
            action=action,
            code=code,
            reason=reason,
            version=version,
            content=content,
        )
        return self._one(post(*_at(instance, id), "review", said=said, is_repeatable=False))

    # What ran, and what came of it

    def executed(self, instance: str, id: str, action: Named | None) -> One:
        """Report what really ran; None: nothing did."""
        return self._one(post(*_at(instance, id), "executed", said={"action": action}))

    def outcome(
        self,
        instance: str,
        id: str,
        outcome: Named,
        *,
        label: Sequence[float | None] | None = None,
        weight: float | None = None,
        reason: str | None = None,
    ) -> One:
        """Report what came of a decision; 'news' says whether it was known already."""
        said = given(outcome=outcome, label=_list(label), weight=weight, reason=reason)
        return self._one(post(*_at(instance, id), "outcome", said=said))

    def outcomes(self, instance: str, outcomes: Iterable[Named]) -> One:
        """Report many outcomes, all or none: each a document with id, outcome, label, weight."""
        said = {"outcomes": [dict(one) for one in outcomes]}
        return self._one(post("v1", "instances", instance, "outcomes", said=said))

    def appeal(self, instance: str, id: str, *, upheld: bool, reason: str) -> One:
        """Report how an appeal against a decision ended."""
        said = {"upheld": upheld, "reason": reason}
        return self._one(post(*_at(instance, id), "appeal", said=said))

    # Instances

    def instances(self) -> Many:
        """List the instances on which this key has a role."""
        return self._many(get("v1", "instances"))

    def instance(self, instance: str) -> One:
        """Read how an instance is."""
        return self._one(get("v1", "instances", instance))

    def create(self, declaration: str, *, reason: str, seed: int | None = None) -> One:
        """Declare a new instance, as TOML."""
        said = given(declaration=declaration, reason=reason, seed=seed)
        return self._one(post("v1", "instances", said=said, is_repeatable=False))

    def pause(self, instance: str, *, reason: str) -> One:
        """Stop proposing at once."""
        return self._one(post("v1", "instances", instance, "pause", said={"reason": reason}))

    def resume(self, instance: str, *, reason: str) -> One:
        """Propose again."""
        return self._one(post("v1", "instances", instance, "resume", said={"reason": reason}))

    def retire(self, instance: str, *, reason: str) -> One:
        """End an instance; outcomes may still come."""
        return self._one(post("v1", "instances", instance, "retire", said={"reason": reason}))

    def refit(self, instance: str) -> One:
        """Refit the scaler now."""
        return self._one(post("v1", "instances", instance, "refit", is_repeatable=False))

    def rollback(self, instance: str, *, to: int, reason: str) -> One:
        """Put the learners back to what they knew after `to` entries."""
        said = {"to": to, "reason": reason}
        return self._one(
            post("v1", "instances", instance, "rollback", said=said, is_repeatable=False)
        )

    def upload_history(
        self,
        instance: str,
        log: Path | str | bytes,
        *,
        kind: str | None = None,
        strict: bool | None = None,
        override: str | None = None,
    ) -> One:
        """Certify a log of past decisions and start from it; returns 'taken' and the certificate.

        Parameters
        ----------
        log : a path that ends in .csv or .parquet, or the bytes themselves
        kind : 'csv' or 'parquet', where the log is given as bytes
        strict : whether one bad row refuses the log
        override : why it is taken although its certificate refuses it
        """
        suffix = f".{kind}" if isinstance(log, bytes) or kind else Path(log).suffix.lower()
        if suffix not in _MEDIA:
            raise InvalidInput(f"log: expected {' or '.join(_MEDIA)}, got {suffix!r}")
        query = given(strict=strict, override=override)
        return self._one(
            Call(
                "POST",
                path_of("v1", "instances", instance, "history"),
                {name: text_of(value) for name, value in query.items()},
                log if isinstance(log, bytes) else Path(log).read_bytes(),
                _MEDIA[suffix],
                is_repeatable=False,
                slow=_HISTORY_S,
            )
        )

    # Changes under four eyes

    def changes(self, instance: str) -> Many:
        """List the changes that wait for a second pair of eyes."""
        return self._many(get("v1", "instances", instance, "changes"))

    def propose_change(self, instance: str, declaration: str, *, reason: str) -> One:
        """Propose another declaration; somebody else must agree."""
        said = {"declaration": declaration, "reason": reason}
        return self._one(
            post("v1", "instances", instance, "changes", said=said, is_repeatable=False)
        )

    def agree(self, instance: str, change: int, *, reason: str = "") -> One:
        """Put a proposed change in force."""
        return self._answer_change(instance, change, "agree", reason)

    def refuse(self, instance: str, change: int, *, reason: str) -> One:
        """Turn a proposed change down."""
        return self._answer_change(instance, change, "refuse", reason)

    def _answer_change(self, instance: str, change: int, answer: str, reason: str) -> One:
        path = ("v1", "instances", instance, "changes", change, answer)
        return self._one(post(*path, said={"reason": reason}, is_repeatable=False))

    # Webhooks

    def webhooks(self, instance: str) -> Many:
        """List the webhooks of an instance, and how they fare."""
        return self._many(get("v1", "instances", instance, "webhooks"))

    def add_webhook(self, instance: str, url: str, kinds: Sequence[str]) -> One:
        """Add a webhook; its secret is in the answer, this once."""
        said = {"url": url, "kinds": _list(kinds)}
        return self._one(
            post("v1", "instances", instance, "webhooks", said=said, is_repeatable=False)
        )

    def remove_webhook(self, instance: str, hook: str) -> One:
        """Remove a webhook."""
        path = path_of("v1", "instances", instance, "webhooks", hook)
        return self._one(Call("DELETE", path, is_repeatable=False))


def _at(instance: str, id: str) -> tuple[str, ...]:
    return ("v1", "instances", instance, "decisions", id)


def _id(id: str | None) -> str:
    """Return the id of a request: the same in every try, so that it is decided once."""
    return str(uuid.uuid4()) if id is None else id


def _list(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
