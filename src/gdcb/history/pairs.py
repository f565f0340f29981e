"""Columns that the action or the outcome makes up with another one: ratios, totals, payments."""

from __future__ import annotations

import numpy as np

from gdcb.history.columns import MOST_LEVELS, Column, Look
from gdcb.history.leakage import (
    PAIRED,
    is_nearly_ratio,
    makes_up,
    makes_up_alone,
    rises_within,
)
from gdcb.history.roles import EMPTY, FIRST_KNOWN, Roles, is_row_number, tokens

# Words of a ratio, whatever else its name says.
_RATIOS = {"vs", "versus", "ratio", "factor", "multiple", "multiplier", "relative", "rel", "index"}
_RATIOS |= {"pct", "percent", "percentage", "share", "uplift", "markup", "premium", "quote"}
_OTHER_SIZE = 0.7  # |log| of a median: of two columns, this much farther from the action's size


def made_of_pairs(log: Look, roles: Roles, context: list[Column]) -> dict[str, str]:
    """Return why columns are left out that the action or the outcome makes up with another one.

    The ratio of a price to its base is such a column, and so is a total. Where column, other column
    and action determine each other, the numbers do not say which of the two came first: a name may
    ('base', 'list', 'previous'), else both are left out.
    """
    known = [one for one in log.columns.values() if not one.is_constant and one.missing <= EMPTY]
    numbers = {one.name: one for one in known if one.kind == "number" and not is_row_number(one)}
    kinds = [one for one in known if 2 <= one.n_different <= MOST_LEVELS and one.kind != "time"]
    size = max((one.values.size for one in known), default=0)
    some = slice(None, None, max(1, -(-size // PAIRED)))
    target = roles.outcome or roles.reward
    sources = [name for name in dict.fromkeys((roles.action, target)) if name in numbers]
    open_names = {one.name for one in context}
    found: dict[str, str] = {}
    action = numbers.get(roles.action)
    for column in context:
        if action is not None and column.kind == "number":
            bases = [one for one in numbers.values() if one not in (column, action)]
            bases = [one for one in bases if one.name != target and one.name not in found]
            ratio_to = next((one for one in bases if _is_ratio(column, action, one, some)), None)
            if ratio_to is not None:
                found[column.name] = (
                    f"it is made of '{action.name}' and '{ratio_to.name}', as if it had been "
                    "written after the decision: a leak"
                )
                continue
        if column.kind == "text" or {*tokens(column.name)} & FIRST_KNOWN:
            continue
        x = column.values[some]
        for source in sources:
            y = numbers[source].values[some]
            others = [one for one in numbers.values() if one.name not in (column.name, source)]
            others = [one for one in others if one.name not in found and column.kind == "number"]
            made = next((one for one in others if makes_up(x, y, one.values[some])), None)
            if made is not None and makes_up_alone(x, y):
                found[column.name] = (
                    f"it is nearly a function of '{source}', as if it had been written after the "
                    "decision: a leak"
                )
                break
            if (
                made is not None
                and made.name in open_names
                and not ({*tokens(made.name)} & FIRST_KNOWN)
            ):
                found[made.name] = (
                    f"it, '{column.name}' and '{source}' determine each other, and which of them "
                    "came after the decision cannot be told: perhaps a leak"
                )
            if made is None:
                rest = [one for one in kinds if one.name not in (column.name, source, target)]
                made = next((one for one in rest if rises_within(x, y, one.values[some])), None)
            if made is not None:
                found[column.name] = (
                    f"it is made of '{source}' and '{made.name}', as if it had been written after "
                    "the decision: a leak"
                )
                break
    return found


def _is_ratio(column: Column, action: Column, base: Column, some: slice) -> bool:
    """Whether a column is nearly action/base, and not the base that the ratio belongs to.

    Where column · base = action, either may be the ratio. The base is of the action's size, or is
    called so; a name such as 'price_vs_market' is that of a ratio.
    """
    parts = (one.values[some] for one in (column, action, base))
    if not is_nearly_ratio(*parts):
        return False
    is_called, other = ({*tokens(one.name)} & _RATIOS for one in (column, base))
    if is_called or other:
        return bool(is_called) and not other
    off = [
        abs(np.log(np.nanmedian(action.values) / np.nanmedian(one.values)))
        for one in (column, base)
    ]
    return bool(off[0] > off[1] + _OTHER_SIZE)
