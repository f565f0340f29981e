"""Which column of a log plays which part: as somebody says, or guessed by name and content."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.cells import status_words, statuses
from gdcb.history.column_names import (
    AFTERWARDS,
    BASES,
    BEFORE,
    ID,
    NUMBERED,
    OTHER,
    OTHER_TIMES,
    PLAIN,
    RESERVED,
    WORDS,
    names_answerer,
    part_named,
    tokens,
    words_of,
)
from gdcb.history.columns import MOST_LEVELS, Column, Look
from gdcb.history.leakage import PAIRED
from gdcb.history.relations import (
    GROUPS,
    POINTED,
    TELLS,
    adds_up,
    determines,
    follows,
    implies,
    renames,
    rises_with,
    stands_for,
    tells,
)

_UNNAMED = re.compile(r"\s*|unnamed[:_ ]*[\d._ ]*(level[\d_ ]*)?|index|level_\d+|row_?names?|_row")
_WITHIN = 0.5  # share of a proposal's cells, at least, that lie within what ran
_EARLY = 0.05  # of the rows, at most, in which an outcome may come before its decision
_SAME_AS_RAN = 0.01  # share of rows below which a proposal that ran is pointed at
_KINDS = 4  # columns, at most, within whose values a running total is looked for
EMPTY = 0.2  # share of empty cells from which a column is no context


@dataclass
class Roles:
    """The columns of a log by the part they play; '' where there is none.

    `guessed` says which of them nobody named, with what else might have been meant; `only`, which
    of these are not called like their part, but are the only column of its kind; `said`, what
    somebody should look at, a sentence each.
    """

    action: str = ""
    outcome: str = ""
    reward: str = ""
    recommended: str = ""
    status: str = ""
    time: str = ""
    outcome_time: str = ""
    unit: str = ""
    propensity: str = ""
    reviewer: str = ""
    guessed: dict[str, list[str]] = field(default_factory=dict)
    only: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

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
    _refuse_doubled(asked)
    for role, name in asked.items():
        if name and name not in log.columns:
            raise InvalidInput(
                f"{option(role)}: the log has no column '{name}'; it has "
                + ", ".join(map(called, log.columns))
            )
        setattr(found, role, name)
        if name:
            _refuse_unfit(role, log.columns[name])
    for role in WORDS:
        if getattr(found, role) or (role == "reward" and asked.get("outcome")):
            continue
        rest = _candidates(role, log, found)
        if rest:
            setattr(found, role, rest[0])
            found.guessed[role] = rest[1:]
    _check_times(log, found, bool(asked.get("outcome_time")))
    _check_scale(log, found, bool(asked.get("recommended")))
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


def _refuse_doubled(asked: dict[str, str]) -> None:
    """Refuse one column in two parts; an outcome may be its own reward."""
    seen: dict[str, str] = {}
    for role, name in asked.items():
        other = seen.setdefault(name, role)
        if name and other != role and {other, role} != {"outcome", "reward"}:
            raise InvalidInput(
                f"{option(other)} and {option(role)} both name '{name}': "
                "a column plays one part only"
            )


def _check_scale(log: Look, found: Roles, is_asked: bool) -> None:
    """Take back a proposal that is not on the action's own scale; where it was asked for, refuse.

    A price of 95 was not proposed where multiples of about 0.9 ran. Said, but taken: a column
    within the range of what ran that hardly ever is what ran.
    """
    while found.recommended and found.action:
        column, action = log.columns[found.recommended], log.columns[found.action]
        within, same = _on_scale(column, action)
        if within >= _WITHIN:
            if same < _SAME_AS_RAN:
                found.said.append(
                    f"{column.name} is what ran in {100 * same:.0f} % of the rows: look "
                    f"whether it is the proposal for {action.name}, on the same scale"
                )
            return
        what = (
            f"{column.name} is not on the scale of the action {action.name}: "
            f"{100 * within:.0f} % of its cells lie within what ran"
        )
        if is_asked:
            raise InvalidInput(f"--recommended: {what}")
        found.said.append(f"{what}, so that it is not taken for the proposal")
        rest = found.guessed.pop("recommended", [])
        found.recommended = rest[0] if rest else ""
        if rest:
            found.guessed["recommended"] = rest[1:]


def _on_scale(column: Column, action: Column) -> tuple[float, float]:
    """Return how often a proposal lies within the range of what ran, and how often it ran."""
    x, e = column.values, action.values
    known = np.isfinite(x) & np.isfinite(e)
    if not known.any():
        return 1.0, 1.0
    if column.kind == "number" and action.kind != "text":
        slack = 0.05 * np.ptp(e[known])
        within = (x >= e[known].min() - slack) & (x <= e[known].max() + slack)
        same = np.isclose(x, e, rtol=1e-6)
    elif column.kind == action.kind:
        words, ran = np.array(column.levels), np.array(action.levels)
        word = words[x[known].astype(np.int64)]
        return float(np.isin(word, ran).mean()), float(
            (word == ran[e[known].astype(np.int64)]).mean()
        )
    else:
        return 0.0, 0.0
    return float(within[known].mean()), float(same[known].mean())


def _refuse_unfit(role: str, column: Column) -> None:
    """Refuse a status whose words are not known, and a propensity that is no probability."""
    if role == "status" and (unknown := status_words(column.levels)[1]):
        raise InvalidInput(f"--status: {column.name}: {_unknown_words(unknown)}")
    if role == "outcome_time" and column.kind != "time":
        raise InvalidInput(f"--outcome-time: {column.name} holds {column.kind}, not times")
    if role == "propensity" and (why := no_probability(column)):
        raise InvalidInput(f"--propensity: {why}")


def no_probability(column: Column) -> str:
    """Say that a column called like a propensity is no probability; '' where it may be one."""
    if column.kind != "number" or (column.low > 0 and column.high <= 1):
        return ""
    seen = f"{column.low:g} to {column.high:g}" if column.high > column.low else f"{column.low:g}"
    hint = "; if these are percent, divide them by 100" if column.high > 1 else ""
    return f"{column.name}: expected probabilities above 0 and at most 1, got {seen}{hint}"


def _unknown_words(unknown: list[str]) -> str:
    some = ", ".join(f"'{word}'" for word in unknown[:3]) + (" …" if len(unknown) > 3 else "")
    return (
        f"its words are not known ({some}); write them as passed, modified, vetoed, held or "
        "expired, and name the column with --status"
    )


def _check_times(log: Look, found: Roles, is_asked: bool) -> None:
    """Take the only other time for the decision's, and check the outcome's time against it.

    A time that is called like what came later is never the decision's. Which of several that are
    not called like it is the decision's cannot be told: it is said, and none is taken.
    """
    if not found.time:
        times = [
            column.name
            for column in log.columns.values()
            if column.kind == "time"
            and not column.is_constant
            and column.name not in found.taken
            and not _is_other_time(tokens(column.name))
        ]
        if len(times) == 1:
            found.time = times[0]
            found.guessed["time"] = []
            found.only.add("time")
        elif times:
            found.said.append(
                f"which of {', '.join(times)} is the time of the decision cannot be told: none is "
                "taken; name it with --time"
            )
    if not found.outcome_time:
        return
    why = ""
    if not found.time:
        why = "and no column is that of the decision"
    elif not is_asked:
        first, later = (log.columns[one].values for one in (found.time, found.outcome_time))
        known = np.isfinite(first) & np.isfinite(later)
        early = float((later[known] < first[known]).mean()) if known.any() else 0.0
        if early > _EARLY:
            why = f"but lies before {found.time} in {100 * early:.0f} % of the rows"
    if why:
        found.said.append(
            f"{found.outcome_time} is called like the time of the outcome, {why}: it is left out; "
            "say which is which with --time and --outcome-time"
        )
        found.outcome_time = ""
        found.guessed.pop("outcome_time", None)


def _is_other_time(words: list[str]) -> bool:
    """Whether a time is called like something else than the time of the decision."""
    return bool({*words} & (OTHER_TIMES | AFTERWARDS | BEFORE | {*WORDS["outcome_time"]}))


def _listed(log: Look, found: Roles) -> str:
    return ", ".join(called(name) for name in log.columns if name not in found.taken)


def option(role: str) -> str:
    """Return the option of `gdcb new` that names the column of a part."""
    return "--" + role.replace("_", "-")


def called(name: str) -> str:
    """Return a column's name as it is said: one without a name is said to have none."""
    return name if name.strip() else "(a column without a name)"


