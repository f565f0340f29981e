"""Which column of a log plays which part: as somebody says, or guessed by name and content."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.cells import statuses
from gdcb.history.columns import MOST_LEVELS, Column, Look
from gdcb.history.leakage import determines, follows

# Words that name a part, the likeliest first.
WORDS = {
    "recommended": ("recommended", "recommendation", "proposed", "proposal", "suggested"),
    "status": ("status", "verdict", "approval", "approved"),
    "time": ("time", "timestamp", "datetime", "date", "decided", "created", "ts", "when"),
    "propensity": ("propensity", "pscore", "probability", "prob"),
    "reviewer": ("reviewer", "approver", "manager", "moderator"),
    "unit": (
        *("unit", "listing", "store", "shop", "hotel", "tenant", "ward", "patient", "branch"),
        *("account", "customer", "product", "sku", "site"),
    ),
    "action": (
        *("executed", "action", "price", "rate", "apr", "dose", "discount", "bid", "offer"),
        *("treatment", "arm", "tool", "amount"),
    ),
    "outcome": (
        *("outcome", "booked", "success", "converted", "conversion", "clicked", "click", "repaid"),
        *("accepted", "purchased", "bought", "sold", "won", "recovered", "response", "y"),
    ),
    "reward": ("reward", "revenue", "profit", "payoff", "gain", "value"),
}
# A price among these words is not the one that was set.
_OTHER = {"base", "list", "reference", "market", "competitor", "old", "previous", "last", "cost"}
# What such a column holds was known only when all was over.
AFTERWARDS = {
    *("after", "result", "outcome", "final", "actual", "paid", "cancelled", "canceled"),
    *("cancellation", "refund", "refunded", "completed", "delivered", "revenue", "profit"),
    *("payout", "earned", "realised", "realized", "reward"),
}
_BEFORE = {"previous", "prior", "past", "last", "before", "earlier"}
_LATE = {"status", "end", "ended", "closed", "paid", "updated"}  # times of what came later
_ID = {"id", "uuid", "guid", "index"}
_PLAIN = {"is", "has", "was", "of", "the", "y"}  # words that say nothing of an outcome
_TELLS = 0.5  # share of an outcome from which a single column is no context
_EMPTY = 0.2  # share of empty cells from which a column is no context


@dataclass
class Roles:
    """The columns of a log by the part they play; '' where there is none.

    `guessed` says which of them nobody named, with what else might have been meant; `only`, which
    of these are not called like their part, but are the only column of its kind.
    """

    action: str = ""
    outcome: str = ""
    reward: str = ""
    recommended: str = ""
    status: str = ""
    time: str = ""
    unit: str = ""
    propensity: str = ""
    reviewer: str = ""
    guessed: dict[str, list[str]] = field(default_factory=dict)
    only: set[str] = field(default_factory=set)

    def why(self, role: str) -> str:
        """Say why a column was guessed to play a part."""
        return "the only column of times" if role in self.only else "guessed by its name"

    @property
    def taken(self) -> set[str]:
        """Columns that play a part."""
        return {getattr(self, role) for role in WORDS} - {""}


def roles_of(log: Look, asked: dict[str, str]) -> Roles:
    """Give every part a column: the one that was asked for, or the likeliest by its name.

    Refused: a column that is not there, and a log without an action or without an outcome.
    """
    found = Roles()
    for role, name in asked.items():
        if name and name not in log.columns:
            raise InvalidInput(
                f"--{role}: the log has no column '{name}'; it has {', '.join(log.columns)}"
            )
        setattr(found, role, name)
    for role in WORDS:
        if getattr(found, role) or (role == "reward" and asked.get("outcome")):
            continue
        rest = _candidates(role, log, found)
        if rest:
            setattr(found, role, rest[0])
            found.guessed[role] = rest[1:]
    if not found.time:
        _take_the_only_time(log, found)
    if not found.action:
        raise InvalidInput(
            "no column of the log looks like the executed action; say which one it is with "
            f"--action: {_listed(log, found)}"
        )
    if not found.outcome and not found.reward:
        raise InvalidInput(
            "no column of the log looks like an outcome; say which one it is with --outcome, or "
            f"--reward: {_listed(log, found)}"
        )
    return found


def _take_the_only_time(log: Look, found: Roles) -> None:
    """Let the only column of times play its part, unless it is called like what came later."""
    times = [
        column.name
        for column in log.columns.values()
        if column.kind == "time"
        and not column.is_constant
        and not set(tokens(column.name)) & (_LATE | AFTERWARDS)
    ]
    if len(times) == 1 and times[0] not in found.taken:
        found.time = times[0]
        found.guessed["time"] = []
        found.only.add("time")


def _listed(log: Look, found: Roles) -> str:
    return ", ".join(name for name in log.columns if name not in found.taken)


def tokens(name: str) -> list[str]:
    """Return the words of a column's name.

    >>> tokens("recommendedPrice"), tokens("base_price")
    (['recommended', 'price'], ['base', 'price'])
    """
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word for word in re.split(r"[^a-z0-9]+", apart.lower()) if word]


def _candidates(role: str, log: Look, found: Roles) -> list[str]:
    """Return the columns that may play a part, the likeliest first."""
    ranked = []
    for place, column in enumerate(log.columns.values()):
        if column.name in found.taken or column.is_constant or not _fits(role, column, log):
            continue
        words = tokens(column.name)
        if set(words) & {"action": _OTHER, "time": _LATE}.get(role, set()):
            continue
        named = [i for i, word in enumerate(WORDS[role]) if word in words]
        if role == "status" and not named:  # 'approved', 'edited': whatever it is called
            named = [len(WORDS[role])]
        if named:
            is_binary = role == "outcome" and column.is_binary
            ranked.append((not is_binary, len(words) > 1, named[0], place, column.name))
    return [name for *_, name in sorted(ranked)]


def _fits(role: str, column: Column, log: Look) -> bool:
    """Whether what a column holds can be what a part needs."""
    is_category = column.kind == "text" and 0 < len(column.levels) <= MOST_LEVELS
    if role in ("action", "recommended"):
        return column.kind == "number" or is_category or (role == "action" and column.is_binary)
    if role == "status":
        return is_category and _is_status(column)
    if role == "time":
        return column.kind == "time"
    if role == "propensity":
        return column.kind == "number" and column.low > 0 and column.high <= 1
    if role in ("unit", "reviewer"):
        return column.kind in ("text", "number") and column.n_different <= log.rows / 2
    return column.kind in ("flag", "number")


def _is_status(column: Column) -> bool:
    import polars as pl

    return not statuses(pl.Series(column.levels))[1]


def left_out(column: Column, roles: Roles, log: Look) -> str:
    """Return why a column is no context; '' where it is."""
    words = {word.rstrip("0123456789") for word in tokens(column.name)}
    if column.kind == "empty":
        return "it is empty"
    if column.kind == "time":
        return "it is a time; what matters of it (weekday, season) is a column of its own"
    if column.is_constant:
        return "it never varies"
    if column.missing > _EMPTY:
        return f"{100 * column.missing:.0f} % of it is empty"
    if column.kind == "text" and len(column.levels) == 0:
        return f"it has {column.n_different:,} different texts and more"
    if column.kind == "text" and len(column.levels) > MOST_LEVELS:
        return f"it has {len(column.levels)} different texts, and a category {MOST_LEVELS} at most"
    if column.looks == "date":
        return "it looks like dates in a form that is not read"
    if _is_id(column, words, log):
        return "it looks like an identifier"
    if words & AFTERWARDS and not words & _BEFORE:
        return "its name says that it was known only after the decision: a leak"
    if words & set(tokens(roles.outcome or roles.reward)) - _PLAIN and not words & _BEFORE:
        return "it is called like the outcome: a leak"
    outcome, action = _target(log, roles), log.columns[roles.action]
    both = np.isfinite(column.values) & np.isfinite(outcome)
    if determines(column.values[both], outcome[both]):
        return "it all but determines the outcome, as if it had been written after it: a leak"
    share = tells(column.values[both], outcome[both])
    if share > _TELLS:
        return (
            f"it tells {100 * share:.0f} % of the outcome all by itself, as what is written after "
            "it does: a leak"
        )
    gone = np.isnan(column.values).astype(float)
    known = np.isfinite(outcome)
    if gone.any() and determines(gone[known], outcome[known]):
        return "where it is empty tells the outcome: a leak"
    ran = np.isfinite(column.values) & np.isfinite(action.values)
    if follows(column.values[ran], action.values[ran]):
        return f"it is a function of the executed '{action.name}': it was written after it"
    return ""


def tells(column: Array, outcome: Array) -> float:
    """Return the share of a 0/1 outcome's deviance that a column explains in twenty bands.

    The outcome comes in a quarter of the rows: H(¼) = 0.562 nats. Where the column is 1 it comes in
    half of them, elsewhere never: ½·H(½) = 0.347 is left, and 1 − 0.347/0.562 = 0.38 explained.

    >>> column, outcome = np.tile([0.0, 0.0, 1.0, 1.0], 50), np.tile([0.0, 0.0, 0.0, 1.0], 50)
    >>> round(tells(column, outcome), 2)
    0.38
    """
    values = np.unique(outcome)
    if values.size != 2 or outcome.size < 50:
        return 0.0
    y = (outcome == values[1]).astype(float)
    edges = np.unique(np.quantile(column, np.linspace(0, 1, 21)[1:-1]))
    band = np.searchsorted(edges, column, side="left")
    n, wins = np.bincount(band), np.bincount(band, y)
    rate = wins[n > 0] / n[n > 0]
    left = float((n[n > 0] * _entropy(rate)).sum()) / y.size
    return float(1.0 - left / _entropy(np.array([y.mean()]))[0])


def _entropy(p: Array) -> Array:
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return np.asarray(-p * np.log(p) - (1.0 - p) * np.log1p(-p))


def _target(log: Look, roles: Roles) -> Array:
    return log.columns[roles.outcome or roles.reward].values


def _is_id(column: Column, words: set[str], log: Look) -> bool:
    """Whether a column names rows: it is called so, or whole numbers hardly ever come twice."""
    n = min(log.rows, column.values.size)
    if column.kind == "text":
        return bool(words & _ID) and column.n_different > 2
    if column.kind != "number":
        return False
    known = column.values[np.isfinite(column.values)]
    is_whole = bool((known == np.floor(known)).all())
    return is_whole and (bool(words & _ID) or (n >= 100 and column.n_different > 0.95 * n))
