"""Logs that are odd, or none: `gdcb check` answers by an error or a refusal, not a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from gdcb import history
from gdcb.cli import app

SHOP = """
name = "shop"
context.base = { type = "number", low = 10, high = 1000 }
context.busy = { type = "number", low = 0, high = 1 }
arms = { part = "list", values = [0.9, 1.0, 1.1, 1.2] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = []
bandit = { part = "gaussian-thompson" }
"""


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


ODD: dict[str, bytes] = {
    "nothing": b"",
    "a line end": b"\n",
    "a header": b"base,busy,price,reward\n",
    "a row": b"base,busy,price,reward\n100,0.5,90,1\n",
    "bytes": bytes(range(256)) * 8,
    "another encoding": "base,busy,price,reward\n100,0.5,90,1\n".encode("utf-16"),
    "a page": b"<html><body>not found</body></html>",
    "no outcomes": b"base,busy,price,reward\n" + b"100,0.5,90,\n110,0.4,99,\n120,0.3,144,\n" * 40,
    "no actions": b"base,busy,price,reward\n" + b"100,0.5,,1\n110,0.4,,2\n120,0.3,,3\n" * 40,
    "one value": b"base,busy,price,reward\n" + b"100,0.5,90,1\n" * 120,
    "huge numbers": b"base,busy,price,reward\n" + b"100,0.5,9e307,1e308\n110,0.4,99,-1e308\n" * 60,
    "an open quote": b'base,busy,price,reward\n100,"0.5,90,1\n110,0.4,99,2\n',
    "two columns of a name": b"base,base,price,reward\n100,0.5,90,1\n",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_log_gets_an_error_or_a_refusal_and_no_traceback(name: str, tmp_path: Path) -> None:
    log, file, page = tmp_path / "log.csv", tmp_path / "shop.toml", tmp_path / "c.html"
    log.write_bytes(ODD[name])
    file.write_text(SHOP, encoding="utf-8")
    code, _, err = _run("check", str(log), "--instance", str(file), "--out", str(page))
    assert code in (1, 3)
    assert "Traceback" not in err
    assert "a fault of gdcb" not in err
    assert page.exists() == (code == 3)
    assert (code == 3) or err.startswith("gdcb: ")


FAR = {
    "a year": pl.Series(["+10000-01-01"] * 60),
    "milliseconds": pl.Series([1_700_000_000_000 + i for i in range(60)]),
    "a large number": pl.Series(["1e300"] * 60),
    "a day": pl.Series([2**31 - 1] * 60, dtype=pl.Int32).cast(pl.Date),
    "microseconds": pl.Series([2**62] * 60).cast(pl.Datetime("us")),
}


@pytest.mark.parametrize("name", sorted(FAR))
def test_a_time_that_no_calendar_has_is_named(name: str, tmp_path: Path) -> None:
    """Times in milliseconds ended in a traceback, and in an error 500 of the service."""
    (tmp_path / "shop.toml").write_text(SHOP)
    log = pl.DataFrame({"base": [100.0, 50.0] * 30, "busy": 0.5, "price": [90.0, 50.0] * 30})
    log = log.with_columns(pl.Series("reward", np.arange(60.0)), FAR[name].alias("time"))
    log.write_parquet(tmp_path / "log.parquet")
    code, _, said = _run(
        "check", str(tmp_path / "log.parquet"), "--instance", str(tmp_path / "shop.toml")
    )
    assert code == 1
    assert "a time outside of the years 1 to 9999" in said
    assert "not milliseconds" in said


def test_a_column_without_a_name_can_be_no_outcome(tmp_path: Path) -> None:
    """pandas writes its row numbers under no name; a file that names it so is refused in words."""
    log, file = tmp_path / "log.csv", tmp_path / "shop.toml"
    rows = "".join(f"{i},100,0.5,{90 + 10 * (i % 3)},1\n" for i in range(100))
    log.write_text(",base,busy,price,reward\n" + rows, encoding="utf-8")
    file.write_text(SHOP + 'history.outcome = [""]\n', encoding="utf-8")
    code, _, err = _run(
        "check", str(log), "--instance", str(file), "--out", str(tmp_path / "c.html")
    )
    assert code == 1
    assert "history.outcome: expected the name of a log column, got ''" in err.replace("\n", " ")


def test_what_nobody_thought_of_is_an_error_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def certify(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(history, "certify", certify)
    log, file, page = tmp_path / "log.csv", tmp_path / "shop.toml", tmp_path / "c.html"
    log.write_text("base,busy,price,reward\n100,0.5,90,1\n", encoding="utf-8")
    file.write_text(SHOP, encoding="utf-8")
    code, _, err = _run("check", str(log), "--instance", str(file), "--out", str(page))
    assert code == 1
    assert "a fault of gdcb's and not of the log's (ZeroDivisionError" in err.replace("\n", " ")
    assert not page.exists()


def test_a_log_cut_and_garbled_at_random_never_ends_in_a_traceback(tmp_path: Path) -> None:
    """Twelve times a good log with some bytes lost, added or replaced; the seed is fixed."""
    rng, n = np.random.default_rng(8), 60
    base = rng.uniform(50, 200, n).round(1)
    price = (base * rng.choice([0.9, 1.0, 1.1], n)).round(1)
    data = {"base": base, "busy": rng.random(n).round(2), "price": price, "reward": rng.random(n)}
    good = pl.DataFrame(data).write_csv().encode()
    log, file = tmp_path / "log.csv", tmp_path / "shop.toml"
    file.write_text(SHOP, encoding="utf-8")
    for _ in range(12):
        odd = bytearray(good)
        for _ in range(int(rng.integers(1, 9))):
            at, size = int(rng.integers(0, len(odd))), int(rng.integers(1, 40))
            odd[at : at + size] = rng.integers(0, 256, int(rng.integers(0, 40)), "uint8").tobytes()
        log.write_bytes(bytes(odd))
        code, _, err = _run(
            "check", str(log), "--instance", str(file), "--out", str(tmp_path / "c.html")
        )
        assert code in (0, 1, 3)
        assert "a fault of gdcb" not in err
