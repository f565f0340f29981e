"""What the tests build: small instances, worlds whose truth is known by hand, stub parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from gdcb import (
    Agent,
    Approval,
    ArmList,
    BetaThompson,
    Bounds,
    Category,
    Chain,
    Flag,
    Hold,
    Identity,
    Instance,
    Multiply,
    Number,
    Payoff,
    RidgeScaler,
    Scaled,
    Schema,
)
from gdcb import round as turn
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.bandits.base import take_arm
from gdcb.gates.base import HardGate, Value
from gdcb.records import Evidence, Located, Log, Rows, Setting, to_bytes
from gdcb.streams import Stream

# Instances


def pricing(**changes: Any) -> Instance:
    """Return price = base · δ · a with a in 0.8, 1, 1.2 (step 0.2), booked × price, no gate."""
    parts: dict[str, Any] = {
        "context": Schema({"base": Number(1, 1000)}),
        "arms": ArmList(values=(0.8, 1.0, 1.2)),
        "composition": Multiply(base=("base",), names=("price",)),
        "gate": [],
        "reward": Payoff(outcome=("booked",), action=0),
    }
    return Instance(**(parts | changes))


def rewarded(**changes: Any) -> Instance:
    """Return the same prices with the reward itself as outcome."""
    return pricing(**({"reward": Scaled(outcome=("reward",))} | changes))


def choosing(n_arms: int, **changes: Any) -> Instance:
    """Return bare categories that run as they are: the plain bandit."""
    parts: dict[str, Any] = {
        "context": Schema({"x": Number()}),
        "arms": ArmList(names=tuple(f"arm {i}" for i in range(n_arms))),
        "composition": Identity(severity=False),
        "gate": [],
        "reward": Payoff(outcome=("won",)),
    }
    return Instance(**(parts | changes))


def tracking(**changes: Any) -> Instance:
    """Return e = a with a in 1, 2, 4, for `Tracked`: the reward falls with the distance to x."""
    parts: dict[str, Any] = {
        "context": Schema({"x": Number()}),
        "arms": ArmList(values=(1.0, 2.0, 4.0)),
        "composition": Multiply(),
        "gate": [],
        "reward": Scaled(outcome=("reward",)),
    }
    return Instance(**(parts | changes))


@dataclass(frozen=True)
class HoldDear(Hold):
    """Hold what stands on a base above 500, pass the rest."""

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Hold by the context."""
        left, status = super().apply(draws, e, rows)
        dear = rows.x[:, 0] > 500.0
        return np.where(dear[:, None], left, e), np.where(dear, status, 0).astype(np.int8)


def letting(**changes: Any) -> Instance:
    """Return a live instance: dear cases are held, bounds of 50 to 400 close the chain."""
    parts: dict[str, Any] = {
        "context": Schema(
            {
                "base": Number(1, 1000),
                "busy": Number(-1, 1),
                "season": Category(("low", "high")),
                "gap": Flag(),
            }
        ),
        "arms": ArmList(values=(0.8, 1.0, 1.25)),
        "composition": Multiply(base=("base",), names=("price",)),
        "scaler": RidgeScaler(features=("busy",), every=4, penalty=1.0),
        "gate": Chain(
            (Approval(HoldDear(), name="owner"), Bounds(low=50.0, high=400.0, name="limits"))
        ),
        "reward": Payoff(outcome=("booked",), action=0),
    }
    return Instance(**(parts | changes))


def night(base: float = 100.0, busy: float = 0.0, **changes: Any) -> dict[str, Any]:
    """Return a context of `letting`."""
    return {"base": base, "busy": busy, "season": "low", "gap": False} | changes


def letting_log(n: int = 400, seed: int = 0) -> pl.DataFrame:
    """Return a log of `letting`: arms at random, an owner who now and then sets the base price."""
    rng = np.random.default_rng(seed)
    base, busy = rng.uniform(80.0, 300.0, n).round(), rng.uniform(-1.0, 1.0, n)
    proposed = np.clip(base * rng.choice([0.8, 1.0, 1.25], n), 50.0, 400.0)
    is_edited = rng.random(n) < 0.2
    price = np.where(is_edited, base, proposed)
    chance = 1.0 / (1.0 + np.exp(4.0 * (price / base - 1.0) - 0.5 * busy))
    return pl.DataFrame(
        {
            "base": base,
            "busy": busy,
            "season": rng.choice(["low", "high"], n),
            "gap": rng.random(n) < 0.3,
            "price": price,
            "recommended_price": proposed,
            "status": np.where(is_edited, "modified", "passed"),
            "booked": (rng.random(n) < chance).astype(int),
            "unit": rng.choice(["flat 0", "flat 1"], n),
            "label": 0.1 * busy,
            "time": pl.from_epoch(pl.Series(np.arange(n) * 3600 + 1_700_000_000), time_unit="s"),
        }
    )


