"""`gdcb check`: what it prints, what it writes, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from gdcb import history
from gdcb.cli import app
from gdcb.cli.check import _command, _instance
from gdcb.instances import NAMES, load
from tests.certificate_document import build
from tests.page_checks import is_whole

runner = CliRunner()

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
    result = runner.invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def shop(tmp_path: Path) -> tuple[str, str]:
    """Return a log of three randomised arms out of four, and the file that declares them."""
    rng, n = np.random.default_rng(5), 1500
    base, busy = rng.uniform(50, 200, n), rng.uniform(0, 1, n)
    arm = rng.choice([0.9, 1.0, 1.1], n)
    reward = 1.0 + 0.4 * busy - (arm - 1.0) ** 2 + rng.normal(0, 0.5, n)
    log = {"base": base, "busy": busy, "price": base * arm, "reward": reward}
    pl.DataFrame(log).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "shop.toml").write_text(SHOP, encoding="utf-8")
    return str(tmp_path / "log.parquet"), str(tmp_path / "shop.toml")


@pytest.fixture
def certified(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace reading and certifying; return what they were asked, and answer a made document."""
    asked: list[dict[str, Any]] = [{"document": build(5)}]

    class Certificate:
        def as_json(self) -> dict[str, Any]:
            return dict(asked[0]["document"])

    def open_log(*given: Any, **more: Any) -> str:
        asked.append({"opened": given, **more})
        return "a log"

    def certify(*given: Any, progress: Any, **more: Any) -> Certificate:
        asked.append({"certified": given, **more})
        progress(1, 2)
        progress(2, 2)
        return Certificate()

    monkeypatch.setattr(history, "open_log", open_log, raising=False)
    monkeypatch.setattr(history, "certify", certify, raising=False)
    return asked


def test_a_log_is_certified_and_the_page_is_filed(shop: tuple[str, str], tmp_path: Path) -> None:
    """From the file to the page, by way of the certificate itself."""
    log, toml = shop
    code, out, _ = _run("check", log, "--instance", toml, "--out", str(tmp_path / "c.html"))
    document = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert code == (3 if document["verdict"] == "refuse" else 0)
    assert {arm["arm"]: arm["verdict"] for arm in document["arms"]}["1.2"] == "refuse"
    assert document["rows"]["read"] == 1500
    for word in ("1.2", "refused", "1.1", "c.html", "c.json", "Ungated: there is no gate"):
        assert word in out
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    is_whole(page)
    assert document["fingerprint"] in page
    assert "gdcb check" in document["command"]


def test_json_is_the_document_and_nothing_else(shop: tuple[str, str], tmp_path: Path) -> None:
    log, toml = shop
    target = tmp_path / "deep" / "c.html"
    code, out, _ = _run("check", log, "--instance", toml, "--json", "--out", str(target))
    assert code == 0
    written = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
    assert json.loads(out) == written


def test_rows_that_break_the_schema_are_shown_and_strictly_refused(
    shop: tuple[str, str], tmp_path: Path
) -> None:
    """They never go in silence; with --strict nothing is written."""
    log, toml = shop
    frame = pl.read_parquet(log)
    frame = frame.with_columns(
        busy=pl.when(pl.int_range(pl.len()) == 7).then(5.0).otherwise(pl.col("busy"))
    )
    frame.write_parquet(log)
    target = tmp_path / "c.html"
    given = ("check", log, "--instance", toml, "--out", str(target))
    code, _, err = _run(*given, "--strict")
    assert code == 1
    assert "busy" in err
    assert not target.exists()
    code, _, _ = _run(*given)
    assert code == 0
    assert "column “busy”: outside 0 to 1 (for example row 8: 5" in target.read_text("utf-8")


