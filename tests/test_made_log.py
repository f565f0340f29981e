"""A made log of an instance: what `gdcb instances NAME --write` writes, `gdcb check` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gdcb.cli import app
from gdcb.context import Category, Flag, Number, Schema
from gdcb.errors import InvalidInput
from gdcb.history import certify, read
from gdcb.instances import STUDIES, study
from gdcb.instances.made_log import decoded, made_log, write_log
from gdcb.instances.tools.questions import data_folder


def test_the_log_reads_back_as_the_rows_that_made_it(tmp_path: Path) -> None:
    subject = study("str", "mis", {}, 1)
    assert write_log(subject, tmp_path / "log.parquet", 203, seed=4) == 203
    batch, report = read(tmp_path / "log.parquet", subject.domain.instance)
    assert (report.read, report.rejected) == (203, 0)
    frame = made_log(subject, 203, seed=4)
    ran = np.isfinite(batch.action).all(axis=1)
    assert np.array_equal(batch.action[ran, 0], frame["price"].drop_nulls().to_numpy())
    assert batch.recommended is not None
    assert np.array_equal(batch.outcome[:, 0], frame["booked"].to_numpy())


def test_contexts_are_written_as_people_write_them() -> None:
    schema = Schema({"load": Number(0, 9), "hot": Flag(), "day": Category(("mon", "tue"))})
    found = decoded(schema, np.array([[3.0, 1.0, 0.0, 1.0], [4.0, 0.0, 1.0, 0.0]]))
    assert found["load"].tolist() == [3.0, 4.0]
    assert found["hot"] == [True, False]
    assert found["day"] == ["tue", "mon"]


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\.parquet or \.csv"):
        write_log(study("str", "well", {}, 1), tmp_path / "log.xlsx", 8)


_LONG = ("credit", "tools")  # many arms: their variance ratio takes ten seconds and more


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.soak] * (name in _LONG)) for name in STUDIES],
)
def test_the_command_writes_a_log_that_can_be_checked(name: str, tmp_path: Path) -> None:
    _require_questions(name)
    runner = CliRunner()
    done = runner.invoke(app, ["instances", name, "--write", str(tmp_path), "--rows", "400"])
    assert done.exit_code == 0, done.output
    log, page = tmp_path / f"{name}.parquet", tmp_path / "page.html"
    checked = runner.invoke(app, ["check", str(log), "--instance", name, "--out", str(page)])
    assert checked.exit_code in (0, 3), checked.output
    assert page.exists()


def _require_questions(name: str) -> None:
    """Skip tools where bfcl-eval is not here."""
    if name == "tools":
        try:
            data_folder()
        except InvalidInput:
            pytest.skip("bfcl-eval is not here; make bfcl")


def test_rows_of_a_curve_that_reads_the_context_count_in_full(tmp_path: Path) -> None:
    """They used to count as a few: what context moves was taken for a bias of the curve."""
    subject = study("grid", "mis", {}, 1)
    assert subject.domain.bandit.is_curve
    assert subject.domain.bandit.reads == {"delta"}
    write_log(subject, tmp_path / "log.parquet", 800, seed=4)
    batch, _ = read(tmp_path / "log.parquet", subject.domain.instance)
    certificate = certify(batch, subject.domain.instance, subject.domain.bandit)
    used = [arm for arm in certificate.arms if arm.verdict == "direct"]
    assert used
    assert all(arm.weight == 1.0 for arm in used)


def test_a_file_that_was_edited_is_not_written_over(tmp_path: Path) -> None:
    asked = ["instances", "grid", "--write", str(tmp_path), "--rows", "8"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    assert CliRunner().invoke(app, asked).exit_code == 0  # as it was written
    path = tmp_path / "grid.toml"
    edited = path.read_text(encoding="utf-8") + "# mine\n"
    path.write_text(edited, encoding="utf-8")
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert "name another folder" in done.stderr
    assert path.read_text(encoding="utf-8") == edited


@pytest.mark.parametrize("arguments", [["--write", "x"], ["chess", "--write", "x"]])
def test_only_an_instance_has_a_log(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["instances", *arguments])
    assert done.exit_code == 2