def worked(
    instance: Instance | None = None,
    bandit: Bandit | None = None,
    n: int = 9,
    history: pl.DataFrame | None = None,
) -> Agent:
    """Return an agent that made n decisions and saw outcomes and labels of most of them."""
    agent = Agent(instance or letting(), bandit or BetaThompson(), seed=3)
    if history is not None:
        agent.warm_up(history)
    for i in range(n):
        base, busy = 60.0 + 40.0 * (i % 9), 0.2 * (i % 5) - 0.4
        case = agent.decide(night(base, busy), unit=f"flat {i % 3}")
        if i % 4 != 3:
            agent.observe(case.id, {"booked": i % 2}, label=[0.1 * (i % 3)])
    return agent


# Records


def rows_of(
    x: Any, unit: Any = None, group: Any = None, mask: Any = None, hidden: Any = None
) -> Rows:
    """Return rows of contexts x (N, p); by default every row has a unit of its own, one group."""
    x = np.asarray(x, dtype=float)
    n = x.shape[0]
    return Rows(
        np.arange(n) if unit is None else np.asarray(unit),
        np.zeros(n, dtype=np.int64) if group is None else np.asarray(group),
        x,
        mask,
        hidden,
    )


def log_of(x: Any, action: Any, arm: Any, y: Any, **changes: Any) -> Log:
    """Return finished rows of one unit in which the proposal ran unchanged under version 0."""
    x = np.asarray(x, dtype=float)
    n = x.shape[0]
    columns: dict[str, Any] = {
        "unit": np.zeros(n, dtype=np.int64),
        "group": np.zeros(n, dtype=np.int64),
        "x": x,
        "arm": np.asarray(arm),
        "version": np.zeros(n, dtype=np.int64),
        "action": np.asarray(action, dtype=float).reshape(n, -1),
        "is_null": np.zeros(n, dtype=bool),
        "is_own": np.ones(n, dtype=bool),
        "is_override": np.zeros(n, dtype=bool),
        "y": np.asarray(y, dtype=float),
        "scale": None,
        "weight": np.ones(n),
    }
    for name, value in changes.items():
        columns[name] = None if value is None else np.asarray(value)
    return Log(**columns)


def teach(instance: Instance, bandit: Bandit, state: turn.RoundState, log: Log) -> None:
    """Let both loops learn a log whose outcome has one column, y."""
    turn.learn(instance, bandit, state, log, log.y[:, None])


def stream(seed: int = 0, place: int = 0, block: int = 1_000_000) -> Stream:
    """Return a stream of its own place."""
    return Stream((seed, 99), place, block)


def live(agent: Agent) -> bytes:
    """Return the bytes of what an agent has learned."""
    return to_bytes(agent.state)


# Parts that do as they are told


@dataclass(slots=True)
class Nothing:
    """No knowledge at all, one zero a cell."""

    zeros: Array


@dataclass(frozen=True, eq=False)
class FixedDraw:
    """A bandit whose draw for a cell is a given row of `values` (cells, K); it never learns."""

    values: Array
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset()

    def init(self, group: Array, arms: Arms) -> Nothing:
        return Nothing(np.zeros(group.size))

    def draw(self, rng: Stream, state: Nothing, at: Setting) -> Array:
        return self.values[at.cell]

    def value(self, draw: Array, located: Located) -> Array:
        return take_arm(draw, located, 0.0)

    def mean(self, state: Nothing, at: Setting, located: Located) -> Array:
        return self.value(self.values[at.cell], located)

    def update(self, state: Nothing, evidence: Evidence) -> None:
        """Learn nothing."""


@dataclass(frozen=True)
class FickleRule(HardGate):
    """A hard gate that passes everything, except that it raises where base is above `limit`."""

    limit: float = 0.0
    name: str = "fickle"
    version: str = "1"

    def project(self, e: Array, rows: Rows) -> Array:
        if (rows.x[:, 0] > self.limit).any():
            raise RuntimeError("boom")
        return e

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        return "it may pass"


