"""G = (X, A, Δ, E, Y, Θ, Φ, {δ_θ}, g, R): one frozen object says what a domain is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.adjustment import Adjustment
from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array, all_finite, full, is_finite, like, namespace, search, surely_all
from gdcb.bandits import Bandit
from gdcb.composition import ActionColumn, Composition, check_arms
from gdcb.context import Schema
from gdcb.errors import InvalidInput, NothingAllowed, UnknownField
from gdcb.gates import Chain, Gate, Open, chain_of
from gdcb.parts import (
    Column,
    bind,
    check_choice,
    check_number,
    check_settings,
    check_text,
    column,
    require_of_new,
    take_all,
)
from gdcb.records import Rows
from gdcb.rewards import Reward, Scaled
from gdcb.scalers import ConstantScaler, Scaler

LARGEST_ACTION = 1e12  # of one that somebody names; a learned gate squares what it sees


@dataclass(frozen=True)
class NullAction:
    """null(x): what runs when nothing was let through; exempt from gates.

    Parameters
    ----------
    action : its columns as numbers; empty: nothing runs at all
    columns : its columns as context columns instead (the last gain in force)
    mean : declared E[r | null, x]: a number or, from Python, a function of x (N, p) → (N,)
    weight : rows that the declaration is worth; observed null rewards then correct it
    teaches : whether its outcome teaches the response curve (never an arm)
    """

    action: tuple[float, ...] = ()
    columns: tuple[Column, ...] = column(())
    mean: float | Callable[[Array], Array] = 0.0
    weight: float = 10.0
    teaches: bool = False

    def __post_init__(self) -> None:
        check_settings(self, "null")
        if self.action and self.columns:
            raise InvalidInput("null: give its action as numbers or as columns, not both")
        if not callable(self.mean):
            check_number("null.mean", self.mean)
        check_number("null.weight", self.weight, 0.0, open_low=True)

    def of(self, x: Array, n_columns: int) -> Array:
        """Return the null action of every row: (N, D); NaN where nothing runs."""
        if self.columns:
            return take_all(x, self.columns)
        action = like(self.action or (np.nan,) * n_columns, x)
        tiled: Array = namespace(x).tile(action, (x.shape[0], 1))
        return tiled

    def declared(self, x: Array) -> Array:
        """Return the declared E[r | null, x] of every row: (N,)."""
        if callable(self.mean):
            return self.mean(x)
        return full((x.shape[0],), self.mean, x)


@dataclass(frozen=True)
class Cells:
    """Bands of δ: where context changes which arm is best even after scaling (severity)."""

    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_settings(self, "cells")
        if list(self.edges) != sorted(set(self.edges)):
            raise InvalidInput(f"cells.edges: expected rising numbers, got {self.edges}")

    @property
    def n(self) -> int:
        """Number of bands."""
        return len(self.edges) + 1

    def of(self, unit: Array, delta: Array) -> Array:
        """Return the cell of each row: unit · bands + band of δ."""
        if not self.edges:
            return unit
        band = search(like(self.edges, delta), delta[:, 0, 0])
        cell: Array = unit * self.n + band
        return cell


@dataclass(frozen=True)
class Rules:
    """How the loops learn; the defaults are the rules of `docs/round.md`.

    Parameters
    ----------
    select : 'gate': an arm is worth its value behind the gate; 'nominal': as if there were none
    credit : 'executed': credit what ran; 'proposed': credit the proposed arm regardless
    overrides : 'pooled': weigh overridden rows by the contrast's posterior; 'all'; 'approved'
    """

    select: str = "gate"
    credit: str = "executed"
    overrides: str = "pooled"

    def __post_init__(self) -> None:
        check_settings(self, "rules")
        check_choice("rules.select", self.select, ("gate", "nominal"))
        check_choice("rules.credit", self.credit, ("executed", "proposed"))
        check_choice("rules.overrides", self.overrides, ("pooled", "all", "approved"))


_NEUTRAL = ConstantScaler()  # stands for a constant that leaves the arms as they are


_KINDS: dict[str, tuple[type, ...]] = {
    "context": (Schema,),
    "arms": (Arms, ArmList, Grid),
    "null": (NullAction,),
    "cells": (Cells,),
    "rules": (Rules,),
    "adjustment": (Adjustment, type(None)),
}


@dataclass(frozen=True, eq=False)
class Instance:
    """A gated, decoupled, compositional bandit's domain.

    Parts name context columns; they are bound to positions here, and what cannot work together
    is refused here. See `docs/terms.md` for the paper's symbols. `gate` must be given: one gate,
    several in a list or a `Chain`, or `[]` (the same as `Open()`) for an instance that runs
    ungated; its decisions and pages then say so.

    Examples
    --------
    >>> from gdcb.context import Number
    >>> from gdcb.composition import Multiply
    >>> from gdcb.gates import Bounds
    >>> from gdcb.rewards import Payoff
    >>> instance = Instance(
    ...     context=Schema({"base": Number(10, 1000)}),
    ...     arms=ArmList(values=(0.8, 1.0, 1.25)),
    ...     composition=Multiply(base=("base",)),
    ...     gate=Bounds(low=50, high=300),
    ...     reward=Payoff(outcome=("booked",), action=0),
    ... )
    >>> [column.name for column in instance.actions]
    ['action']
    """

    context: Schema
    arms: Arms | ArmList | Grid
    composition: Composition
    gate: Chain | Open | Gate | Sequence[Gate]
    scaler: Scaler = field(default_factory=lambda: _NEUTRAL)
    reward: Reward = field(default_factory=Scaled)
    null: NullAction = field(default_factory=NullAction)
    cells: Cells = field(default_factory=Cells)
    rules: Rules = field(default_factory=Rules)
    adjustment: Adjustment | None = None
    name: str = "instance"
    title: str = ""
    space: Arms = field(init=False)
    chain: Chain = field(init=False)
    actions: tuple[ActionColumn, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._check_parts()
        columns = self.context.positions
        arms = self.arms if isinstance(self.arms, Arms) else self.arms.build()
        if self.scaler is _NEUTRAL and getattr(self.composition, "joins", "other") == "sum":
            object.__setattr__(self, "scaler", ConstantScaler(0.0))
        if isinstance(self.gate, Open):
            object.__setattr__(self, "gate", Chain())
        gate = chain_of(self.gate)
        for name, part in (
            ("scaler", self.scaler),
            ("composition", self.composition),
            ("reward", self.reward),
            ("null", self.null),
            ("adjustment", self.adjustment),
        ):
            object.__setattr__(self, name, bind(part, columns))
        object.__setattr__(self, "chain", bind(gate, columns))
        object.__setattr__(self, "space", arms)
        check_arms(self.composition, arms)
        object.__setattr__(self, "actions", self.composition.columns(arms))
        for action in self.actions:
            require_of_new(
                action.name not in self.context.columns,
                f"composition: the action is called '{action.name}', as a context column is; a "
                "log's column of that name would be read as both. Give the action another name",
            )
        if self.scaler.n_arms not in (1, arms.n):
            raise InvalidInput(
                f"scaler: its arm axis has {self.scaler.n_arms}, expected 1 or {arms.n} arms"
            )
        if self.cells.edges and self.scaler.n_arms > 1:
            raise InvalidInput("cells: bands need one δ a row, this scaler has one an arm")
        if self.composition.needs_positive and not self.scaler.is_positive:
            raise InvalidInput(
                f"{type(self.composition).__name__} needs a δ above 0: a scaler with link 'exp', "
                "whose labels, or fitted model, are log δ; or a constant above 0"
            )
        self._check_joins()
        if self.scaler.learns_from == "outcome" and self.reward.target != "class":
            raise InvalidInput(
                f"{type(self.scaler).__name__} is fitted on outcome classes, but the reward of "
                f"this instance is learned as a {self.reward.target}"
            )
        self.reward.fits(len(self.actions))
        object.__setattr__(self, "chain", self.chain.for_actions(self.actions))
        self._check_adjustment()
        self._try_once()
        n = len(self.actions)
        if len(self.null.action or self.null.columns) not in (0, n):
            raise InvalidInput(f"null: expected {n} action columns")
        self._check_null()

    def __repr__(self) -> str:
        """Return what it is made of, in one line."""
        return (
            f"Instance({self.name!r}: {self.space.n} arms, {type(self.composition).__name__}, "
            f"{type(self.scaler).__name__}, {self.chain.path})"
        )

    def _check_parts(self) -> None:
        """Refuse what is no part of the kind that belongs there."""
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds):
                words = " or ".join(kind.__name__ for kind in kinds)
                raise InvalidInput(f"{name}: expected {words}, got {value!r}")
        methods = {"composition": "compose", "scaler": "predict", "reward": "worth"}
        for name, method in methods.items():
            value = getattr(self, name)
            if isinstance(value, type) or not hasattr(value, method):
                raise InvalidInput(f"{name}: expected a {name}, got {value!r}")
        if not hasattr(self.scaler, "init"):
            raise InvalidInput(
                f"scaler: expected a scaler, got {self.scaler!r}; a fitted regressor goes into "
                "one: EstimatorScaler(model, features=(…))"
            )
        check_text("name", self.name)
        check_text("title", self.title, may_be_empty=True)

    def _check_null(self) -> None:
        """Refuse a null action with a category that is none of its levels."""
        for i, action in enumerate(self.actions):
            if not action.levels:
                continue
            if self.null.columns:
                raise InvalidInput(f"null.columns: '{action.name}' is a category; give its number")
            if self.null.action and self.null.action[i] not in range(len(action.levels)):
                raise InvalidInput(
                    f"null.action: expected a whole number from 0 to {len(action.levels) - 1} for "
                    f"the category '{action.name}', got {self.null.action[i]:g}"
                )

    def _check_joins(self) -> None:
        """Refuse a scaler whose δ means something else than the composition makes of it."""
        joins, kind = self.composition.joins, type(self.scaler).__name__
        made_for = getattr(self.scaler, "joins", "any")
        if joins == "sum" and made_for == "product":
            raise InvalidInput(
                f"{type(self.composition).__name__} adds δ, whose neutral value is 0, but {kind} "
                "starts from 1; take link 'identity'"
            )
        if self.scaler.learns_from == "outcome" and joins != "product":
            raise InvalidInput(
                f"{kind} fits the effect of e/δ on outcomes: it needs a composition that "
                f"multiplies, not {type(self.composition).__name__}"
            )

    def _check_adjustment(self) -> None:
        if self.adjustment is None:
            return
        if self.reward.target != "reward":
            raise InvalidInput(
                "adjustment: an outcome class cannot be adjusted; it is for rewards (reward "
                "'scaled'), not for payoffs of a class"
            )
        width = len(self.adjustment.reference[0])
        if width != self.context.width:
            raise InvalidInput(
                f"adjustment.reference: expected rows of {self.context.width} columns, got {width}"
            )

    def _try_once(self) -> None:
        """Compose one row, so that parts that do not fit show here and not at a decision."""
        x, zero = np.ones((1, self.context.width)), np.zeros(1, dtype=np.int64)
        expected = (1, self.space.n, len(self.actions))
        try:
            delta = self.scaler.predict(self.scaler.init(1), zero, x)
            shape = self.composition.compose(self.space, delta, x).shape
        except Exception as error:
            raise InvalidInput(f"arms, scaler and composition do not fit: {error}") from error
        if shape != expected:
            raise InvalidInput(f"composition: expected actions {expected}, got {shape}")
        if hasattr(self.scaler, "check_start"):
            at = getattr(self.scaler, "features", ())
            self.scaler.check_start(self.context.corners(at), self.context.without_range(at))

    @property
    def most_log(self) -> float | None:
        """Largest log δ that a new label may say where δ is a factor; None: any number."""
        most: float | None = getattr(self.scaler, "most_log", None)
        return most if self.composition.joins == "product" else None

    def realised(self, outcome: Array, action: Array, x: Array) -> Array:
        """Return r = φ(y) of executed actions: (N,); where nothing ran, the null's reward."""
        reward = self.reward.reward(outcome, action, x)
        known = is_finite(reward)
        if surely_all(known):
            return reward
        known = known | all_finite(action)
        realised: Array = namespace(x).where(known, reward, self.null.declared(x))
        return realised

    def bind(self, bandit: Bandit) -> Bandit:
        """Return the learner with the context columns it names replaced by their positions."""
        return bind(bandit, self.context.positions)

    def check_bandit(self, bandit: Bandit) -> None:
        """Refuse a learner that cannot learn here."""
        kind = type(bandit).__name__
        reads: Any = getattr(bandit, "reads", None)
        if not isinstance(reads, frozenset) or not reads <= {"x", "delta"}:
            raise InvalidInput(
                f"{kind}.reads: expected a frozenset out of 'x' and 'delta', which says whether it "
                f"reads the context and δ; got {reads!r}"
            )
        if self.adjustment is not None and (bandit.reads or self.cells.edges):
            what = f"{kind} reads the context" if bandit.reads else "bands of δ"
            raise InvalidInput(
                f"adjustment: it takes off what context explains, and {what}; drop one of the two"
            )
        rebuilds = getattr(bandit, "rebuilds", None)
        if rebuilds is not None and (rebuilds != self.composition.joins or self.scaler.n_arms > 1):
            raise InvalidInput(
                f"{kind} rebuilds the action as a {rebuilds} of its coordinate and one δ; this "
                f"composition is a {self.composition.joins} with {self.scaler.n_arms} δ a row"
            )
        if bandit.target not in ("any", self.reward.target):
            needs_class = bandit.target == "class"
            raise InvalidInput(
                f"{type(bandit).__name__} learns a {bandit.target}, but the reward of instance "
                f"'{self.name}' makes the learner learn a {self.reward.target}"
                + ('; give it reward=Payoff(outcome=("booked",), action=0)' if needs_class else "")
            )

    def check_rows(self, rows: Rows, n_units: int) -> None:
        """Refuse rows of wrong shape, type or range, and masks that allow nothing."""
        n = rows.n
        if rows.x.ndim != 2 or rows.x.shape[1] != self.context.width or n == 0:
            raise InvalidInput(
                f"x: expected at least one row of {self.context.width} columns, got {rows.x.shape}"
            )
        if rows.x.dtype.kind != "f" or not np.isfinite(rows.x).all():
            raise InvalidInput("x: expected finite floating-point numbers")
        for name, index in (("unit", rows.unit), ("group", rows.group)):
            if index.shape != (n,) or index.dtype.kind not in "iu":
                raise InvalidInput(f"{name}: expected {n} whole numbers, got {index!r}")
        if (rows.unit < 0).any() or (rows.unit >= n_units).any():
            raise InvalidInput(f"unit: expected 0 to {n_units - 1}, got {rows.unit}")
        if rows.mask is not None:
            self.check_mask(rows.mask, n)

    def check_mask(self, mask: Array, n: int) -> None:
        """Refuse a mask of wrong shape or type, or one that allows nothing in one of n rows."""
        if mask.shape != (n, self.space.n) or mask.dtype != np.bool_:
            raise InvalidInput(f"mask: expected {(n, self.space.n)} booleans, got {mask.shape}")
        if not mask.any(axis=1).all():
            barred = np.flatnonzero(~mask.any(axis=1)).tolist()
            raise NothingAllowed(f"mask: no arm is allowed in row {barred}")

    def encode_action(self, action: Any) -> Array:
        """Turn a named action into its columns (D,), categories by level name."""
        names = [column.name for column in self.actions]
        if not isinstance(action, Mapping):
            raise InvalidInput(f"action: expected {', '.join(names)} by name, got {action!r}")
        unknown = [str(name) for name in action if name not in names]
        missing = [name for name in names if name not in action]
        if unknown or missing:
            raise UnknownField(
                f"action: expected {', '.join(names)}; got {', '.join(map(str, action))}"
            )
        out = np.empty(len(names))
        for i, part in enumerate(self.actions):
            value = action[part.name]
            if part.levels:
                if not isinstance(value, str) or value not in part.levels:
                    raise InvalidInput(
                        f"action.{part.name}: expected one of {', '.join(part.levels)}; "
                        f"got {value!r}"
                    )
                out[i] = part.levels.index(value)
            else:
                check_number(f"action.{part.name}", value, -LARGEST_ACTION, LARGEST_ACTION)
                out[i] = value
        return out

    def decode_action(self, action: Array) -> dict[str, Any] | None:
        """Turn action columns (D,) into names and values; None where nothing runs."""
        return self.named_action(action.tolist())

    def named_action(self, action: Sequence[float]) -> dict[str, Any] | None:
        """Turn D numbers into names and values; None where nothing runs."""
        if not all(map(math.isfinite, action)):
            return None
        return {
            part.name: part.levels[int(value)]
            if part.levels and value in range(len(part.levels))
            else float(value)
            for part, value in zip(self.actions, action, strict=True)
        }
