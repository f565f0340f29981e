"""The policy of a tool router: which tools may run at all, at what cost, on which requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, along
from gdcb.errors import InvalidInput
from gdcb.gates.base import HardGate
from gdcb.parts import Column, check_number, check_settings, check_text, check_tuple, column, take
from gdcb.records import Rows

# What a flag says of the request, in the order in which the rules are asked.
FLAGS = {
    "secret": "the arguments hold a secret",
    "injected": "an instruction inside tool output asks for it",
    "invalid": "the arguments break the tool's schema",
}


@dataclass(frozen=True)
class ToolPolicy(HardGate):
    """Veto tools that are denied, too dear, or write and send on a request that is not clean.

    g(e, x) = nothing where tool(e) is unknown, denied or not offered with the request (its mask),
    or cost(tool) > x[spend], or tool(e) ∈ clean and any flag of x is up; else e. A flag is down
    only at 0: a flag, limit or tool that is not a number forbids. Costs are compared exactly,
    without a tolerance.

    Parameters
    ----------
    tools : names of all tools, in the order of the arms
    denied : names of tools that never run
    cost, spend : cost of each tool, and the context column that must cover it
    clean : names of tools that write or send: these need a clean request
    secret : flag column: the arguments hold a secret
    injected : flag column: an instruction from inside tool output asks for the call
    invalid : flag column: the arguments break the tool's schema
    action : action column that holds the tool

    Notes
    -----
    Assumes: the flags are in the context before the gate is asked; `screening` makes them from the
    call. Every tool that can write, send, pay or delete is named in `clean`.

    Stops applying: tools that only read pass whatever the flags say, so what one of them leaks by
    being called at all (an address that is fetched, a search that is logged) is not held back.
    The gate keeps no account: who spends must lower the limit in later contexts.

    Examples
    --------
    Reading costs 1 and sending 3, with 5 to spend. An injected request may still read; a clean one
    may also send; the shell is denied to both.

    >>> gate = ToolPolicy(
    ...     tools=("read", "send", "shell"),
    ...     denied=("shell",),
    ...     cost=(1.0, 3.0, 0.0),
    ...     spend=0,
    ...     clean=("send",),
    ...     injected=1,
    ... )
    >>> rows = Rows(np.zeros(2, int), np.zeros(2, int), np.array([[5.0, 1.0], [5.0, 0.0]]))
    >>> e = np.tile(np.array([[0.0], [1.0], [2.0]]), (2, 1, 1))
    >>> gate.project(e, rows)[..., 0].tolist()
    [[0.0, nan, nan], [0.0, 1.0, nan]]
    >>> gate.reason(e[0, 1], e[0, 1], rows.take(np.array([0])))
    "injected: 'send' writes or sends, and an instruction inside tool output asks for it"
    """

    tools: tuple[str, ...]
    denied: tuple[str, ...] = ()
    cost: tuple[float, ...] = ()
    spend: Column | None = column(None)
    clean: tuple[str, ...] = ()
    secret: Column | None = column(None)
    injected: Column | None = column(None)
    invalid: Column | None = column(None)
    action: int = 0
    name: str = "tool policy"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        where = f"gate '{self.name}'"
        for field in ("tools", "denied", "clean"):
            names = getattr(self, field)
            check_tuple(f"{where}: {field}", names)
            for tool in names:
                check_text(f"{where}: {field}", tool)
            if len(set(names)) < len(names):
                raise InvalidInput(f"{where}: {field}: a tool is named twice in {tuple(names)}")
            unknown = [tool for tool in names if tool not in self.tools]
            if unknown:
                raise InvalidInput(
                    f"{where}: {field}: there is no tool {', '.join(unknown)}; "
                    f"the tools are {', '.join(self.tools)}"
                )
        if not self.tools:
            raise InvalidInput(f"{where}: tools: expected at least one name, got none")
        check_tuple(f"{where}: cost", self.cost)
        for cost in self.cost:
            check_number(f"{where}: cost", cost, 0.0)
        if self.cost and len(self.cost) != len(self.tools):
            raise InvalidInput(
                f"{where}: cost: expected one number for each of the {len(self.tools)} tools, "
                f"got {len(self.cost)}"
            )
        if bool(self.cost) != (self.spend is not None):
            raise InvalidInput(f"{where}: cost and spend go together")
        if self.clean and not self._flags():
            raise InvalidInput(
                f"{where}: clean needs a flag column: give one of {', '.join(FLAGS)}"
            )

    @classmethod
    def example(cls) -> ToolPolicy:
        """Return one that can be checked."""
        return cls(
            ("a", "b", "c"),
            denied=("c",),
            cost=(0.0, 1.0, 0.0),
            spend="spend",
            clean=("b",),
            injected="injected",
        )

    def _flags(self) -> dict[str, Column]:
        """Return the flag columns that are given, by the name of their rule."""
        given = {rule: getattr(self, rule) for rule in FLAGS}
        return {rule: at for rule, at in given.items() if at is not None}

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse an action whose tools are not the ones that the policy is written for."""
        super().check(columns)
        found = columns[self.action]
        if tuple(found.levels) != tuple(self.tools):
            has = ", ".join(found.levels) or "numbers"
            raise InvalidInput(
                f"gate '{self.name}': tools: expected the levels of '{found.name}' in their "
                f"order, {has}; got {', '.join(self.tools)}"
            )

    def _is_among(self, names: tuple[str, ...]) -> Array:
        return np.array([tool in names for tool in self.tools], dtype=bool)

    def forbids(self, e: Array, rows: Rows) -> dict[str, Array]:
        """Return what each rule forbids of the actions e (N, M, D): rule → (N, M) booleans."""
        is_known, at = self._named(e)
        found = {"unknown": ~is_known, "denied": is_known & self._is_among(self.denied)[at]}
        if rows.mask is not None:
            found["offered"] = is_known & ~np.take_along_axis(rows.mask, at, axis=1)
        if self.spend is not None:
            limit = take(rows.x, self.spend)[:, None]
            found["spend"] = is_known & ~(np.asarray(self.cost, dtype=float)[at] <= limit)
        needs = is_known & self._is_among(self.clean)[at]
        for rule, flag in self._flags().items():
            found[rule] = needs & ~(take(rows.x, flag)[:, None] == 0.0)
        return found

    def project(self, e: Array, rows: Rows) -> Array:
        """Put NaN where a rule forbids the tool."""
        is_known, at = self._named(e)
        may_run = is_known & along(self._allowed(rows), at, axis=1)
        return np.where(may_run[..., None], e, np.nan)

    def _named(self, e: Array) -> tuple[Array, Array]:
        """Return whether actions e (N, M, D) name a tool, and which: (N, M) each, else 0."""
        tool = e[..., self.action]
        # Compared before it is an index: a cast of NaN, ∞ or 0.5 would name some tool.
        is_known = (tool >= 0) & (tool < len(self.tools)) & (tool == np.floor(tool))
        return is_known, np.where(is_known, tool, 0.0).astype(np.int64)

    def _allowed(self, rows: Rows) -> Array:
        """Return which tools no rule forbids in each row: (N, tools). It is asked every round."""
        denied, clean, cost = self._tables
        allowed = np.tile(~denied, (rows.n, 1))
        if rows.mask is not None:
            allowed &= rows.mask
        if self.spend is not None:
            allowed &= cost <= take(rows.x, self.spend)[:, None]
        for flag in self._flags().values():
            allowed &= ~clean | (take(rows.x, flag)[:, None] == 0.0)
        return allowed

    @cached_property
    def _tables(self) -> tuple[Array, Array, Array]:
        """Whether each tool is denied, whether it needs a clean request, and what it costs."""
        return (
            self._is_among(self.denied),
            self._is_among(self.clean),
            np.asarray(self.cost, dtype=float),
        )

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name every rule that forbids it, the first one first."""
        rules = self.forbids(entered[None, None], row)
        said = [self._said(rule, entered, row) for rule, found in rules.items() if found[0, 0]]
        return "; ".join(said) or "no rule forbids it"

    def _said(self, rule: str, entered: Array, row: Rows) -> str:
        number = float(entered[self.action])
        if rule == "unknown":
            return f"unknown: there is no tool {number:g}; there are {len(self.tools)}"
        tool = f"'{self.tools[int(number)]}'"
        if rule == "denied":
            return f"denied: {tool} may never run"
        if rule == "offered":
            return f"offered: {tool} is not offered with this request"
        if rule == "spend" and self.spend is not None:
            price, limit = self.cost[int(number)], float(take(row.x, self.spend)[0])
            return f"spend: {tool} costs {price:g}, more than the limit of {limit:g}"
        value = float(take(row.x, self._flags()[rule])[0])
        known = FLAGS[rule] if value == value else f"whether {FLAGS[rule]} is not known"
        return f"{rule}: {tool} writes or sends, and {known}"
