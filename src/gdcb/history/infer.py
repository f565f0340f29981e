"""An instance proposed from a log: what its columns are, what is relative to what, what pays."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.declaration import HIDDEN
from gdcb.errors import InvalidInput
from gdcb.history.column_names import BASES, tokens
from gdcb.history.columns import MOST_LEVELS, Column, Look, hint
from gdcb.history.pairs import Moved, asked_of_pairs, made_of_pairs, told_jointly
from gdcb.history.roles import (
    Roles,
    called,
    left_out,
    no_probability,
    one_sided,
    pointed,
)

_LESS = 0.95  # of the action's spread, at most, that must be left when a base is divided out
_SAME = 0.01  # relative range of arms below which they are all the same
_PAYS = ("price", "rate", "apr", "fee", "fare", "amount")


@dataclass
class Proposal:
    """What is proposed for a log.

    Parameters
    ----------
    log, roles : the log at first sight, and which column is what
    context : columns of the context by their name there
    without, doubtful : why the others are not in it, and which of them might be after all
    base : context columns that the action is relative to
    is_choice, values : whether actions are categories; relative actions (n,), or their codes
    is_class, pays : whether outcomes are classes; and whether a success pays the action
    pointed : what is asked of context columns that predict the outcome, or the action, well
    """

    log: Look
    roles: Roles
    context: dict[str, Column]
    without: dict[str, str]
    doubtful: list[str] = field(default_factory=list)
    base: tuple[str, ...] = ()
    is_choice: bool = False
    values: Array = field(default_factory=lambda: np.empty(0))
    is_class: bool = False
    pays: bool = False
    pointed: dict[str, str] = field(default_factory=dict)

    @property
    def action(self) -> Column:
        """The executed action's column."""
        return self.log.columns[self.roles.action]

    @property
    def notices(self) -> list[str]:
        """What somebody should know of the log's cells, a sentence each."""
        roles, rows = self.roles, self.log.rows
        numbers = {roles.action, roles.recommended, roles.outcome, roles.reward, roles.propensity}
        numbers |= {column.name for column in self.context.values()}
        said = list(roles.said)
        for name, column in self.log.columns.items():
            if column.n_odd and name in numbers:
                known = rows - round(column.missing * rows)
                row, text = column.odd
                said.append(
                    f"{name}: {known - column.n_odd:,} of {known:,} cells are numbers; "
                    f"{column.n_odd:,} {'is' if column.n_odd == 1 else 'are'} not, such as row "
                    f'{row:,}: "{text}"; they will be rejected'
                )
        said += [
            f"the column {column.name!a} has an invisible sign in its name: here it is called "
            f"'{name}', and [history] says so; better rename the column"
            for column, name in (
                (self.action, self.shown_action),
                (self.target, self.shown_target),
            )
            if name != column.name
        ]
        said += [one for column in self.log.columns.values() if (one := one_sided(column))]
        said += [
            f"{why}; name it with --propensity then"
            for name, column in self.log.columns.items()
            if {*tokens(name)} & {"propensity", "pscore"} and (why := no_probability(column))
        ]
        return said + [said_of for column in self.log.columns.values() if (said_of := hint(column))]

    @property
    def target(self) -> Column:
        """The column that is learned."""
        role = self.roles.outcome if self.is_class or self.roles.outcome else self.roles.reward
        return self.log.columns[role]

    @property
    def shown_action(self) -> str:
        """The action's name as it is shown; [history] has its column."""
        return HIDDEN.sub("", self.action.name) or "action"

    @property
    def shown_target(self) -> str:
        """The same of what is learned."""
        return HIDDEN.sub("", self.target.name) or "outcome"


