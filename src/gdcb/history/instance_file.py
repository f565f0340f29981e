"""A proposal as a TOML file: valid as it stands, its choices marked."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.declaration import HIDDEN
from gdcb.history.columns import Column
from gdcb.history.infer import Proposal
from gdcb.history.relations import rounding
from gdcb.history.roles import Roles, called

MOST_ARMS = 12  # different numbers up to which each is an arm
_QUANTILES = (0.05, 0.275, 0.5, 0.725, 0.95)
_BY_QUANTILES = "quantiles of what ran (5 to 95 %)"
_FEW_RAN = 0.01  # share of rows beyond the outermost arms from which it is said
_MOST_FEATURES = 12  # columns that a scaler reads


def toml(name: str, found: Proposal) -> str:
    """Write the proposal as a file that `gdcb validate` takes as it stands."""
    log, roles, gates = found.log, found.roles, _gates(found)
    parts = [
        f"# Proposed from {log.name}: {log.rows:,} rows, {len(log.columns)} columns.",
        "# Lines that say CHOOSE are guesses of a program that does not know your business.",
        f"name = {_text(name)}",
        f"title = {_text(name)}  # CHOOSE: a title for people",
        *_said(roles),
        *(f"# NOTE: {_comment(sentence)}." for sentence in found.notices),
        *_opening(found, gates),
        *_context(found),
        *_arms(found),
        *_scaler(found),
        *_composition(found),
        *gates,
        *_reward(found),
        *_bandit(found),
        *_history(found),
    ]
    return "\n".join(parts) + "\n"


def _said(roles: Roles) -> list[str]:
    """Say which parts were guessed, and what else might have been meant."""
    lines = []
    for role, others in roles.guessed.items():
        column = getattr(roles, role)
        if not column:
            continue
        also = f"; it might also be {', '.join(others)}" if others else ""
        lines.append(f"# CHOOSE: {role} = {_comment(column)}, {roles.why(role)}{also}.")
    return ["", *lines] if lines else []


def _context(found: Proposal) -> list[str]:
    lines = ["", "[context]"]
    pointed = found.pointed
    for name, column in found.context.items():
        if name in pointed:
            lines.append(f"# CHOOSE: {_comment(name)}: {pointed[name]}")
        empty = ""
        if column.missing > 0:
            gone = round(column.missing * found.log.rows)
            empty = f"  # {gone:,} of its cells are empty: such rows are rejected"
        lines.append(f"{_declared(name, column)}{empty}")
    plain = [name for name in found.without if name not in found.doubtful]
    if plain:
        lines.append("# Left out:")
        lines += [f"# - {_comment(called(name))}: {found.without[name]}" for name in plain]
    if found.doubtful:
        lines += [
            "# CHOOSE: left out in doubt. What was known before the decision comes back by taking",
            "# the '#' off the line under its name; what was written after it must stay out. What",
            "# the action was set by must come back, or its effect is taken for the action's.",
        ]
    for name in found.doubtful:
        lines.append(f"# - {_comment(called(name))}: {found.without[name]}")
        if re.fullmatch(r"[^=*\x00-\x1f\x7f]+", name):
            lines.append(f"# {_declared(name, found.log.columns[name])}")
    lines.append(
        "# CHOOSE: ranges are those of the log, rounded outwards; widen what may go beyond."
    )
    return lines


def _declared(name: str, column: Column) -> str:
    """Return a context column's line."""
    if column.kind == "flag":
        return f'{_key(name)} = {{ type = "flag" }}'
    if column.kind == "text":
        return f'{_key(name)} = {{ type = "category", levels = {_list(column.levels)} }}'
    low, high = outwards(column.low, column.high)
    return f'{_key(name)} = {{ type = "number", low = {_number(low)}, high = {_number(high)} }}'


def beyond(found: Proposal) -> str:
    """Say how many rows ran well beyond the outermost arms that are proposed; '' where few did.

    Quantiles leave out what ran in less than 5 % of the rows, such as the dearest of a few levels.
    """
    if found.is_choice:
        return ""
    values, why = _values(found)
    known = found.values[np.isfinite(found.values)]
    if why != _BY_QUANTILES or values.size < 2:
        return ""
    said = []
    for sign, arm, inner in ((-1, values[0], values[1]), (1, values[-1], values[-2])):
        off = sign * (known - arm) > 0.5 * abs(arm - inner)
        if off.mean() >= _FEW_RAN:
            word = "above the highest" if sign > 0 else "below the lowest"
            far = _number(_digits(float(np.median(known[off]))))
            said.append(
                f"{100 * off.mean():.1f} % of the rows ran at about {far}, well {word} arm, "
                f"{_number(float(arm))}"
            )
    if not said:
        return ""
    over = f" over {' × '.join(found.base)}" if found.base else ""
    return (
        f"arms are quantiles of {found.action.name}{over}: {' and '.join(said)}; add an arm there"
    )


