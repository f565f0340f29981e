"""Broken files: a clear error each, and nothing comes out of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gdcb.errors import InvalidInput
from gdcb.history import open_log, read
from tests.log_builders import SEASONS, listing, nights


@pytest.fixture
def frame() -> pl.DataFrame:
    return nights(400)


def refused(given: Any, message: str, **settings: Any) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(given, listing(), **settings)


def test_a_truncated_parquet_file(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame.write_parquet(path)
    whole = path.read_bytes()
    for keep in (len(whole) // 2, len(whole) - 5, 3):
        path.write_bytes(whole[:keep])
        refused(path, r"log.parquet: cannot be read as Parquet: truncated")


def test_a_parquet_file_damaged_inside(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame.write_parquet(path, compression="zstd")
    whole = bytearray(path.read_bytes())
    whole[50:2000] = bytes(1950)  # the footer stays: only the rows are gone
    path.write_bytes(whole)
    refused(path, r"log.parquet: cannot be read as Parquet: truncated, damaged")


def test_text_that_calls_itself_parquet(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_text("base,price\n1,2\n" * 20)
    refused(path, "cannot be read as Parquet")


def test_a_truncated_gzip(frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.write_csv(tmp_path / "log.csv")
    packed = gzip.compress((tmp_path / "log.csv").read_bytes())
    path = tmp_path / "log.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    refused(path, r"log.csv.gz: cannot be read as CSV")


def test_a_csv_with_a_moved_column(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    frame.write_csv(path)
    header, rest = path.read_text().split("\n", 1)
    names = header.split(",")
    names[0], names[2] = names[2], names[0]  # 'base' and 'season' change places in the header
    path.write_text(",".join(names) + "\n" + rest)
    refused(path, r"columns look moved.*'base' breaks the schema in 400 of 400 rows, and.*'season'")


def test_a_csv_whose_header_lacks_a_name(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    frame.write_csv(path)
    header, rest = path.read_text().split("\n", 1)
    path.write_text(header.replace("weekend,", "") + "\n" + rest)
    refused(path, r"missing columns \(context: weekend\)")
    path.write_text(header.replace("reviewer,", "") + "\n" + rest)
    refused(path, "cannot be read as CSV: rows with more fields than the header")


def test_a_column_moved_under_the_name_of_names(frame: pl.DataFrame) -> None:
    moved = frame.rename({"base": "reviewer", "reviewer": "base"})
    refused(moved, r"columns look moved.*'base' breaks the schema.*under 'reviewer' would fit it")


def test_a_column_that_is_wrong_by_itself_is_not_called_moved(frame: pl.DataFrame) -> None:
    refused(
        frame.with_columns(base=pl.lit(True)),
        r"frame: nothing is read: 'base' breaks the schema in 400 of 400 rows: not a number",
    )


def test_two_columns_of_one_name(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    frame.write_csv(path)
    path.write_text(path.read_text().replace("reviewer", "base", 1))
    refused(path, "two columns are named 'base'")
    refused(
        "sqlite://",
        "two columns are named 'base'",
        query="SELECT 1 AS base, 1 AS weekend, 'low' AS season, 1 AS price, 1 AS booked, 2 AS base",
    )


@pytest.mark.parametrize("column", ["status", "unit", "season", "price", "time", "base"])
def test_cells_that_are_no_values_are_not_taken_for_missing(
    frame: pl.DataFrame, column: str
) -> None:
    listed = frame.with_columns(pl.lit([1]).alias(column))
    refused(listed, f"'{column}' breaks the schema in 400 of 400 rows")


def test_a_file_elsewhere(tmp_path: Path) -> None:
    refused("s3://bucket/log.parquet", "files are read from this machine")


def test_text_in_a_number(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    bad = frame.with_columns(
        pl.when(pl.int_range(400) % 100 == 7)
        .then(pl.lit("cheap"))
        .otherwise(pl.col("base").cast(pl.String))
        .alias("base")
    )
    bad.write_csv(path)
    batch, report = read(path, listing())
    assert batch.n == 396
    assert report.sentences() == [
        "base: not a number in 4 rows (row 8: 'cheap', row 108: 'cheap', row 208: 'cheap')"
    ]
    refused(
        path, "refused, strictly: 4 of 400 rows break the schema; base: not a number", strict=True
    )
    bad.with_columns(base=pl.lit("cheap")).write_csv(path)
    refused(path, "'base' breaks the schema in 400 of 400 rows")


@pytest.mark.parametrize("batch_rows", [100, 1000])
def test_mixed_time_zones(frame: pl.DataFrame, tmp_path: Path, batch_rows: int) -> None:
    path = tmp_path / "log.csv"
    text = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S")
    mixed = pl.when(pl.int_range(400) < 250).then(text + "Z").otherwise(text)
    frame.with_columns(time=mixed).write_csv(path)
    source = open_log(path, listing(), batch_rows=batch_rows)
    with pytest.raises(InvalidInput, match="mixed time zones in 'time'"):
        list(source.batches())
    with pytest.raises(InvalidInput, match="mixed time zones in 'time'"):
        _ = source.report


def test_mixed_time_zones_between_the_parts_of_a_log(frame: pl.DataFrame, tmp_path: Path) -> None:
    frame[:200].write_parquet(tmp_path / "a.parquet")
    frame[200:].with_columns(pl.col("time").dt.replace_time_zone(None)).write_parquet(
        tmp_path / "b.parquet"
    )
    refused(tmp_path, "mixed time zones: the files have different types: 'time'")
    csv = tmp_path / "csv"
    csv.mkdir()
    text = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S")
    frame[:200].with_columns(time=text + "Z").write_csv(csv / "a.csv")
    frame[200:].with_columns(time=text).write_csv(csv / "b.csv")
    source = open_log(csv, listing())
    parts = source.parts()
    for part in parts:
        list(part.batches())
    with pytest.raises(InvalidInput, match="mixed time zones"):
        source.settle([part.tally for part in parts if part.tally is not None])


def copied(n: int, path: Path, distinct: int) -> Path:
    """Write n rows of which only some differ, without making them all in Python."""
    few = nights(distinct).select("base", "weekend", "season", "price", "booked", "time")
    index = pl.LazyFrame({"at": np.arange(n, dtype=np.uint32) % distinct})
    rows = few.with_row_index("at")
    index.join(rows.lazy(), on="at", maintain_order="left").drop("at").sink_parquet(path)
    return path


@pytest.mark.parametrize("distinct", [1, 1000])
def test_a_million_duplicates(tmp_path: Path, distinct: int) -> None:
    path = copied(1_000_000, tmp_path / "log.parquet", distinct)
    refused(path, rf"{1_000_000 - distinct:,} of 1,000,000 rows \(.*\) are exact copies")


@pytest.mark.soak
def test_ten_million_duplicates(tmp_path: Path) -> None:
    path = copied(10_000_000, tmp_path / "log.parquet", 1000)
    refused(path, r"9,999,000 of 10,000,000 rows \(100.0%\) are exact copies")


def test_some_duplicates_are_said_and_refused_only_strictly(frame: pl.DataFrame) -> None:
    twice = pl.concat([frame, frame[:40]])
    batch, report = read(twice, listing())
    assert (batch.n, report.duplicates) == (440, 40)
    assert "40 of 440 rows (9.1%) are exact copies" in report.leaks[0]
    refused(twice, "refused, strictly: 40 of 440 rows", strict=True)


def test_rows_that_are_alike_by_chance_are_no_copies() -> None:
    rng = np.random.default_rng(3)
    n = 2000
    log = pl.DataFrame(
        {
            "base": np.full(n, 100.0),
            "weekend": rng.random(n) < 0.5,
            "season": rng.choice(SEASONS, n),
            "price": rng.choice([80.0, 100.0, 120.0], n),
            "booked": rng.integers(0, 2, n),
        }
    )
    _, report = read(log, listing(), strict=True)
    assert report.duplicates == n - 24  # two flags, two seasons, three prices, two outcomes
    assert "may be chance" in report.warnings[0]


def test_an_empty_file_and_a_file_without_rows(frame: pl.DataFrame, tmp_path: Path) -> None:
    for name in ("log.csv", "log.parquet", "log.csv.gz", "log.dsjson"):
        (tmp_path / name).write_bytes(b"")
        refused(tmp_path / name, f"{name}: the file is empty")
    frame[:0].write_csv(tmp_path / "rowless.csv")
    frame[:0].write_parquet(tmp_path / "rowless.parquet")
    refused(tmp_path / "rowless.csv", "rowless.csv: the log has no rows")
    refused(tmp_path / "rowless.parquet", "rowless.parquet: the log has no rows")
    refused(frame[:0], "the log has no rows")
    (tmp_path / "blank.csv").write_text("\n\n")
    refused(tmp_path / "blank.csv", "blank.csv: ")
    (tmp_path / "empty.csv.gz").write_bytes(gzip.compress(b""))
    refused(tmp_path / "empty.csv.gz", "empty.csv.gz: ")


def test_a_missing_file_an_unknown_ending_and_a_folder_without_parquet(tmp_path: Path) -> None:
    for name in ("log.csv", "log.parquet", "log.dsjson"):
        refused(tmp_path / name, f"{name}: there is no such file")
    refused(tmp_path, "the folder has no Parquet files")
    (tmp_path / "log.txt").write_text("base\n1\n")
    refused(tmp_path / "log.txt", r"expected a file that ends in \.csv")


def test_files_of_a_folder_with_different_schemas(frame: pl.DataFrame, tmp_path: Path) -> None:
    frame[:200].write_parquet(tmp_path / "a.parquet")
    frame[200:].with_columns(pl.col("base").cast(pl.String)).write_parquet(tmp_path / "b.parquet")
    refused(tmp_path, r"different types: 'base' is a number in .*a.parquet and text in .*b.parquet")
    frame[200:].drop("price").write_parquet(tmp_path / "b.parquet")
    refused(tmp_path, r"missing columns \(action: price\)")
    frame[200:].drop("status").write_parquet(tmp_path / "b.parquet")
    batch, report = read(tmp_path, listing())
    assert batch.status is None
    assert "Not all files" in report.warnings[0]
    assert "status" in report.warnings[0]
    whole = frame[200:].with_columns(base=pl.col("base").cast(pl.Int64))
    whole.write_parquet(tmp_path / "b.parquet")
    assert read(tmp_path, listing())[0].n == 400  # whole numbers are numbers


def test_text_that_is_not_utf8(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    frame.write_csv(path)
    path.write_bytes(path.read_bytes().replace(b",ann,", b",\xe4nn,"))
    refused(path, "cannot be read as CSV")


def test_a_log_in_which_no_row_fits(frame: pl.DataFrame) -> None:
    half = pl.int_range(400) % 2 == 0
    none = frame.with_columns(
        base=pl.when(half).then(-1.0).otherwise("base"),
        season=pl.when(half).then("season").otherwise(pl.lit("mid")),
    )
    refused(none, "none of 400 rows fits the schema: .*base: outside 1 to 1000 in 200 rows")


def test_a_broken_log_leaves_no_report(frame: pl.DataFrame) -> None:
    source = open_log(frame.with_columns(base=pl.lit(-1.0)), listing())
    with pytest.raises(InvalidInput):
        list(source.batches())
    for name in ("report", "fingerprint"):
        with pytest.raises(InvalidInput, match="breaks the schema in 400 of 400 rows"):
            getattr(source, name)


@pytest.mark.parametrize("batch_rows", [0, -5])
def test_batches_need_rows(frame: pl.DataFrame, batch_rows: int) -> None:
    with pytest.raises(InvalidInput, match="batch_rows: expected"):
        open_log(frame, listing(), batch_rows=batch_rows)
