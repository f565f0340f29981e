"""Files that are small and stand for much: they are refused, and nobody else notices."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gdcb.errors import InvalidInput
from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.service import deciding, uploads
from gdcb.service.api import instances
from gdcb.service.uploads import Wanted, read_upload, rows_for
from tests.service.http import ROOMS, Site, problem, site

PARQUET = "application/vnd.apache.parquet"
AT = f"/v1/instances/{ROOMS}/history"
# Made elsewhere, so that what making it takes is not measured here: 600 MB of text in some kB.
_BOMB = """
import sys, polars as pl
text = "x" * 10_000_000
ones = {"busy": [1.0] * 30, "booked": [1.0] * 30}
log = pl.DataFrame({"base": [text] * 30, "price": [text] * 30} | ones)
log.write_parquet(sys.argv[1], compression="zstd")
"""


@pytest.fixture
def here(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path) as made:
        yield made


def everything(names: list[str]) -> Wanted:
    return Wanted(names)


def parquet(log: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    log.write_parquet(out, compression="zstd")
    return out.getvalue()


def resident() -> int:
    """Return the MiB of memory that this process holds."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc")
def test_a_small_file_that_stands_for_much_takes_no_memory_here(here: Site, tmp_path: Path) -> None:
    made = tmp_path / "bomb.parquet"
    subprocess.run([sys.executable, "-c", _BOMB, str(made)], check=True)
    raw = made.read_bytes()
    assert len(raw) < 100_000
    headers, before, peak = here.shop | {"content-type": PARQUET}, resident(), [0]
    is_over: list[bool] = []

    def measure() -> None:
        while not is_over:
            peak[0] = max(peak[0], resident())
            time.sleep(0.005)

    measuring = threading.Thread(target=measure)
    measuring.start()
    answer = here.ask("POST", AT, headers, content=raw)
    is_over.append(True)
    measuring.join()
    assert answer.status_code == 422
    assert "texts of at most 1,000 bytes" in problem(answer)["message"]
    assert peak[0] - before < 200


def test_many_equal_rows_are_refused_by_their_number() -> None:
    raw = parquet(pl.select(price=pl.repeat(1.0, uploads.ROWS + 1)))
    assert len(raw) < 100_000
    with pytest.raises(InvalidInput, match=r"^history.parquet: expected at most 1,000,000 rows"):
        read_upload(raw, ".parquet", everything)
    with pytest.raises(InvalidInput, match=r"^history.csv: expected at most 1,000,000 rows"):
        read_upload(b"price\n" + b"1\n" * (uploads.ROWS + 1), ".csv", everything)


def test_a_wide_context_has_fewer_rows() -> None:
    raw = parquet(pl.select(price=pl.repeat(1.0, 2_001)))
    with pytest.raises(InvalidInput, match="at most 2,000 rows with so many numbers"):
        read_upload(raw, ".parquet", lambda names: Wanted(names, rows_for(1_000)))


def test_many_units_are_refused() -> None:
    raw = parquet(pl.select(unit=pl.int_range(uploads.UNITS + 1)))
    with pytest.raises(InvalidInput, match=r"'unit': expected at most 20,000 different values"):
        read_upload(raw, ".parquet", lambda names: Wanted(names, named=["unit"]))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"," * 1_000_000, "a first line of at most 256 KiB"),
        (b"," * 1_000 + b"\n", "at most 1,000 columns, got 1,001"),
        (b";" * 1_000, "at most 1,000 columns, got 1,001"),
        (b'"a\n' + b"," * 2_000 + b'"' + b",b" * 1_500, "at most 1,000 columns, got 1,501"),
        (b"\x1f\x8b\x08\x00", "expected plain text, got a compressed file"),
        *((zlib.compress(b"price\n1\n", level), "got a compressed file") for level in (0, 3, 6, 9)),
        (b"price\n" + b"x" * 1_001 + b"\n", "'price': expected texts of at most 1,000 bytes"),
        (b"p" * 1_001 + b"\n1\n", "names of columns of at most 1,000 bytes"),
    ],
)
def test_a_csv_beyond_the_limits_is_refused(raw: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=r"^history.csv: ") as refused:
        read_upload(raw, ".csv", everything)
    assert says in str(refused.value)


def test_a_first_column_called_like_the_first_bytes_of_zlib_is_read() -> None:
    """'x^' is how a zlib stream may begin, and what Polars then tries to unpack."""
    read = read_upload("x^2,größe\n4,1\n9,2\n".encode(), ".csv", everything)
    assert read.names == ["x^2", "größe"]
    assert read.data["x^2"].cast(pl.Int64).to_list() == [4, 9]


@pytest.mark.parametrize(
    ("values", "kind"), [([[1.0, 2.0]], "List"), ([{"a": 1}], "Struct"), ([b"ab"], "Binary")]
)
def test_nested_and_binary_columns_are_refused_where_they_are_needed(
    values: list[object], kind: str
) -> None:
    raw = parquet(pl.DataFrame({"price": values, "booked": [1.0]}))
    with pytest.raises(InvalidInput, match=f"'price' holds {kind}"):
        read_upload(raw, ".parquet", everything)
    found = read_upload(raw, ".parquet", lambda names: Wanted(names[1:], 10))
    assert (found.columns(), found.data.columns) == (["price", "booked"], ["booked"])


