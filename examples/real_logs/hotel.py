"""Bookings of two hotels: what a certificate says of a log in which nobody tried prices.

The log is that of Antonio, de Almeida and Nunes (2019), 'Hotel booking demand datasets', Data in
Brief 22, 41–49 (CC BY 4.0), as one file of both hotels; it is not part of this repository.

    python -m examples.real_logs.hotel PATH/TO/hotel_bookings.csv
"""

from __future__ import annotations

import argparse
import calendar
import dataclasses
from pathlib import Path

import polars as pl

import gdcb
from gdcb.history import Certificate, ReadReport, certify, open_log, read
from gdcb.log_columns import LogColumns

RELATIVE = (0.6, 0.8, 1.0, 1.2, 1.4, 1.6)  # arms: price relative to the base
COLUMNS = LogColumns(unit="house", time="booked")
# When columns were known that came after the booking: at its close, and at arrival.
LATE = dataclasses.replace(
    COLUMNS, decided={"reservation_status": "shut", "closed": "shut", "same_room": "arrived"}
)
_DAY = "%Y-%m-%dT00:00Z"
_MONTHS = {calendar.month_name[month]: month for month in range(1, 13)}


def log_of(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the log of a frame with the data set's columns: a row is one booking.

    price is the average daily rate, base its median in the same hotel and month of the year over
    all bookings, kept whether the booking was not cancelled, booked the day on which it was made:
    the day of arrival less the lead time.
    """
    month = pl.col("arrival_date_month").replace_strict(_MONTHS)
    arrival = pl.date(pl.col("arrival_date_year"), month, pl.col("arrival_date_day_of_month"))
    shut = pl.col("reservation_status_date").str.to_date()
    price, where = pl.col("adr").cast(pl.Float64), ("hotel", "arrival_date_month")
    return (
        frame.with_columns(
            house=pl.col("hotel"),
            price=price,
            kept=1 - pl.col("is_canceled"),
            nights=pl.col("stays_in_weekend_nights") + pl.col("stays_in_week_nights"),
            base=price.filter(price > 0).median().over(*where),
            booked=(arrival - pl.duration(days=pl.col("lead_time"))).dt.strftime(_DAY),
            arrived=arrival.dt.strftime(_DAY),
            shut=shut.dt.strftime(_DAY),
            closed=shut.dt.epoch("d").cast(pl.Float64),
            same_room=pl.col("assigned_room_type") == pl.col("reserved_room_type"),
            repeated=pl.col("is_repeated_guest") == 1,
        )
        .sort("booked", maintain_order=True)
        .drop("hotel")
    )


def instance(with_late: bool = False) -> gdcb.Instance:
    """Return the decision: a price relative to the base; with late columns, a leaking one."""
    number = gdcb.Number
    context: dict[str, object] = {
        "base": number(1, 1000, "median price of this hotel and month"),
        "house": gdcb.Category(("City Hotel", "Resort Hotel")),
        "lead_time": number(0, 800, "days from booking to arrival"),
        "nights": number(0, 100),
        "adults": number(0, 10),
        "previous_cancellations": number(0, 50),
        "repeated": gdcb.Flag(),
        "market_segment": gdcb.Category(
            (
                "Online TA",
                "Offline TA/TO",
                "Groups",
                "Direct",
                "Corporate",
                "Complementary",
                "Aviation",
            )
        ),
    }
    if with_late:
        context["reservation_status"] = gdcb.Category(("Check-Out", "Canceled", "No-Show"))
        context["closed"] = number(10_000, 30_000, "reservation_status_date, days since 1970")
        context["same_room"] = gdcb.Flag("assigned_room_type is the reserved one")
    return gdcb.Instance(
        name="bookings",
        title="Price of a booked night",
        context=gdcb.Schema(context),  # type: ignore[arg-type]
        arms=gdcb.ArmList(values=RELATIVE),
        composition=gdcb.Multiply(base=("base",), names=("price",)),
        gate=gdcb.Bounds(low=1.0, high=1000.0, name="price list"),
        reward=gdcb.Payoff(outcome=("kept",), action=0),
    )


def checked(
    log: pl.DataFrame, bookings: gdcb.Instance, full: bool = False
) -> tuple[Certificate, ReadReport]:
    """Return certificate and reading report of a log, for a learner of P(kept) an arm."""
    source = open_log(log, bookings, COLUMNS)
    return certify(source, bookings, gdcb.BetaThompson(), full=full), source.report


def late_leaks(log: pl.DataFrame, columns: LogColumns) -> list[str]:
    """Return what the guards say where columns from after the booking are given as context."""
    return read(log, instance(with_late=True), columns)[1].leaks


def _show(title: str, found: Certificate, report: ReadReport) -> None:
    print(f"\n## {title}: {found.verdict}\n")
    print(f"{report.read:,} bookings, {report.rejected:,} rejected, {report.duplicates:,} copies\n")
    print(
        "\n".join(
            f"- {said}"
            for said in (*found.reasons, *report.sentences(), *report.warnings, *report.leaks)
        )
    )
    print("\n| arm | verdict | rows | effective | bias | counts as |\n|---|---|--:|--:|--:|--:|")
    for arm in found.arms:
        bias = f"{arm.bias:.3f} ({arm.low:.3f} to {arm.high:.3f})"
        figures = f"{arm.rows:,.0f} | {arm.ess:,.0f} | {bias} | {arm.n_eff:,.0f}"
        print(f"| {arm.arm} | {arm.verdict} | {figures} |")
    print("\n| test | p | threshold |\n|---|--:|--:|")
    for test in found.tests:
        print(f"| {test.name} | {test.p:.2g} | {test.threshold:g} |")


def main() -> None:
    """Print what the certificate says: as it is, without copies, with columns that came late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the data set as CSV")
    given = parser.parse_args()
    frame = pl.read_csv(given.path, infer_schema_length=None, null_values=["NULL", "NA"])
    bookings = instance()
    _show("As it is", *checked(log_of(frame), bookings))
    single = log_of(frame.unique(maintain_order=True))
    _show("Without copies", *checked(single, bookings))
    for title, columns in (("", COLUMNS), (", and when they were known", LATE)):
        print(f"\n## With columns that were written later{title}\n")
        print("\n".join(f"- {said}" for said in late_leaks(single, columns)))


if __name__ == "__main__":
    main()
