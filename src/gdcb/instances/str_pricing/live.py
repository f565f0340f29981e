"""A small operator to show `str.toml` with: eight listings, their past, and nights to come.

Made: the operator, its listings, the manager and every booking. They live in the study's world
(`well`), with the study's people; only the names and base prices are chosen here. All is a
function of its arguments: a seed gives the same operator everywhere, and nothing reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb import declaration
from gdcb.arrays import Array
from gdcb.declaration import Declaration
from gdcb.errors import InvalidInput
from gdcb.gates import Chain, Review, SimulatedPerson
from gdcb.instance import Instance
from gdcb.instances.made_log import decoded, made_log
from gdcb.instances.str_pricing.columns import DAYS, INVENTORY, LEAD, MARKET, OCCUPANCY, SCHEMA
from gdcb.instances.str_pricing.domain import study
from gdcb.instances.str_pricing.manager import Manager
from gdcb.instances.str_pricing.world import Listings, Rental
from gdcb.parts import check_number
from gdcb.records import Rows
from gdcb.streams import (
    ADVANCE,
    CONTEXT,
    GATE,
    OUTCOME,
    WORLD,
    Stream,
    Streams,
    check_seed,
    key_of,
)

if TYPE_CHECKING:
    import polars as pl

# Made-up listings and their base prices; the prices lie within the law of the study's.
LISTINGS = {
    "Harbour View 2": 150.0,
    "Harbour View 5": 165.0,
    "Old Mill Studio": 95.0,
    "Quay Loft": 140.0,
    "Garden Flat": 115.0,
    "Lighthouse Cottage": 185.0,
    "Chapel House": 220.0,
    "The Boathouse": 260.0,
}
SEED = 1  # of the operator that is shown, picked because its certificate has no false alarm
MANAGER = "Ines (made up)"  # who answered in the past
LAST = date(2026, 3, 31)  # the day on which the past ends, unless another is named
# What a manager may give as a reason: the code that is counted, and what it says.
REASONS = {
    "fits": "the price fits the night",
    "too-dear": "the night will not sell at this price",
    "too-cheap": "the night will sell for more",
    "off-sale": "the night is not for sale",
}
VETO = 0.15  # share of what is not approved that is taken off sale
HALF_YEAR = 182.0  # days, the unit of lead time
NEAR = 0.03  # an own price nearer to the proposal than this share of it is no edit
_PRICED_AT = time(6, tzinfo=UTC)
_NAMES = dict(
    zip(
        DAYS,
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        strict=True,
    )
)
_OFF_SALE = (
    "The owner stays that night.",
    "The plumber comes; we keep it closed.",
    "Kept free for a guest who asked to stay on.",
)

Night = tuple[str, dict[str, Any]]
Answer = tuple[str, dict[str, float] | None, str, str]


@dataclass(frozen=True)
class Operator(Rental):
    """The study's world with this operator's listings, and contexts as people write them."""

    def start(self, rng: Stream, group: Array) -> Listings:
        """Draw the market and its demand; base prices are the operator's."""
        base = np.resize(np.array(list(LISTINGS.values())), group.size)
        return replace(super().start(rng, group), base=base)

    def context(self, rng: Stream, state: Listings, t: int, group: Array) -> Rows:
        """Reveal a night of every listing: shares in per cent, lead time in whole days."""
        rows = super().context(rng, state, t, group)
        places = [OCCUPANCY, INVENTORY, MARKET]
        rows.x[:, places] = rows.x[:, places].round(2)
        rows.x[:, LEAD] = (np.round(rows.x[:, LEAD] * HALF_YEAR) / HALF_YEAR).round(4)
        return rows


@cache
def declared() -> Declaration:
    """Return what `str.toml` declares."""
    file = files("gdcb.instances") / "str_pricing" / "str.toml"
    return declaration.parse(file.read_text(encoding="utf-8"), where="str.toml")


def person() -> SimulatedPerson:
    """Return who answers in the past and in a feed: the study's manager, who vetoes at times."""
    return replace(Manager().person, veto=VETO)


