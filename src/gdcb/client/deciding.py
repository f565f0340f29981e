"""Ask for decisions, answer held ones, and report what ran and what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gdcb.client.asking import Asking, Many, One
from gdcb.client.calls import get, given, post
from gdcb.errors import InvalidInput

Named = Mapping[str, Any]
_SEEN = ("id", "version", "content")


class Deciding(Asking[One, Many]):
    """What is asked of an instance, decision by decision."""

    def decide(
        self,
        instance: str,
        context: Named,
        *,
        unit: str | None = None,
        mask: Sequence[str] | None = None,
        incumbent: Named | None = None,
        subject: str | None = None,
        id: str | None = None,
    ) -> One:
        """Ask for one decision.

        Parameters
        ----------
        instance : its name
        context : context fields by name
        unit : whose learner decides; None: the service's default
        mask : names of the arms that may be proposed; None: all
        incumbent : what runs where the proposal does not (shadow, holdback, ramp), by name
        subject : whom it is about, where fields of the instance are personal
        id : of the decision. The same id again is the same decision, so that a program that
            chooses it may ask again after its own restart; None: a fresh one.

        Returns
        -------
        id, unit, status (passed, modified, vetoed or held), arm, proposed, live, action (what was
        let through; None: nothing yet), has_run, reason, version.
        """
        said = given(
            id=_id(id),
            context=context,
            unit=unit,
            mask=_list(mask),
            incumbent=incumbent,
            subject=subject,
        )
        return self._one(post("v1", "instances", instance, "decisions", said=said))

    def decide_batch(
        self,
        instance: str,
        contexts: Sequence[Named] | None = None,
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
        unit: str | Sequence[str] | None = None,
        mask: Sequence[str] | None = None,
        incumbent: Named | Sequence[Named] | None = None,
        subject: str | Sequence[str] | None = None,
        id: str | None = None,
    ) -> One:
        """Ask for many decisions at once.

        Contexts come row by row, and 'decisions' come back as from `decide`; or column by column,
        which is quicker, and 'columns' come back. The ids are those of the batch with .0, .1, …

        Parameters
        ----------
        instance : its name
        contexts, columns : one of the two
        unit, subject : one for all rows, or one for each
        mask : names of the arms that may be proposed, in all rows
        incumbent : what runs where the proposal does not: one action by name for all rows, one for
            each, or the values of all rows by name
        id : of the batch; None: a fresh one
        """
        if (contexts is None) == (columns is None):
            raise InvalidInput("decide_batch: expected contexts or columns, one of the two")
        said = given(
            id=_id(id),
            contexts=_list(contexts),
            columns=None if columns is None else _columns(columns),
            mask=_list(mask),
        )
        said |= _one_or_each("unit", unit) | _one_or_each("subject", subject)
        said |= _incumbents(incumbent)
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
        comes back, look at the decision before you ask again. It needs a person: a key is refused.
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

    def review_many(
        self,
        instance: str,
        verdict: str,
        decisions: Iterable[Named],
        *,
        code: str,
        reason: str = "",
    ) -> Many:
        """Give one answer to several decisions that the same rule holds: all of them, or none.

        `decisions` are documents with id, version and content, such as those that wait in `queue`.
        It needs a person: a key is refused.
        """
        seen = [_seen(one) for one in decisions]
        said = {"verdict": verdict, "code": code, "reason": reason, "decisions": seen}
        path = ("v1", "instances", instance, "reviews")
        return self._many(post(*path, said=said, is_repeatable=False))

    def claim(self, instance: str, id: str) -> One:
        """Take a held decision to look at, 'until' then; it needs a person: a key is refused."""
        return self._one(post(*_at(instance, id), "claim"))

    def release(self, instance: str, id: str) -> One:
        """Give a decision back that one had claimed; it needs a person: a key is refused."""
        return self._one(post(*_at(instance, id), "release"))

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
        """Report how an appeal against a decision ended; it needs a person: a key is refused."""
        said = {"upheld": upheld, "reason": reason}
        return self._one(post(*_at(instance, id), "appeal", said=said))


def _at(instance: str, id: str) -> tuple[str, ...]:
    return ("v1", "instances", instance, "decisions", id)


def _id(id: str | None) -> str:
    """Return the id of a request: the same in every try, so that it is decided once."""
    return str(uuid.uuid4()) if id is None else id


def _list(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _columns(columns: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in columns.items()}


def _one_or_each(name: str, said: str | Sequence[str] | None) -> dict[str, Any]:
    """Return a name for all rows, or the names of each, as the service calls them."""
    if said is None or isinstance(said, str):
        return given(**{name: said})
    return {f"{name}s": list(said)}


def _incumbents(said: Any) -> dict[str, Any]:
    """Return the incumbent's action for all rows, one for each, or by columns."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        return {"incumbents": list(said)}
    n_columns = sum(_is_column(value) for value in said.values())
    if n_columns == 0:
        return {"incumbent": said}
    if n_columns < len(said):
        raise InvalidInput(
            "decide_batch: incumbent: expected a value by name, or a column by name; got both"
        )
    return {"incumbent_columns": _columns(said)}


def _is_column(value: Any) -> bool:
    try:
        iter(value)
    except TypeError:
        return False
    return not isinstance(value, str)


def _seen(one: Named) -> dict[str, Any]:
    missing = [name for name in _SEEN if name not in one]
    if missing:
        raise InvalidInput(f"decisions: expected {', '.join(_SEEN)}; missing {', '.join(missing)}")
    return {name: one[name] for name in _SEEN}