def _candidates(role: str, log: Look, found: Roles) -> list[str]:
    """Return the columns that may play a part, the likeliest first."""
    ranked = []
    for place, column in enumerate(log.columns.values()):
        words = tokens(column.name)
        is_idle = column.is_constant and not _is_even(role, column)
        if column.name in found.taken or is_idle or not _fits(role, column, log):
            continue
        if set(words) & {"action": OTHER, "outcome_time": BEFORE}.get(role, set()):
            continue
        if role == "time" and _is_other_time(words):
            continue
        named = [i for i, word in enumerate(WORDS[role]) if word in words]
        if role == "reward" and len(words) > 1:  # 'property_value' is no reward
            named = [i for i in named if WORDS[role][i] not in ("value", "gain")]
        if role == "reviewer" and not named and names_answerer(words_of(column.name)):
            named = [len(WORDS[role])]
        if role == "status" and not named:  # 'approved', 'edited': whatever it is called
            named = [len(WORDS[role])]
        if role == "time" and words == ["at"]:
            named = [len(WORDS[role])]
        if named:
            is_binary = role == "outcome" and column.is_binary
            # 'decided_at' is as good a name as 'time'; 'sign_up_date' is not.
            is_plain = len(words) == 1 or (role == "time" and part_named(words_of(column.name)))
            ranked.append((not is_binary, not is_plain, named[0], place, column.name))
    return [name for *_, name in sorted(ranked)]