@dataclass(frozen=True)
class Fickle:
    """A gate of its own kind that passes everything, except that the methods named in `faces`
    raise where base is above `limit`."""

    limit: float = 0.0
    faces: tuple[str, ...] = ("apply", "expect")
    name: str = "fickle"
    version: str = "1"
    per: str = "group"
    is_hard: bool = True
    is_person: bool = False

    def _check(self, face: str, rows: Rows) -> None:
        if face in self.faces and (rows.x[:, 0] > self.limit).any():
            raise RuntimeError("boom")

    def check(self, columns: Sequence[Any]) -> None:
        pass

    def draw(self, rng: Any, n: int) -> None:
        if "draw" in self.faces:
            raise RuntimeError("boom")

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        self._check("apply", rows)
        return e, np.zeros(e.shape[0], dtype=np.int8)

    def expect(self, value: Value, e: Array, rows: Rows, kernel: Any = None) -> Array:
        self._check("expect", rows)
        return value(e)

    def moved(self, e: Array, rows: Rows) -> Array:
        self._check("moved", rows)
        return np.zeros(e.shape[:2])

    def init_kernel(self, n_owners: int, n_columns: int) -> None:
        return None

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None:
        """Learn nothing."""

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        self._check("reason", row)
        return "it may pass"


# Worlds


@dataclass(frozen=True)
class Coins:
    """A world of bare categories: arm k wins with probability p[k], whatever the context."""

    p: tuple[float, ...]

    def start(self, rng: Stream, group: Array) -> Array:
        return np.zeros(group.size)

    def context(self, rng: Stream, state: Array, t: int, group: Array) -> Rows:
        return Rows(np.arange(group.size), group, np.zeros((group.size, 1)))

    def mean(self, state: Array, e: Array, rows: Rows) -> Array:
        return np.array(self.p)[e[..., 0].astype(np.int64)]

    def best(self, state: Array, rows: Rows) -> Array:
        return np.full((rows.n, 1), float(np.argmax(self.p)))

    def candidates(self, state: Array, rows: Rows) -> Array:
        return np.tile(np.arange(len(self.p), dtype=float)[:, None], (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Array, e: Array, rows: Rows) -> Array:
        p = self.mean(state, e[:, None], rows)[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Array, e: Array, rows: Rows) -> None:
        return None

    def advance(self, rng: Stream, state: Array, e: Array, outcome: Array, rows: Rows) -> Array:
        return state


@dataclass(frozen=True)
class Tracked:
    """μ(e, x) = 1 − (e − x)², x uniform on [0, 5], unit noise; nothing run is worth −9."""

    noise: float = 1.0

    def start(self, rng: Stream, group: Array) -> Array:
        return np.zeros(group.size)

    def context(self, rng: Stream, state: Array, t: int, group: Array) -> Rows:
        return Rows(np.arange(group.size), group, 5.0 * rng.uniform(group.size, 1))

    def mean(self, state: Array, e: Array, rows: Rows) -> Array:
        value = 1.0 - (e[..., 0] - rows.x[:, :1]) ** 2
        return np.where(np.isnan(value), -9.0, value)

    def best(self, state: Array, rows: Rows) -> Array:
        return rows.x[:, :1]

    def candidates(self, state: Array, rows: Rows) -> Array:
        return np.tile(np.linspace(0.0, 5.0, 101)[:, None], (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Array, e: Array, rows: Rows) -> Array:
        mean = self.mean(state, e[:, None], rows)[:, 0]
        return (mean + self.noise * rng.normal(rows.n))[:, None]

    def label(self, rng: Stream, state: Array, e: Array, rows: Rows) -> None:
        return None

    def advance(self, rng: Stream, state: Array, e: Array, outcome: Array, rows: Rows) -> Array:
        return state


@dataclass(eq=False)
class Frame:
    """Rows behind the method that Polars has."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_dicts(self) -> list[dict[str, Any]]:
        return self.rows


@dataclass(eq=False)
class PandasFrame:
    """Rows behind the method that pandas has."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


def with_rules(instance: Instance, **rules: str) -> Instance:
    """Return the instance under other rules."""
    return replace(instance, rules=replace(instance.rules, **rules))