def _arms(found: Proposal) -> list[str]:
    if found.is_choice:
        levels = found.action.levels
        return [
            "",
            "# CHOOSE: the arms are what ran in the log; take out what must not be proposed.",
            "[arms]",
            'part = "list"',
            f"names = {_list(levels)}",
        ]
    values, why = _values(found)
    over = f", over {' × '.join(found.base)}" if found.base else ""
    return [
        "",
        f"# CHOOSE: {why}{over}; add what you would try, take out what you would not.",
        "[arms]",
        'part = "list"',
        f"values = [{', '.join(_number(float(value)) for value in values)}]",
    ]


def _values(found: Proposal) -> tuple[Array, str]:
    """Return the numbers that are proposed as arms, and where they come from."""
    known = found.values[np.isfinite(found.values)]
    # 96/120 and 0.8 are one arm, whatever the last bit says.
    values = np.unique([_digits(float(one), 9) for one in np.unique(known)[: 100 * MOST_ARMS]])
    if values.size > MOST_ARMS:
        wanted = np.quantile(known, _QUANTILES)
        values = np.unique([_rounded(float(one), float(np.ptp(wanted))) for one in wanted])
        why = _BY_QUANTILES
    else:
        why = "the values that ran"
    values = _merged(values, found)
    if values.size < 2:
        values = np.array([known.min(), known.max()])
    return values, why


def _merged(values: Array, found: Proposal) -> Array:
    """Merge arms that lie closer than the grid that the action is rounded to, at the largest base.

    A price in whole euros on a base of 200 does not tell 0.799 from 0.801.
    """
    known = np.isfinite(found.values) & np.isfinite(found.action.values) & (found.values != 0)
    if not known.any() or not found.base:
        return values
    largest = float(np.abs(found.action.values[known] / found.values[known]).max())
    step = 0.999 * rounding(found.action.values[known]) / largest
    groups = np.split(values, np.flatnonzero(np.diff(values) >= step) + 1)
    return np.array([one[0] if one.size == 1 else _digits(float(one.mean())) for one in groups])


def _scaler(found: Proposal) -> list[str]:
    """Propose a scaler where one can be fitted on the outcomes themselves."""
    is_product = not found.is_choice and found.action.low > 0
    columns = _features(found)
    if not (found.is_class and is_product and columns):
        return [
            "",
            "# CHOOSE: no scaler; all contexts share the arms as they are. One that learns from",
            "# outcomes needs classes and an action above 0; others need labels (ridge).",
        ]
    centre = [_number(_digits(mean)) for _, mean, _ in columns]
    penalty = [_number(_digits(max(sd, 1e-6) ** 2)) for *_, sd in columns]
    names = ", ".join(_text(name) for name, *_ in columns)
    follows = 'follows = "both"' if found.pays else 'follows = "ratio"'
    return [
        "",
        "# CHOOSE: the columns by which the best action moves; δ is 1 at their means in the log.",
        "[scaler]",
        'part = "log-linear"',
        f"factors = {{ context = [{names}] }}",
        f"centre = [{', '.join(centre)}]",
        f"penalty = [{', '.join(penalty)}]  # variances of the columns: one prior for all",
        "growth = 0.5",
        "row_by_row = false",
        follows,
    ]


def _features(found: Proposal) -> list[tuple[str, float, float]]:
    """Return columns for a scaler, with mean and sd: those that tell most of the outcome."""
    y = found.target.values
    columns = []
    for name, column in found.context.items():
        if name in found.base:
            continue
        if column.kind != "text":
            columns.append((name, column.values))
            continue
        count = np.bincount(column.values[np.isfinite(column.values)].astype(np.int64))
        for code, level in enumerate(column.levels):
            if code != int(count.argmax()) and code < count.size and count[code]:
                columns.append((f"{name}={level}", 1.0 * (column.values == code)))
    ranked = []
    for name, values in columns:
        both = np.isfinite(values) & np.isfinite(y)
        sd = float(values[both].std())
        if sd > 0:
            along = abs(float(np.corrcoef(values[both], y[both])[0, 1]))
            ranked.append((-along, name, float(values[both].mean()), sd))
    kept = {name: (mean, sd) for _, name, mean, sd in sorted(ranked)[:_MOST_FEATURES]}
    return [(name, *kept[name]) for name, _ in columns if name in kept]