def _is_even(role: str, column: Column) -> bool:
    """Whether a column is the one probability of an even test, which never varies."""
    is_named = _reserved(column, words_of(column.name)) == "the probability of the action"
    return role == "propensity" and column.n_different == 1 and is_named


def _fits(role: str, column: Column, log: Look) -> bool:
    """Whether what a column holds can be what a part needs."""
    is_category = column.kind == "text" and 0 < len(column.levels) <= MOST_LEVELS
    if role in ("action", "recommended"):
        return column.kind == "number" or is_category or (role == "action" and column.is_binary)
    if role == "status":
        return is_category and _is_status(column)
    if role in ("time", "outcome_time"):
        return column.kind == "time"
    if role == "propensity":
        return column.kind == "number" and column.low > 0 and column.high <= 1
    if role in ("unit", "reviewer"):
        return _names_others(role, column) and column.n_different <= log.rows / 2
    return column.kind in ("flag", "number") and not _is_id(column, {*tokens(column.name)}, log)


def _names_others(role: str, column: Column) -> bool:
    """Whether a column may name units or people: texts, or whole numbers that are called so.

    'store', 'store_id' and 'hotel' may; 'listing_price', 'customer_age' and 'product_type' tell
    something of a unit.
    """
    words = {word.rstrip("0123456789") for word in tokens(column.name)} - {""}
    is_answerer = role == "reviewer" and names_answerer(words_of(column.name))
    if not words & NUMBERED and words - {*WORDS[role]} and not is_answerer:
        return False
    if column.kind != "number":
        return column.kind == "text"
    known = column.values[np.isfinite(column.values)]
    return bool((known == np.floor(known)).all())


def _is_status(column: Column) -> bool:
    import polars as pl

    return not statuses(pl.Series(column.levels))[1]


def one_sided(column: Column) -> str:
    """Say that a column called like an outcome is the same in every row; '' where it is not so."""
    known = column.values[np.isfinite(column.values)]
    is_called = {*tokens(column.name)} & {*WORDS["outcome"], *RESERVED["an outcome"]}
    if not (is_called and column.is_constant and known.size) or column.kind == "time":
        return ""
    value = column.levels[0] if column.kind == "text" else f"{known[0]:g}"
    other = "successes" if value == "0" else "failures"
    return (
        f"{column.name} is {value} in every row: {other} seem not to be in the log, so that it "
        "cannot show what an action changes"
    )


def left_out(column: Column, roles: Roles, log: Look) -> tuple[str, bool]:
    """Return why a column is no context, '' where it is; and whether it might be one after all."""
    why = _cannot(column) or _numbers_rows(column, log)
    if why:
        return why, False
    return _doubt(column, roles, log), True