def test_settings_reach_the_certificate(
    certified: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the default page lies in gdcb-out/check."""
    monkeypatch.chdir(tmp_path)
    more = ("--level", "0.01", "--margin", "0.2", "--override", "a pilot", "--strict")
    code, _, _ = _run("check", "log.csv", "--instance", "credit", *more)
    assert code == 0
    opened, asked = certified[1:]
    assert opened["opened"][0] == "log.csv"
    assert opened["strict"] is True
    assert (asked["level"], asked["margin"], asked["override"]) == (0.01, 0.2, "a pilot")
    folder = tmp_path / "gdcb-out" / "check"
    assert sorted(path.name for path in folder.iterdir()) == [
        "certificate.html",
        "certificate.json",
    ]
    command = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["command"]
    assert command == (
        "gdcb check log.csv --instance credit --strict --override 'a pilot' --level 0.01 "
        "--margin 0.2"
    )


@pytest.mark.parametrize(("verdict", "code"), [("direct", 0), ("reweight", 0), ("refuse", 3)])
def test_refused_is_exit_3(
    certified: list[dict[str, Any]], tmp_path: Path, verdict: str, code: int
) -> None:
    """Done, and the answer is no: the page is there all the same."""
    certified[0]["document"] = build(5, verdict)
    target = tmp_path / "c.html"
    for more in ((), ("--json",)):
        given = ("check", "x.csv", "--instance", "credit", "--out", str(target), *more)
        assert _run(*given)[0] == code
        assert target.exists()


def test_an_override_is_printed(certified: list[dict[str, Any]], tmp_path: Path) -> None:
    certified[0]["document"] = build(40, "direct", override=True)
    target = str(tmp_path / "c.html")
    code, out, _ = _run("check", "x.csv", "--instance", "credit", "--out", target)
    assert code == 0
    text = " ".join(out.split())
    assert "A person overrode this certificate" in text
    assert "Pilot on 5 % of traffic" in text
    assert "and 10 more arms, on the page" in text
    assert "3 of 6 tests found something" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.csv"], "--instance"),
        (["x.csv", "--instance", "nobody"], "no instance nobody; there are str"),
        (["x.csv", "--instance", "credit", "--level", "0.7"], "--level: expected a number above 0"),
        (["x.csv", "--instance", "credit", "--level", "nan"], "--level: expected"),
        (["x.csv", "--instance", "credit", "--margin", "0"], "--margin: expected a number above 0"),
        (["x.csv", "--instance", "credit", "--override", "  "], "--override: expected a reason"),
        (["x.csv", "--instance", "credit", "--query", "select 1"], "--query goes with a database"),
        (["x.csv", "--instance", "credit", "--out", "x.json"], "--out: expected a file that ends"),
    ],
)
def test_wrong_usage_is_exit_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = _run("check", *arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert not (tmp_path / "gdcb-out").exists()


def test_what_fails_is_exit_1(tmp_path: Path) -> None:
    """A file that is not there, a declaration that is none, a folder that is a file."""
    target = str(tmp_path / "c.html")
    code, _, err = _run("check", str(tmp_path / "no.csv"), "--instance", "credit", "--out", target)
    assert (code, "no such file" in err) == (1, True)
    (tmp_path / "bad.toml").write_text("arms = 3", encoding="utf-8")
    code, _, err = _run("check", "x.csv", "--instance", str(tmp_path / "bad.toml"))
    assert code == 1
    (tmp_path / "bad.toml").write_text("a = " + "9" * 5_000, encoding="utf-8")
    code, _, err = _run("check", "x.csv", "--instance", str(tmp_path / "bad.toml"))
    assert (code, "not TOML" in err) == (1, True)
    (tmp_path / "bad.toml").write_text(".".join("a" * 17) + " = 1", encoding="utf-8")
    code, _, err = _run("check", "x.csv", "--instance", str(tmp_path / "bad.toml"))
    assert (code, "expected keys of at most 16 parts" in " ".join(err.split())) == (1, True)
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "c.html")
    code, _, err = _run("check", "x.csv", "--instance", "credit", "--out", below)
    assert (code, "--out: cannot write" in err) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml", "file"]


@pytest.mark.parametrize("name", NAMES)
def test_every_instance_can_be_named(name: str) -> None:
    """The one of the protocol where there is one, for that has the history."""
    instance, bandit, _ = _instance(name)
    instance.check_bandit(bandit)
    if name == "str":
        assert instance.context.width > load("str").instance.context.width


def test_a_password_is_not_written_down() -> None:
    """The command is filed with the certificate."""
    url = "postgresql://reader:geheim@db:5432/sales"
    command = _command(url, "credit", "select * from log", False, None, 0.05, 0.1)
    assert "geheim" not in command
    assert "postgresql://reader:***@db:5432/sales" in command
    assert "--query 'select * from log'" in command