def _composition(found: Proposal) -> list[str]:
    if found.is_choice:
        name = f"name = {_text(found.shown_action)}"
        return ["", "[composition]", 'part = "identity"', "severity = false", name]
    names = f"names = [{_text(found.shown_action)}]"
    if found.action.low <= 0:
        return ["", "[composition]", 'part = "add"', names]
    why = "# CHOOSE: the columns whose product the action is a multiple of; [] for none."
    base = f"base = {_list(found.base)}"
    return ["", "[composition]", 'part = "multiply"', f"{base}  {why}", names]


def _opening(found: Proposal, gates: list[str]) -> list[str]:
    """Say what stands before all tables: that there is no gate, or that a person is the last."""
    if gates and found.is_choice:
        return [
            "",
            "# A person answers last: they may choose any of the arms, and nothing else.",
            '# CHOOSE: if some never may, leave out this line and close with { part = "policy",',
            "# denied = [their numbers from 0 on] }.",
            "closed = false",
        ]
    if gates:
        return []
    why = "no answer of a person in the log, and categories have no range"
    choose = "a [[gates]] table if somebody or a rule should have a say"
    return ["", f"# CHOOSE: ungated ({why}); put {choose}.", "gates = []"]


def _has_person(found: Proposal) -> bool:
    """Whether the log has a trace of somebody who answers proposals."""
    return bool(found.roles.recommended or found.roles.status or found.roles.reviewer)


def _gates(found: Proposal) -> list[str]:
    lines: list[str] = []
    has_person = _has_person(found)
    if has_person:
        kernel = f'{{ part = "category", n_categories = {len(found.action.levels)} }}'
        if not found.is_choice:
            numbers = [n for n, c in found.context.items() if c.kind != "text"]
            some = [name for name in numbers if name not in found.base][:4]
            kernel = f'{{ part = "number", features = {_list(some)}, base = {_list(found.base)} }}'
        lines += [
            "",
            "# CHOOSE: somebody answers proposals in the log; say who.",
            "[[gates]]",
            'part = "approval"',
            'name = "reviewer"',
            f"kernel = {kernel}",
        ]
    if found.is_choice:
        return lines
    low, high = outwards(found.action.low, found.action.high)
    return [
        *lines,
        "",
        "# CHOOSE: the range seen in the log, rounded outwards; put your own limits here.",
        "[[gates]]",
        'part = "bounds"',
        'name = "bounds"',
        f"low = {_number(low)}",
        f"high = {_number(high)}",
    ]


def _reward(found: Proposal) -> list[str]:
    target = _text(found.shown_target)
    if not found.is_class:
        return ["", "[reward]", 'part = "scaled"', f"outcome = [{target}]"]
    lines = ["", "[reward]", 'part = "payoff"', f"outcome = [{target}]"]
    if found.pays:
        return [
            *lines,
            "action = 0  # CHOOSE: a success pays the action; leave out where it pays 1",
        ]
    if found.is_choice:
        return [*lines, "# CHOOSE: a success pays 1."]
    return [*lines, "# CHOOSE: a success pays 1; `action = 0` where it pays the action."]


def _bandit(found: Proposal) -> list[str]:
    head = ["", "# CHOOSE: gdcb parts bandit lists the others.", "[bandit]"]
    if found.is_choice:
        head[1] += " linear-thompson reads the context."
        if found.is_class:
            return [*head, 'part = "beta-thompson"']
        mean, sd = _moments(found)
        return [
            *head,
            'part = "gaussian-thompson"',
            f"prior_mean = {_number(mean)}  # mean of the rewards in the log",
            f"rate = {_number(_digits(sd**2))}  # their variance",
        ]
    if found.is_class:
        prior = [
            "# CHOOSE: log-odds of a success at the middle arm, and how they change from there to",
            "# the highest arm; not from the log. Before the first row they are within ± 2 sd.",
            "prior_mean = [0.0, -1.0]",
            "prior_sd = [1.5, 1.0]",
        ]
        if not found.pays:
            prior = [
                "degree = 2",
                "# CHOOSE: log-odds of a success at the middle arm, their slope from there to the",
                "# highest, and their bend; not from the log. Before the first row: within ± 2 sd.",
                "prior_mean = [0.0, 0.0, 0.0]",
                "prior_sd = [1.5, 1.0, 1.0]",
            ]
        return [*head, 'part = "curve-thompson"', *prior]
    return [*head, *_contextual(found)]