def _cannot(column: Column) -> str:
    """Return why a column cannot be context, whatever it means."""
    if column.kind == "empty":
        return "it is empty"
    if column.kind == "time":
        return "it is a time; what matters of it (weekday, season) is a column of its own"
    if column.is_constant:
        return "it never varies"
    if column.missing > EMPTY:
        return f"{100 * column.missing:.0f} % of it is empty"
    if column.looks == "infinite":
        return f'it holds numbers of which some are infinite, such as "{column.example}"'
    if column.kind == "text" and len(column.levels) == 0:
        return f"it has {column.n_different:,} different texts and more"
    if column.kind == "text" and len(column.levels) > MOST_LEVELS:
        return f"it has {len(column.levels)} different texts, and a category {MOST_LEVELS} at most"
    if column.looks == "date":
        return "it looks like dates in a form that is not read"
    return ""


def is_row_number(column: Column) -> bool:
    """Return whether a column is called like row numbers, or counts them."""
    return bool(_UNNAMED.fullmatch(column.name.lower())) or _counts_rows(column)


def _numbers_rows(column: Column, log: Look) -> str:
    """Return why a column names rows and says nothing else of them."""
    if not column.name.strip():
        return "it is like the row numbers that pandas and R write"
    if _UNNAMED.fullmatch(column.name.lower()):
        return "it is called like the row numbers that pandas and R write"
    if _is_id(column, {*tokens(column.name)}, log):
        return "it looks like an identifier"
    return ""


def _doubt(column: Column, roles: Roles, log: Look) -> str:
    """Return why a column that could be context had better not be."""
    words = words_of(column.name)
    if _counts_rows(column):
        return "it rises from row to row, as row numbers and times do"
    target = log.columns[roles.outcome or roles.reward]
    if _is_total(column, target, roles, log):
        return "it is a running total of the outcome: a leak where this row's own is in it"
    if words & words_of(target.name) - PLAIN and not words & BEFORE:
        return "it is called like the outcome: a leak"
    known, unknown = status_words(column.levels if column.kind == "text" else ())
    is_answer = _reserved(column, words) == "what became of a proposal"
    if unknown and (known or is_answer) and not words & BEFORE:
        return f"it seems to say what became of a proposal, and {_unknown_words(unknown)}"
    part = _reserved(column, words)
    if part and not words & BEFORE:
        return f"its name is that of {part}: a leak if it was known only after the decision"
    if words & AFTERWARDS and not words & BEFORE:
        return "its name says that it was known only after the decision: a leak"
    return _leaks(column, target, log.columns[roles.action])


def _reserved(column: Column, words: set[str]) -> str:
    """Return the part of a log, other than context, that a column seems to be; '' where none."""
    part = part_named(words)
    if not part and column.kind == "text" and _is_status(column):
        return "what became of a proposal"
    return part


def _is_total(column: Column, target: Column, roles: Roles, log: Look) -> bool:
    """Whether a column is a running total of the outcome: in the log's order, or in time's.

    Over all rows, or within the units, or within the values of another column of texts.
    """
    if column.kind != "number" or column.n_different < 20 or log.rows > column.values.size:
        return False  # of a thinned log the rows between are not known
    orders = [np.arange(column.values.size)]
    if roles.time:
        orders.append(np.argsort(log.columns[roles.time].values, kind="stable"))
    groups = [one for one in log.columns.values() if one.kind == "text" and one.levels]
    groups += [log.columns[roles.unit]] if roles.unit else []
    kinds = [np.zeros(column.values.size), *(one.values for one in groups[-_KINDS:])]
    for order in orders:
        for kind in kinds:
            place = order[np.argsort(kind[order], kind="stable")]
            if adds_up(column.values[place], target.values[place], kind[place]):
                return True
    return False


def pointed(column: Column, roles: Roles, log: Look) -> str:
    """Say that a context column predicts the outcome well; '' where it does not."""
    y = log.columns[roles.outcome or roles.reward].values
    split = targets(y)
    if {*tokens(column.name)} & {*BASES} and np.unique(y[np.isfinite(y)]).size > 2:
        split = split[1:]
    shares = [0.0]
    for one in split:
        known = np.isfinite(column.values) & np.isfinite(one)
        shares.append(tells(column.values[known], one[known]))
    if max(shares) <= POINTED:
        return ""
    told = f"it tells {100 * max(shares):.0f} % of the outcome"
    return f"{told}: is it known when the decision is taken?"