@pytest.mark.parametrize(("what", "value"), [("MEMORY", 64 * 2**20), ("SECONDS", 0.05)])
def test_a_reader_without_memory_or_time_ends_alone(
    monkeypatch: pytest.MonkeyPatch, what: str, value: float
) -> None:
    monkeypatch.setattr(uploads, what, value)
    with pytest.raises(InvalidInput, match=r"^history.csv: cannot be read with .* in .* seconds"):
        read_upload(b"price\n1\n", ".csv", everything)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whom it ends first")
def test_where_memory_runs_out_a_reader_ends_first() -> None:
    """Linux ended the largest process: the service."""
    code = (
        "from pathlib import Path; from gdcb.service import uploads; "
        "uploads._confine(2**32, 60.0); print(Path('/proc/self/oom_score_adj').read_text())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "1000"


def test_what_is_read_is_what_the_file_says() -> None:
    log = pl.DataFrame({"price": [1.5, None], "day": ["mon", "tue"], "n": [1, 2]})
    found = read_upload(parquet(log), ".parquet", lambda names: Wanted(["day", "price"], 10))
    assert found.data.equals(log.select("day", "price"))
    text = read_upload(log.write_csv().encode(), ".csv", everything)
    assert text.data.to_dict(as_series=False) == {
        "price": ["1.5", None],
        "day": ["mon", "tue"],
        "n": ["1", "2"],
    }


def test_a_refusal_names_a_dozen_columns(here: Site) -> None:
    header = ",".join(f"c{i}" for i in range(900)).encode()
    headers = here.shop | {"content-type": "text/csv"}
    answer = here.ask("POST", AT, headers, content=header + b"\n")
    said = problem(answer)["message"]
    assert "missing columns" in said
    assert "c11, …" in said
    assert "c12" not in said


@pytest.mark.parametrize("kind", ["text/csv", PARQUET])
def test_a_file_has_no_say_on_its_own_rows(here: Site, kind: str) -> None:
    """Its column of this name was taken for what the reader of a log says against a row."""
    log = pl.read_csv(small_log()).with_columns(pl.lit("read me").alias("__fault__"))
    raw = log.write_csv().encode() if kind == "text/csv" else parquet(log)
    answer = here.ask("POST", AT, here.shop | {"content-type": kind}, content=raw)
    assert answer.status_code == 422
    said = problem(answer)["message"]
    assert said.endswith("expected no column called '__fault__'; rename or remove it")
    assert "read me" not in answer.text


def test_an_instance_reads_one_file_at_a_time(here: Site) -> None:
    here.house.uploads._names.add(ROOMS)
    headers = here.shop | {"content-type": "text/csv"}
    answer = here.ask("POST", AT, headers, content=b"a,b\n1,2\n")
    assert answer.status_code == 429
    assert "another file is being read" in problem(answer)["message"]


def small_log(n: int = 60, units: int = 1) -> bytes:
    """Return a log of the shop with so many units."""
    rng = np.random.default_rng(1)
    rows = {
        "base": np.full(n, 100.0),
        "busy": rng.random(n).round(2),
        "price": 100.0 * rng.choice([0.9, 1.0, 1.1], n),
        "booked": rng.integers(0, 2, n),
        "unit": np.arange(n) % units,
    }
    return pl.DataFrame(rows).write_csv().encode()


def test_units_of_a_history_need_room_too(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 units were taken from a file where 64 MiB were allowed, and held 238."""
    monkeypatch.setattr(deciding, "MEBIBYTE", 1)
    headers, before = here.shop | {"content-type": "text/csv"}, here.heads()
    answer = here.ask("POST", AT, headers, content=small_log(200, 50))
    assert answer.status_code == 422
    assert "what is learned of 50 units would take" in problem(answer)["message"]
    assert here.heads() == before


def test_a_history_that_comes_too_late_is_not_read(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read and certified first: 28 seconds of a processor for a refusal."""
    read: list[bytes] = []
    monkeypatch.setattr(instances, "read_upload", lambda raw, *_: read.append(raw))
    with site(sqlite_template, tmp_path) as there:
        there.decide("a1")
        headers = there.shop | {"content-type": "text/csv"}
        answer = there.ask("POST", AT, headers, content=small_log())
        assert answer.status_code == 409
        assert "it comes before the first decision" in problem(answer)["message"]
    assert read == []


def test_nobody_waits_for_the_store_while_a_history_is_learned(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was learned in the transaction: decisions of other instances waited for seconds."""
    real_write, real_foresee = SqlStore.writing, Live.foresee_import
    inside: list[bool] = []
    depth = [0]

    @contextmanager
    def writing(store: SqlStore, chain: str) -> Iterator[Any]:
        with real_write(store, chain) as found:
            depth[0] += 1
            try:
                yield found
            finally:
                depth[0] -= 1

    def foresee(live: Live, *given: Any) -> Any:
        inside.append(depth[0] > 0)
        return real_foresee(live, *given)

    with site(sqlite_template, tmp_path) as there:
        monkeypatch.setattr(SqlStore, "writing", writing)
        monkeypatch.setattr(Live, "foresee_import", foresee)
        headers = there.shop | {"content-type": "text/csv"}
        answer = there.ask("POST", AT, headers, content=small_log(600))
        assert answer.status_code == 200, answer.text
    assert inside
    assert not any(inside)


def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was being read when the service was killed stayed on the disk for ever."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, age in (("gdcb-upload-old", 7200.0), ("gdcb-upload-new", 60.0), ("other", 7200.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.csv").write_text("a,b")
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    uploads.remove_left()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gdcb-upload-new", "other"]