def _contextual(found: Proposal) -> list[str]:
    """Propose a learner that reads the context, where no scaler moves the arms with it.

    Half the spread of the rewards for one standard deviation of a column, beforehand.
    """
    mean, sd = _moments(found)
    columns = _features(found)
    slopes = [0.5 * sd / max(spread, 1e-9) for *_, spread in columns]
    centres = [slope * centre for slope, (_, centre, _) in zip(slopes, columns, strict=True)]
    level = math.hypot(sd, *centres)
    sds = [level, *slopes, level, sd, *slopes]  # of (1, x, c, c², x⊗c)
    return [
        'part = "shared-linear-thompson"',
        f"features = {_list(name for name, *_ in columns)}",
        "# CHOOSE: weights of (1, x, c, c², x⊗c), c the arm from −1 to 1: the log's mean, else 0,",
        "# give or take half the spread of the rewards for one standard deviation of a column.",
        f"prior_mean = [{', '.join([_number(mean), *['0.0'] * (len(sds) - 1)])}]",
        f"prior_sd = [{', '.join(_number(_digits(one)) for one in sds)}]",
        f"noise = {_number(sd)}  # spread of the rewards in the log",
    ]


def _moments(found: Proposal) -> tuple[float, float]:
    """Return mean and standard deviation of the outcome, to three digits."""
    known = found.target.values[np.isfinite(found.target.values)]
    return _digits(float(known.mean())), _digits(float(known.std()))


def _history(found: Proposal) -> list[str]:
    roles = found.roles
    lines = ["", "# Which column of the log is what.", "[history]"]
    lines.append(f"action = [{_text(roles.action)}]")
    lines.append(f"outcome = [{_text(found.target.name)}]")
    has_reward = roles.reward and roles.reward != found.target.name
    none = "" if has_reward else "  # '-': no column says what it was worth; [reward] does"
    lines.append(f"reward = {_text(roles.reward if has_reward else '-')}{none}")
    several = {role: getattr(roles, role) for role in ("recommended", "status")}
    lines += [f"{role} = [{_text(name)}]" for role, name in several.items() if name]
    names = ("reviewer", "propensity", "unit", "time", "outcome_time")
    single = {role: getattr(roles, role) for role in names}
    lines += [f"{role} = {_text(name)}" for role, name in single.items() if name]
    renamed = {name: column.name for name, column in found.context.items() if name != column.name}
    if renamed:
        pairs = ", ".join(f"{_key(name)} = {_text(raw)}" for name, raw in renamed.items())
        lines.append(f"context = {{ {pairs} }}")
    return lines


def outwards(low: float, high: float) -> tuple[float, float]:
    """Round a range outwards to two digits of its width; shares stay within 0 and 1.

    >>> outwards(0.03, 0.97), outwards(41.3, 589.0), outwards(-0.2, 3.0)
    ((0.0, 1.0), (40.0, 590.0), (-0.2, 3.0))
    """
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    width = high - low
    step = 10.0 ** (math.floor(math.log10(width)) - 1) if width > 0 else 1.0
    below, above = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if low > 0:
        below = max(below, 0.0)
    return min(_digits(below, 12), low), max(_digits(above, 12), high)


def _rounded(value: float, width: float) -> float:
    """Round to three digits of a width."""
    step = 10.0 ** (math.floor(math.log10(width)) - 2) if width > 0 else 1e-3
    return _digits(round(value / step) * step, 12)


def _digits(value: float, n: int = 3) -> float:
    return float(f"{value:.{n}g}")


def _number(value: float) -> str:
    """Write a number as TOML has it."""
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    return HIDDEN.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(sign: re.Match[str]) -> str:
    code = ord(sign[0])
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def _list(values: Any) -> str:
    return f"[{', '.join(_text(value) for value in values)}]"


def _comment(name: str) -> str:
    """Return a column's name as it may stand in a comment: on one line."""
    return HIDDEN.sub(" ", name)