def propose(log: Look, roles: Roles) -> Proposal:
    """Sort the columns of a log, and find out how its action and its outcome are made."""
    action = log.columns[roles.action]
    if action.is_constant:
        raise InvalidInput(f"the action never varies: '{action.name}' has one value in the log")
    if action.looks:
        raise InvalidInput(f"the action '{action.name}' is no number: {hint(action)}")
    if action.kind == "text" and not 0 < len(action.levels) <= MOST_LEVELS:
        raise InvalidInput(
            f"the action '{action.name}' has {action.n_different:,} different texts; expected "
            f"numbers, or at most {MOST_LEVELS} categories"
        )
    level = next((one for one in action.levels if HIDDEN.search(one)), None)
    if action.kind == "text" and level is not None:
        raise InvalidInput(
            f"the action {action.name!a} has the category {level!a}, with an invisible sign that "
            "no arm's name may have; rename it in the log"
        )
    chosen = log.columns[roles.outcome or roles.reward]
    if chosen.kind not in ("flag", "number") or chosen.is_constant:
        what = "has one value" if chosen.is_constant else f"holds {chosen.kind}, not numbers"
        what = one_sided(chosen).removeprefix(f"{chosen.name} ") or f"{what} in the log"
        raise InvalidInput(f"the outcome '{chosen.name}' {what}")
    others, doubtful = {}, []
    for name, column in log.columns.items():
        if name not in roles.taken:
            others[name], is_doubtful = left_out(column, roles, log)
            doubtful += [name] if others[name] and is_doubtful else []
    kept = [log.columns[name] for name, why in others.items() if not why]
    moved = Moved(action)
    pairs = made_of_pairs(log, roles, kept, moved)
    pairs |= told_jointly(log, roles, [one for one in kept if one.name not in pairs])
    others |= pairs
    without = {name: why for name, why in others.items() if why}
    context = {_clean(name): log.columns[name] for name, why in others.items() if not why}
    if not context:
        raise InvalidInput("no column of the log can be context; all others: " + _reasons(without))
    found = Proposal(log, roles, context, without, [*doubtful, *pairs])
    beside = asked_of_pairs(log, roles, list(context.values()), moved)
    for name, column in context.items():
        asked = (pointed(column, roles, log), beside.get(column.name, ""))
        if any(asked):
            found.pointed[name] = " ".join(one for one in asked if one)
    _outcome(found)
    found.is_choice = action.kind != "number"
    found.values = action.values
    if not found.is_choice:
        found.base, found.values = _base(found)
    return found


def _outcome(found: Proposal) -> None:
    """Find out whether outcomes are classes that pay something known; else rewards are learned."""
    log, roles = found.log, found.roles
    # A log may have a column without a name, which '' must not find.
    outcome = log.columns[roles.outcome] if roles.outcome else None
    reward = log.columns[roles.reward] if roles.reward else None
    action = log.columns[roles.action]
    found.is_class = outcome is not None and outcome.is_binary
    if not found.is_class or outcome is None:
        return
    is_number = action.kind == "number"
    found.pays = is_number and bool(set(tokens(action.name)) & {*_PAYS})
    if reward is None:
        return
    known = np.isfinite(reward.values) & np.isfinite(outcome.values) & np.isfinite(action.values)
    paid = outcome.values[known] * (action.values[known] if is_number else 1.0)
    if is_number and np.allclose(reward.values[known], paid, rtol=0.01, atol=0.01):
        found.pays = True
    elif np.allclose(reward.values[known], outcome.values[known], atol=1e-6):
        found.pays = False
    else:  # what a class pays is not known: the reward itself is learned
        found.is_class, found.pays = False, False
        found.without[outcome.name] = "it is the outcome, and the reward is learned instead"
        roles.outcome = ""


def _base(found: Proposal) -> tuple[tuple[str, ...], Array]:
    """Return the columns that an action is a multiple of, and the action relative to them."""
    values = found.action.values
    if found.action.low <= 0:
        return (), values
    bases: tuple[str, ...] = ()
    for word in BASES:
        for name, column in found.context.items():
            if word not in tokens(name) or column.kind != "number" or column.low <= 0:
                continue
            if name in bases:
                continue
            relative = values / column.values
            if bases and _range(relative) < _SAME:
                continue  # nothing is left to choose: it is the ratio to the base found before
            if _spread(relative) < _LESS * _spread(values):
                bases, values = (*bases, name), relative
    return bases, values


def _range(values: Array) -> float:
    """Return the range of the middle 90 % of values, relative to their median."""
    known = values[np.isfinite(values) & (values > 0)]
    low, middle, high = np.quantile(known, (0.05, 0.5, 0.95))
    return float((high - low) / middle)


def _spread(values: Array) -> float:
    known = values[np.isfinite(values) & (values > 0)]
    return float(np.log(known).std())


def _clean(name: str) -> str:
    """Return a name that no part takes for something else."""
    return re.sub(r"[=*]", "_", name) or "column"


def _reasons(without: dict[str, str]) -> str:
    return "; ".join(f"{called(name)}: {why}" for name, why in without.items())