def rehearsed(instance: Instance) -> Instance:
    """Return a live instance with a simulated manager where a real one is asked."""
    gates = tuple(
        replace(gate, person=person()) if isinstance(gate, Review) else gate
        for gate in instance.chain.gates
    )
    return replace(instance, gate=Chain(gates, closed=instance.chain.closed))


def past(
    seed: int, days: int = 30, listings: int = 8, *, nights: int = 6, last: date = LAST
) -> pl.DataFrame:
    """Return some days of the operator before there was a bandit, as `Agent.warm_up` reads them.

    A price list proposed, the gates of `str.toml` answered with a simulated manager behind them,
    and guests of the study's world booked or did not. As in the study, the day of the week of a
    night is drawn, and does not follow from `time` and lead time.

    Parameters
    ----------
    seed : of the operator; a `Feed` of the same seed goes on with it
    days : how many
    listings : how many of `LISTINGS`, in their order
    nights : open nights that were priced a day and listing. With few the certificate refuses the
        log: six in a month make about as many rows as the study's history has
    last : day of the last row

    Returns
    -------
    One row a night that was priced, in order. Columns: time, unit, the context, recommended_price,
    price (empty: taken off sale), status_GATE of both gates, booked and reviewer (empty: nobody
    was asked).

    Notes
    -----
    Nothing changes in this past and the manager knows no more than the log. Still the tests of a
    certificate raise a false alarm in about one log of twenty, and some of these refuse it. `SEED`
    has none.
    """
    import polars as pl

    check_seed(seed)
    _check_whole("days", days, 1, 3650)
    _check_whole("listings", listings, 1, len(LISTINGS))
    _check_whole("nights", nights, 1, 100)
    subject = study("well", {}, 1)
    instance = rehearsed(declared().instance)
    domain = replace(subject.domain, instance=instance, world=Operator(), units=len(LISTINGS))
    # All listings are drawn, so that fewer of them have the same nights as all.
    made = made_log(replace(subject, domain=domain), days * nights * len(LISTINGS), seed)
    first = datetime.combine(last, _PRICED_AT) - timedelta(days=days - 1)
    names = list(LISTINGS)
    return made.with_columns(
        time=pl.lit(first) + pl.duration(days=pl.col("time") // nights),
        unit=pl.col("unit").cast(pl.Int64).replace_strict(dict(enumerate(names))),
        recommended_price=pl.col("recommended_price").round(2),
        price=pl.col("price").round(2),
        reviewer=pl.when(pl.Series(_is_asked(instance, made))).then(pl.lit(MANAGER)),
    ).filter(pl.col("unit").is_in(names[:listings]))


def _is_asked(instance: Instance, log: pl.DataFrame) -> list[bool]:
    """Return of which rows the manager was asked."""
    gate = next(gate for gate in instance.chain.gates if isinstance(gate, Review))
    rows = _rows(SCHEMA.encode(log.select(list(SCHEMA.columns)).to_dicts()))
    proposed = log["recommended_price"].to_numpy()[:, None, None]
    return [bool(one) for one in gate.flags(proposed, rows)[:, 0]]


@dataclass(frozen=True)
class Feed:
    """Nights to come at one operator, and what its guests and its manager would do.

    Nothing is remembered: nights have numbers, and answers are keyed by what was asked.

    Parameters
    ----------
    seed : of the operator; `past` of the same seed came before

    Examples
    --------
    >>> feed = Feed(7)
    >>> [(unit, context)] = feed.nights(1)
    >>> unit, context["base"], context["day"]
    ('Garden Flat', 115.0, 'thu')
    >>> feed.nights(3)[1:] == feed.nights(2, first=1)
    True
    >>> [feed.outcome(unit, context, price)["booked"] for price in (40.0, 600.0)]
    [1, 0]
    """

    seed: int
    _world: Operator = field(default_factory=Operator, init=False, repr=False)
    _state: Listings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_seed(self.seed)
        state = self._world.start(self._streams().at(WORLD, 0), _group())
        object.__setattr__(self, "_state", state)

    def nights(self, n: int, first: int = 0) -> list[Night]:
        """Return the nights number `first` to `first` + n − 1, as (unit, context).

        Every eight of them are one of each listing, in an order of their own.
        """
        _check_whole("n", n, 0)
        _check_whole("first", first, 0)
        streams, size = self._streams(), len(LISTINGS)
        found: list[Night] = []
        for t in range(first // size, -(-(first + n) // size)):
            rows = self._world.context(streams.at(CONTEXT, t), self._state, t, _group())
            order = streams.at(ADVANCE, t).uniform(size).argsort().tolist()
            found += _named(rows.take(np.array(order)))
        return found[first % size : first % size + n]

    def outcome(self, unit: str, context: Mapping[str, Any], price: float | None) -> dict[str, int]:
        """Return whether a guest books: the same night and price have the same answer.

        A night has one guest: who books at a price books at a lower one. No price: off sale.
        """
        rows, stream = self._night(unit, context, OUTCOME)
        u = stream.uniform(1)[0]
        if price is None:
            return {"booked": 0}
        check_number("price", price, 0.0, open_low=True)
        chance = self._world.chance(self._state, np.array([[[float(price)]]]), rows)[0, 0]
        return {"booked": int(u < chance)}

    def person(self, unit: str, context: Mapping[str, Any], price: float) -> Answer:
        """Return how the manager answers a price: verdict, action, code of the reason, words.

        The action is None unless the verdict is 'edit'; codes are those of `REASONS`.
        """
        check_number("price", price, 0.0, open_low=True)
        rows, stream = self._night(unit, context, GATE)
        who = person()
        draws = who.draw(stream, 1)
        own = float(who.apply(draws, np.array([[float(price)]]), rows)[0][0, 0])
        busy = f"{100 * float(context['occupancy']):.0f} % booked nearby"
        day = _NAMES[str(context["day"])]
        if np.isnan(own):
            return "veto", None, "off-sale", _OFF_SALE[int(draws[0, 2] * len(_OFF_SALE))]
        if abs(own / price - 1.0) < NEAR:
            return "approve", None, "fits", f"{day}, {busy}. It fits."
        mine = float(round(own))
        if mine < price:
            return "edit", {"price": mine}, "too-dear", f"{day}, {busy}: {mine:.0f} is enough."
        return "edit", {"price": mine}, "too-cheap", f"{day}, {busy}: {mine:.0f} will sell."

    def _streams(self) -> Streams:
        return Streams(self.seed, len(LISTINGS))

    def _night(self, unit: str, context: Mapping[str, Any], stage: int) -> tuple[Rows, Stream]:
        """Return the row of a night, and the random numbers that are its own."""
        if unit not in LISTINGS:
            raise InvalidInput(f"unit: expected one of {', '.join(LISTINGS)}; got {unit!r}")
        x = SCHEMA.encode([context])
        rows = _rows(x, list(LISTINGS).index(unit))
        return rows, Stream((self.seed, key_of(f"{unit} {x.tolist()}")), stage, 1)


def _group() -> Array:
    return np.zeros(len(LISTINGS), dtype=np.int64)


def _rows(x: Array, unit: int = 0) -> Rows:
    return Rows(np.full(x.shape[0], unit), np.zeros(x.shape[0], dtype=np.int64), x)


def _named(rows: Rows) -> list[Night]:
    """Return rows as a caller would send them."""
    columns = {name: list(values) for name, values in decoded(SCHEMA, rows.x).items()}
    names, found = list(LISTINGS), []
    for i, unit in enumerate(rows.unit.tolist()):
        context = {name: values[i] for name, values in columns.items()}
        plain = {k: float(v) if isinstance(v, float) else v for k, v in context.items()}
        found.append((names[unit], plain))
    return found


def _check_whole(where: str, value: object, low: int, high: int = 2**40) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if not is_whole:
        raise InvalidInput(f"{where}: expected a whole number from {low} to {high}, got {value!r}")
