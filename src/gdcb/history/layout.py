"""Which column of one log plays which part: the declared names against what the log has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gdcb.composition import ActionColumn
from gdcb.context import Kind
from gdcb.errors import InvalidInput, UnknownField
from gdcb.instance import Instance
from gdcb.log_columns import LogColumns
from gdcb.rewards import Reward

# What a column may be beside context: the names of fields of `Layout` and of `LogColumns`.
_ROLES = (
    "action",
    "outcome",
    "reward",
    "recommended",
    "status",
    "reviewer",
    "propensity",
    "unit",
    "time",
    "outcome_time",
    "label",
)
_SHOWN = 12  # names in a sentence
FAULT = "__fault__"  # a source's own reason against a row, in a column of this name


@dataclass(frozen=True)
class ContextColumn:
    """A context column: its kind, the log's name for it, and its place in x."""

    name: str
    kind: Kind
    column: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The log columns that are read, by the part they play; '' and () where the log has none.

    Holds no more of an instance than reading needs, so that parts of a log can be sent away.
    """

    context: tuple[ContextColumn, ...]
    width: int
    actions: tuple[ActionColumn, ...]
    action: tuple[str, ...]
    outcome: tuple[str, ...]
    outcome_names: tuple[str, ...]
    rule: Reward
    recommended: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    n_gates: int = 0
    reviewer: str = ""
    propensity: str = ""
    unit: str = ""
    time: str = ""
    label: tuple[str, ...] = ()
    reward: str = ""
    decided: tuple[tuple[str, str], ...] = ()
    bases: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    has_faults: bool = False
    outcome_time: str = ""
    matures_after: float | None = None
    guessed: tuple[str, ...] = ()
    most_log: float | None = None

    @property
    def roles(self) -> dict[str, list[str]]:
        """The log columns by the part they play, as far as the log has any."""
        found = {"context": [part.column for part in self.context]}
        for role in _ROLES:
            value = getattr(self, role)
            found[role] = [value] if isinstance(value, str) else list(value)
        return {role: [one for one in names if one] for role, names in found.items() if any(names)}

    @property
    def needed(self) -> tuple[str, ...]:
        """Log columns to be read, each once."""
        single = [self.reviewer, self.propensity, self.unit, self.time, self.reward]
        single.append(self.outcome_time)
        wanted = [part.column for part in self.context]
        wanted += [*self.action, *self.outcome, *self.recommended, *self.status, *self.label]
        wanted += [*single, *(column for _, column in self.decided)]
        wanted += [FAULT] if self.has_faults else []
        return tuple(dict.fromkeys(name for name in wanted if name))


def layout_of(instance: Instance, columns: LogColumns, found: Sequence[str], where: str) -> Layout:
    """Match declared columns with those that a log has; what is required and missing is refused."""
    context = tuple(
        ContextColumn(name, kind, columns.context.get(name, name), _places(instance, name))
        for name, kind in instance.context.columns.items()
    )
    unknown = [name for name in columns.context if name not in instance.context.columns]
    if unknown:
        known = ", ".join(instance.context.columns)
        raise UnknownField(f"history.context: no context column {unknown[0]!r}; there are {known}")
    names = tuple(part.name for part in instance.actions)
    outcomes = instance.reward.outcome
    action = _as_many("action", columns.action, names)
    outcome = _as_many("outcome", columns.outcome, outcomes)
    given = {
        "context": [part.column for part in context],
        "action": list(action),
        "outcome": list(outcome),
        "recommended": list(columns.recommended),
        "status": list(columns.status),
        "label": list(columns.label),
        "decided": list(columns.decided.values()),
    }
    for name in ("reward", "reviewer", "propensity", "unit", "time", "outcome_time"):
        value = getattr(columns, name)
        given[name] = [value] if value and (name, value) != ("reward", "-") else []
    for what, wanted in given.items():
        if "" in wanted:
            raise InvalidInput(
                f"{where}: history.{what}: expected the name of a log column, got ''; give the "
                "column a name in the log"
            )
    _refuse_missing(given, found, where)
    taken = {name for what in ("context", "action", "outcome") for name in given[what]}
    found = [name for name in found if name not in taken]  # a context 'time' is no decision time
    warnings: list[str] = []
    status, n_gates = _status(instance, columns, found)
    reward = _optional("reward", columns.reward, found)
    base = getattr(instance.composition, "base", ())
    layout = Layout(
        context=context,
        width=instance.context.width,
        actions=instance.actions,
        action=action,
        outcome=outcome,
        outcome_names=tuple(outcomes),
        rule=instance.reward,
        recommended=_recommended(columns, names, found, warnings),
        status=status,
        n_gates=n_gates,
        reviewer=_optional("reviewer", columns.reviewer, found),
        propensity=_optional("propensity", columns.propensity, found),
        unit=_optional("unit", columns.unit, found),
        time=_optional("time", columns.time, found),
        label=_labels(instance, columns, found),
        reward="" if reward == "-" or reward in outcome else reward,
        decided=_decided(columns, given),
        bases=tuple(at for at in base if isinstance(at, int)),
        warnings=tuple(warnings),
        has_faults=FAULT in found,
        outcome_time=_optional("outcome_time", columns.outcome_time, found),
        matures_after=_maturity(columns, found),
        most_log=instance.most_log,
    )
    named = {role for role in _ROLES if getattr(columns, role)}
    named |= {"context"} if set(columns.context) == set(instance.context.columns) else set()
    return replace(layout, guessed=tuple(role for role in layout.roles if role not in named))


def _maturity(columns: LogColumns, found: Sequence[str]) -> float | None:
    if columns.maturity is not None and not _optional("time", columns.time, found):
        raise InvalidInput(
            "history.matures_after: the log has no time column, so that no row has an age; name it "
            "with history.time"
        )
    return columns.maturity


def _places(instance: Instance, name: str) -> tuple[int, ...]:
    return tuple(instance.context.positions[name])


def _as_many(what: str, given: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    if given and len(given) != len(names):
        raise InvalidInput(
            f"history.{what}: expected {len(names)} log columns, for {', '.join(names)}; "
            f"got {', '.join(given)}"
        )
    return tuple(given or names)


def _optional(name: str, given: str, found: Sequence[str]) -> str:
    return given or (name if name in found else "")


def _recommended(
    columns: LogColumns, names: Sequence[str], found: Sequence[str], warnings: list[str]
) -> tuple[str, ...]:
    if columns.recommended:
        return _as_many("recommended", columns.recommended, names)
    looked_for = [f"recommended_{name}" for name in names]
    has = [name for name in looked_for if name in found]
    if len(has) == len(looked_for):
        return tuple(looked_for)
    if len(names) == 1 and "recommended" in found:
        return ("recommended",)
    if has:
        lacks = next(name for name in looked_for if name not in found)
        warnings.append(f"The log has {has[0]} but not {lacks}: what was proposed is not read.")
    return ()


def _status(
    instance: Instance, columns: LogColumns, found: Sequence[str]
) -> tuple[tuple[str, ...], int]:
    """Return the status columns, and how many gates they speak of: 0 for the chain as a whole."""
    gates = [gate.name for gate in instance.chain.gates]
    if columns.status:
        if len(columns.status) not in (1, len(gates)):
            raise InvalidInput(
                f"history.status: expected one log column, or {len(gates)}, one a gate "
                f"({', '.join(gates)}); got {', '.join(columns.status)}"
            )
        return columns.status, len(gates) if len(columns.status) == len(gates) else 0
    one_a_gate = [f"status_{name}" for name in gates]
    if one_a_gate and all(name in found for name in one_a_gate):
        return tuple(one_a_gate), len(gates)
    if "status" in found:
        return ("status",), 1 if len(gates) == 1 else 0
    return (), 0


def _labels(instance: Instance, columns: LogColumns, found: Sequence[str]) -> tuple[str, ...]:
    n = instance.scaler.n_labels if instance.scaler.learns_from == "label" else 0
    if columns.label:
        if len(columns.label) != n:
            raise InvalidInput(f"history.label: the scaler takes {n} labels, got {columns.label}")
        return columns.label
    looked_for = ("label",) if n == 1 else tuple(f"label_{i}" for i in range(n))
    return looked_for if n and all(name in found for name in looked_for) else ()


def _decided(
    columns: LogColumns, given: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, str], ...]:
    for name in columns.decided:
        if name not in columns.context and name not in given["context"]:
            raise UnknownField(f"history.decided: {name!r} is no context column")
    return tuple(columns.decided.items())


def _refuse_missing(given: Mapping[str, Sequence[str]], found: Sequence[str], where: str) -> None:
    lacks = {
        what: [name for name in names if name not in found]
        for what, names in given.items()
        if any(name not in found for name in names)
    }
    if lacks:
        said = "; ".join(f"{what}: {_listed(names)}" for what, names in lacks.items())
        has = _listed(found)
        raise UnknownField(
            f"{where}: missing columns ({said}); it has {has or 'none'}. "
            "Name the log's own columns in the table [history]."
        )


def _listed(names: Sequence[str]) -> str:
    """Return names as a list, the first dozen of them where there are more."""
    return ", ".join(name[:100] for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