def targets(y: Array) -> list[Array]:
    """Return an outcome, and whether anything came of it: revenue is 0 where nothing was sold."""
    values, counts = np.unique(y[np.isfinite(y)], return_counts=True)
    if values.size <= 2 or not 0.05 <= counts.max() / counts.sum() <= 0.95:
        return [y]
    return [y, np.where(np.isfinite(y), 1.0 * (y != values[counts.argmax()]), np.nan)]


def _leaks(column: Column, target: Column, action: Column) -> str:
    """Return what the cells of a column give away; '' where nothing."""
    x, y, ran = column.values, target.values, action.values
    known = np.isfinite(x) & np.isfinite(y)
    split = targets(y)
    gone = np.isnan(x).astype(float)
    for one in split:
        if determines(x[known], one[known]) or rises_with(x[known], one[known]):
            return "it all but determines the outcome, as if it had been written after it: a leak"
        if implies(x[known], one[known]):
            return (
                "whenever it differs from its usual value, the outcome is the same, as if it had "
                "been written after it: a leak"
            )
        seen = np.isfinite(one)
        if gone.any() and determines(gone[seen], one[seen]):
            return "where it is empty tells the outcome: a leak"
    if {*tokens(column.name)} & {*BASES} and np.unique(y[np.isfinite(y)]).size > 2:
        split = split[1:]  # what a price is a multiple of tells much of what was earned
    share = max((tells(x[known], one[known]) for one in split), default=0.0)
    if share > TELLS:
        return (
            f"it tells {100 * share:.0f} % of the outcome all by itself, suspiciously much, as "
            "what is written after it does: a leak"
        )
    both = np.isfinite(x) & np.isfinite(ran)
    if follows(x[both], ran[both]) or (
        column.kind != "text" and action.kind == "number" and rises_with(x[both], ran[both])
    ):
        if _is_base(column, action) or may_set(column, action):
            return ""
        return (
            f"it is a function of the executed '{action.name}', as if it had been written after it"
        )
    return ""


def may_set(column: Column, action: Column) -> bool:
    """Whether actions may have been set by a column of few values that they tell.

    A curve in them tells it, but it is no other name of them and no band: a grade, say, each of
    whose rates lies about one of its own.
    """
    if action.kind != "number" or column.n_different > GROUPS:
        return False
    x, ran = column.values, action.values
    some = slice(None, None, max(1, -(-x.size // PAIRED)))
    return stands_for(x[some], ran[some], is_kind=True, is_near=True) and not renames(x, ran)


def _is_base(column: Column, action: Column) -> bool:
    """Whether a column is called a base and the action is one of few multiples of it.

    With few bases and few multiples most prices belong to one base only, by coincidence.
    """
    if not {*tokens(column.name)} & {*BASES}:
        return False
    if any(one.kind != "number" or not one.low > 0 for one in (column, action)):
        return False
    known = np.isfinite(column.values) & np.isfinite(action.values)
    ratios = np.unique((action.values[known] / column.values[known]).round(6))
    return 2 <= ratios.size <= MOST_LEVELS


def _is_id(column: Column, words: set[str], log: Look) -> bool:
    """Whether a column names rows: it is called so, or whole numbers hardly ever come twice."""
    n = min(log.rows, column.values.size)
    if column.kind == "text":
        return bool(words & ID) and column.n_different > 2
    if column.kind != "number":
        return False
    known = column.values[np.isfinite(column.values)]
    is_whole = bool((known == np.floor(known)).all())
    return is_whole and (bool(words & ID) or (n >= 100 and column.n_different > 0.95 * n))


def _counts_rows(column: Column) -> bool:
    """Whether numbers rise, or fall, from row to row and hardly ever come twice."""
    if column.kind != "number" or column.values.size < 100:
        return False
    steps = np.diff(column.values[np.isfinite(column.values)])
    return bool((steps > 0).mean() > 0.95 or (steps < 0).mean() > 0.95)
