"""Adapters for public logs, on made frames with the same columns: no test needs the data."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from examples.real_logs import credit, hotel
from gdcb import analysis
from gdcb.errors import InvalidInput
from gdcb.history import open_log, read


def loans_frame(n: int = 240, **other: object) -> pl.DataFrame:
    """Letters of two risks and three waves; rates are 0.5, 0.8 or 1 of the standard one."""
    row = np.arange(n)
    risk = np.where(row % 2 == 0, "LOW", "HIGH")
    standard = np.where(row % 2 == 0, 7.75, 11.75)
    rate = standard * np.array([0.5, 0.8, 1.0])[row // 2 % 3]
    took = (row % 5 == 0).astype(int)
    columns = {
        "risk": risk,
        "wave": 1 + row // 6 % 3,
        "offer4": rate,
        "normrate_less": np.ones(n, dtype=int),
        "tookup": took,
        "grossinterest": 100.0 * took,
        "pstdue_average": [30.0 if one else None for one in took],
        "itcscore": 500 + row % 100,
        "appscore": 20.0 + row % 7,
        "age": 20.0 + row % 40,
        "trcount": 1.0 + row % 4,
        "dormancy": row % 12,
        "lastamount": 500.0 + 10 * (row % 9),
        "province": ["Gauteng"] * n,
    }
    return pl.DataFrame(columns | other)


def bookings_frame(n: int = 120, **other: object) -> pl.DataFrame:
    row = np.arange(n)
    columns = {
        "hotel": np.where(row % 2 == 0, "City Hotel", "Resort Hotel"),
        "is_canceled": (row % 3 == 0).astype(int),
        "lead_time": 10 + row % 30,
        "arrival_date_year": [2016] * n,
        "arrival_date_month": ["July"] * n,
        "arrival_date_day_of_month": 1 + row % 28,
        "stays_in_weekend_nights": row % 2,
        "stays_in_week_nights": [2] * n,
        "adults": 1 + row % 3,
        "previous_cancellations": row % 2,
        "is_repeated_guest": row // 7 % 2,
        "market_segment": ["Direct"] * n,
        "adr": 80.0 + 20.0 * (row // 2 % 3),
        "reserved_room_type": ["A"] * n,
        "assigned_room_type": np.where(row % 4 == 0, "B", "A"),
        "reservation_status": np.where(row % 3 == 0, "Canceled", "Check-Out"),
        "reservation_status_date": ["2016-07-30"] * n,
    }
    return pl.DataFrame(columns | other)


def test_a_letter_earns_its_interest_less_what_is_past_due() -> None:
    log = credit.log_of(loans_frame(5))
    assert log["net"].to_list() == [70.0, 0.0, 0.0, 0.0, 0.0]
    assert log["standard"].to_list() == [7.75, 11.75, 7.75, 11.75, 7.75]
    assert log["posted"][0] == "2003-07-01T00:00Z"


def test_offers_above_the_standard_rate_are_left_out() -> None:
    frame = loans_frame(6, normrate_less=[1, 0, 1, 1, 0, 1])
    assert credit.log_of(frame).height == 4


def test_a_propensity_is_the_share_of_a_cell_within_risk_and_wave() -> None:
    # One risk, one wave: rates of 0.5, 0.5, 0.5 and 0.8 of the standard.
    frame = loans_frame(4, risk=["LOW"] * 4, wave=[1] * 4, offer4=[3.875, 3.9, 3.85, 6.2])
    assert credit.log_of(frame)["propensity"].to_list() == [0.75, 0.75, 0.75, 0.25]
    # With another wave for the last, each wave has one cell only.
    apart = frame.with_columns(wave=pl.Series([1, 1, 1, 2]))
    assert credit.log_of(apart)["propensity"].to_list() == [1.0, 1.0, 1.0, 1.0]


def test_the_log_reads_into_the_instance_and_bad_rows_are_named() -> None:
    age = [0.0, *[30.0] * 239]
    rows, report = read(credit.log_of(loans_frame(age=age)), credit.instance(), credit.COLUMNS)
    assert (report.valid, report.rejected) == (239, 1)
    assert report.reasons[0]["column"] == "age"
    assert rows.action[0, 0] == pytest.approx(11.75 * 0.5)


def test_logged_and_counted_propensities_agree() -> None:
    loans = credit.instance()
    rows, _ = read(credit.log_of(loans_frame()), loans, credit.COLUMNS)
    own = credit.feedback_of(loans, rows, [])[0]
    counted = own.behaviour[np.arange(rows.n), own.cell]
    assert rows.propensity is not None
    np.testing.assert_allclose(counted, rows.propensity)
    np.testing.assert_allclose(own.behaviour.sum(axis=1), 1.0)


def test_every_rate_up_to_the_standard_one_is_on_an_arm() -> None:
    loans = credit.instance()
    offers = np.repeat(np.array([[[3.25], [7.0], [11.75]]]), 3, axis=0)
    frame = credit.log_of(loans_frame(6, risk=["HIGH"] * 6))
    rows, _ = read(frame, loans, credit.COLUMNS)
    cell = analysis.arm_cells(loans, offers, np.ones((3, 1, 1)), rows.x[:3])
    assert cell.tolist() == [[0, 2, 4]] * 3


def test_halves_are_disjoint_whole_and_the_same_again() -> None:
    log = credit.log_of(loans_frame()).with_row_index()
    one, other = credit.halves(log, 1)
    assert one.height == other.height == 120
    assert sorted([*one["index"], *other["index"]]) == list(range(240))
    assert one.equals(credit.halves(log, 1)[0])
    assert not one.equals(credit.halves(log, 2)[0])


def test_what_one_half_teaches_is_a_law_on_the_other() -> None:
    loans = credit.instance()
    one, other = credit.halves(credit.log_of(loans_frame(600)))
    state, units = credit.learned(loans, one)
    rows, _ = read(other, loans, credit.COLUMNS)
    law = credit.proposals(loans, state, rows)
    assert units == ("HIGH", "LOW")
    assert law.shape == (300, len(credit.SHARES))
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-6)
    own, ours = credit.feedback_of(loans, rows, [law])
    assert analysis.evaluate(own, "snips").mean == pytest.approx(rows.outcome[:, 0].mean())
    net = rows.outcome[:, 0]
    within = (min(0.0, float(net.min())), float(net.max()))  # some arms are rare in so few rows
    gain = analysis.difference(ours, own, reward_range=within)
    assert gain.mean is not None
    assert gain.low <= gain.mean <= gain.high


def test_a_cap_above_every_rate_changes_nothing() -> None:
    loans = credit.instance()
    rows, _ = read(credit.log_of(loans_frame()), loans, credit.COLUMNS)
    (answer,) = credit.lower_caps(loans, rows, (12.0,))
    assert (answer.kind, answer.changed) == ("value", 0.0)
    assert answer.value is not None
    assert answer.value.mean == pytest.approx(rows.outcome[:, 0].mean())


def test_a_booking_is_dated_by_arrival_and_lead_time() -> None:
    log = hotel.log_of(bookings_frame(1))
    assert log["booked"][0] == "2016-06-21T00:00Z"  # 1 July less 10 days
    assert (log["kept"][0], log["nights"][0], log["base"][0]) == (0, 2, 80.0)


def test_the_base_is_the_median_of_what_was_paid_by_hotel_and_month() -> None:
    frame = bookings_frame(4, hotel=["City Hotel"] * 4, adr=[0.0, 80.0, 100.0, 150.0])
    assert set(hotel.log_of(frame)["base"]) == {100.0}


def test_bookings_read_into_the_instance_in_order_of_booking() -> None:
    rows, report = read(hotel.log_of(bookings_frame()), hotel.instance(), hotel.COLUMNS)
    assert (report.rejected, rows.n) == (0, 120)
    assert (np.diff(rows.time) >= 0).all()


def test_columns_from_after_the_booking_are_named() -> None:
    log = hotel.log_of(bookings_frame())
    blind = " ".join(hotel.late_leaks(log, hotel.COLUMNS))
    assert "'reservation_status' all but determines" in blind
    assert "'same_room'" not in blind  # nothing but its time says that it came late
    told = " ".join(hotel.late_leaks(log, hotel.LATE))
    for name in ("reservation_status", "closed", "same_room"):
        assert f"'{name}' was known only after the decision" in told


def test_copies_are_counted() -> None:
    frame = pl.concat([bookings_frame(), bookings_frame(30)])
    _, report = read(hotel.log_of(frame), hotel.instance(), hotel.COLUMNS)
    assert report.duplicates >= 30


def test_strict_reading_refuses_a_column_from_after_the_booking() -> None:
    source = open_log(
        hotel.log_of(bookings_frame()), hotel.instance(with_late=True), hotel.LATE, strict=True
    )
    with pytest.raises(InvalidInput, match="reservation_status"):
        list(source.batches())
