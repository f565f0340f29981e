"""`gdcb new`: what is proposed from a log is valid as written, and says what was guessed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gdcb.arrays import logistic
from gdcb.cli import app
from gdcb.declaration import parse, read
from gdcb.errors import InvalidInput
from gdcb.history import certify, open_log
from gdcb.history import read as read_log
from gdcb.history.columns import look
from gdcb.history.infer import propose
from gdcb.history.instance_file import outwards, toml
from gdcb.history.roles import roles_of
from gdcb.service.policy import Policy, policy_of
from tests import own_logs
from tests.properties import examples


def call(*arguments: str) -> tuple[int, str, str]:
    """Run in this process."""
    result = CliRunner().invoke(app, ["new", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def proposed(frame: pl.DataFrame, **asked: str) -> str:
    """Return the text that is proposed for a frame."""
    log = look(frame)
    return toml("mine", propose(log, roles_of(log, asked)))


def test_a_name_may_be_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gdcb new x.toml` writes x.toml, and the instance is called x."""
    monkeypatch.chdir(tmp_path)
    code, _, err = call("x.toml")
    assert code == 0, err
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]
    assert read(tmp_path / "x.toml").instance.name == "x"


def test_a_log_becomes_a_valid_instance_with_its_guesses_said(tmp_path: Path) -> None:
    log, file = own_logs.prices(tmp_path / "log.csv"), tmp_path / "mine.toml"
    code, out, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0
    assert "written and valid" in out
    assert "action: price, guessed by its name; --action says otherwise" in err
    text = file.read_text(encoding="utf-8")
    declared = read(file)
    instance = declared.instance
    assert list(instance.context.columns) == ["demand", "weekend", "channel", "base_price"]
    assert [column.name for column in instance.actions] == ["price"]
    assert [gate.name for gate in instance.chain.gates] == ["reviewer", "bounds"]
    data = tomllib.loads(text)
    assert data["composition"]["base"] == ["base_price"]
    assert data["reward"] == {"part": "payoff", "outcome": ["booked"], "action": 0}
    assert data["history"] == {
        "action": ["price"],
        "outcome": ["booked"],
        "reward": "revenue",
        "recommended": ["recommended_price"],
        "unit": "listing",
        "time": "decided_at",
    }
    for line in (
        "# - order_id: it looks like an identifier",
        "# - note: it has 900 different texts, and a category 30 at most",
        "# - currency: it never varies",
        "# - checked_in: it all but determines the outcome",
        "# CHOOSE: action = price, guessed by its name.",
    ):
        assert line in text
    # Five quantiles of price over base, 5 to 95 %.
    frame = pl.read_csv(log)
    low, high = np.quantile((frame["price"] / frame["base_price"]).to_numpy(), (0.05, 0.95))
    arms = data["arms"]["values"]
    assert len(arms) == 5
    assert (arms[0], arms[-1]) == pytest.approx((low, high), abs=0.001)
    # The same log, read by what was written: every row fits.
    source = open_log(str(log), instance, columns=declared.columns)
    assert source.report.read == source.report.valid == 900
    assert source.units == ("L0", "L1", "L2")


@pytest.mark.parametrize(
    ("make", "part", "outcome", "composition"),
    [
        (own_logs.doses, "scaled", "reward", "add"),
        (own_logs.choices, "payoff", "success", "identity"),
        (own_logs.prices, "payoff", "booked", "multiply"),
    ],
)
def test_every_kind_of_log_is_read_by_what_was_proposed(
    make: Callable[[Path], Path], part: str, outcome: str, composition: str, tmp_path: Path
) -> None:
    log = make(tmp_path / "log.csv")
    seen = look(str(log))
    text = toml("mine", propose(seen, roles_of(seen, {})))
    data, declared = tomllib.loads(text), parse(text)
    assert data["reward"]["part"] == part
    assert data["reward"]["outcome"] == [outcome]
    assert data["composition"]["part"] == composition
    assert data.get("closed", True) == (not data["gates"] or data["gates"][-1]["part"] == "bounds")
    report = open_log(str(log), declared.instance, columns=declared.columns).report
    assert report.read == report.valid > 0


def test_parquet_and_csv_propose_the_same(tmp_path: Path) -> None:
    csv = own_logs.prices(tmp_path / "log.csv", 400)
    parquet = tmp_path / "log.parquet"
    pl.read_csv(csv, try_parse_dates=True).write_parquet(parquet)
    texts = []
    for path in (csv, parquet):
        seen = look(str(path))
        texts.append(toml("mine", propose(seen, roles_of(seen, {}))).split("\n", 1)[1])
    assert texts[0] == texts[1]


def test_a_database_is_looked_at_by_its_query(tmp_path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    frame = pl.read_csv(own_logs.doses(tmp_path / "log.csv", 300))
    url = f"sqlite:///{tmp_path / 'log.db'}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("create table log (severity real, dose real, reward real)")
        )
        insert = sqlalchemy.text("insert into log values (:severity, :dose, :reward)")
        connection.execute(insert, frame.to_dicts())
    file = tmp_path / "mine.toml"
    code, _, _ = call("mine", "--from", url, "--query", "select * from log", "--out", str(file))
    assert code == 0
    assert read(file).instance.reward.outcome == ("reward",)


def test_what_is_named_is_not_guessed(tmp_path: Path) -> None:
    frame = pl.read_csv(own_logs.prices(tmp_path / "log.csv", 300)).with_columns(
        rate=pl.col("price") / 100
    )
    text = proposed(frame, action="rate", outcome="booked", unit="channel")
    data = tomllib.loads(text)
    assert data["history"]["action"] == ["rate"]
    assert data["history"]["unit"] == "channel"
    assert "CHOOSE: action" not in text
    assert "CHOOSE: outcome" not in text
    assert "# - price: it is a function of the executed 'rate'" in text


def test_a_reward_that_is_no_payoff_is_learned_itself() -> None:
    rng = np.random.default_rng(0)
    n = 300
    price, sold = rng.uniform(1, 9, n), rng.integers(0, 2, n)
    frame = pl.DataFrame(
        {"x": rng.random(n), "price": price, "sold": sold, "profit": sold * rng.random(n)}
    )
    text = proposed(frame)
    data = tomllib.loads(text)
    assert data["reward"] == {"part": "scaled", "outcome": ["profit"]}
    assert "# - sold: it is the outcome, and the reward is learned instead" in text
    parse(text)


def test_columns_with_holes_are_kept_or_left_out_and_said() -> None:
    rng = np.random.default_rng(0)
    n = 400
    some, most = rng.random(n), rng.random(n)
    empty = np.arange(n) % 40 == 0
    frame = pl.DataFrame(
        {
            "x": [None if gone else round(v, 3) for v, gone in zip(some, empty, strict=True)],
            "z": [None if i % 2 == 0 else round(v, 3) for i, v in enumerate(most)],
            "nothing": [None] * n,
            "price": rng.uniform(1, 9, n),
            "sold": rng.integers(0, 2, n),
        }
    )
    text = proposed(frame)
    assert "# 10 of its cells are empty: such rows are rejected" in text
    assert "# - z: 50 % of it is empty" in text
    assert "# - nothing: it is empty" in text


def sales(n: int = 400, **columns: Any) -> pl.DataFrame:
    """Return sales at prices that say something of the outcome, and further columns."""
    rng = np.random.default_rng(0)
    data = {"demand": rng.random(n).round(3), "price": rng.uniform(1, 9, n).round(2)}
    return pl.DataFrame({**data, "sold": rng.integers(0, 2, n), **columns}, strict=False)


def test_a_few_texts_do_not_make_numbers_a_text(tmp_path: Path) -> None:
    """20 of 400 are 5 %: still numbers; 21 are not. All rows count, and both places say so."""
    cells = [str(v) for v in np.random.default_rng(1).random(400).round(3)]
    few = ["high"] * 20 + cells[20:]
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    sales(demand=few).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0
    said = 'demand: 380 of 400 cells are numbers; 20 are not, such as row 1: "high"'
    assert f"{said}; they will be rejected" in err
    text = file.read_text(encoding="utf-8")
    assert f"# NOTE: {said}; they will be rejected." in text
    assert tomllib.loads(text)["context"]["demand"]["type"] == "number"
    declared = read(file)
    source = open_log(str(log), declared.instance, columns=declared.columns)
    assert (source.report.valid, source.report.rejected) == (380, 20)
    many = look(sales(demand=["high"] * 21 + cells[21:])).columns["demand"]
    assert (many.kind, many.n_odd) == ("text", 0)


def test_amounts_and_dates_written_otherwise_are_told(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    price = [f"€{110 + i % 50}.0" for i in range(400)]
    day = [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2025" for i in range(400)]
    sales(price=price).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(tmp_path / "mine.toml"))
    assert code == 1
    assert 'price holds text such as "€110.0"; write it as a number' in err
    sales(day=day).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(tmp_path / "mine.toml"))
    assert code == 0
    assert 'day looks like dates, such as "01/01/2025", in a form that is not read' in err
    assert "left out: day: it" in err


@pytest.mark.parametrize(
    ("cell", "looks"),
    [
        *(
            ("€110.0", "amount"),
            ("1,200.50", "amount"),
            ("110,5 EUR", "amount"),
            ("12 %", "amount"),
        ),
        *(("31.12.25", "date"), ("2025/12/31 10:00", "date"), ("31 Dec 2025", "date")),
        *(("room 12", ""), ("10.0.0.1", ""), ("L12", ""), ("web", "")),
    ],
)
def test_what_texts_look_like(cell: str, looks: str) -> None:
    assert look(pl.DataFrame({"a": [cell, cell]})).columns["a"].looks == looks


def test_columns_left_out_are_named_up_to_ten(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    same = {f"same{i}": pl.lit(7) for i in range(13)}
    sales().with_columns(**same).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0
    assert err.count("it never varies") == 10
    assert f"left out: 3 more, with their reasons in {file}" in err.replace("\n", "")


def test_the_only_time_is_the_time_whatever_it_is_called() -> None:
    day = [f"2025-01-{1 + i % 28:02d}" for i in range(400)]
    text = proposed(sales(day=day))
    assert tomllib.loads(text)["history"]["time"] == "day"
    assert "# CHOOSE: time = day, the only column of times." in text
    # A second one makes it a choice, unless it tells what came later.
    assert "time" not in tomllib.loads(proposed(sales(day=day, night=day)))["history"]
    later = tomllib.loads(proposed(sales(day=day, paid_on=day)))["history"]
    assert later["time"] == "day"
    assert "time" not in tomllib.loads(proposed(sales(closed_on=day)))["history"]


def test_numbers_that_nobody_chose_are_explained() -> None:
    text = proposed(sales())
    assert "reward = \"-\"  # '-': no column says what it was worth; [reward] does" in text
    assert "# CHOOSE: log-odds of a success at the middle arm" in text


def test_where_a_cell_is_empty_may_leak() -> None:
    rng = np.random.default_rng(0)
    n = 600
    sold = (rng.random(n) < 0.9).astype(int)
    when = [float(i % 7) if s else None for i, s in enumerate(sold)]
    frame = pl.DataFrame(
        {"x": rng.random(n), "when": when, "price": rng.uniform(1, 9, n), "sold": sold}
    )
    assert "# - when: where it is empty tells the outcome: a leak" in proposed(frame)


def test_few_values_are_arms_themselves_and_a_flag_is_two() -> None:
    rng = np.random.default_rng(0)
    n = 300
    frame = pl.DataFrame({"x": rng.random(n), "rate": rng.choice([4.5, 5.0, 6.0], n)})
    frame = frame.with_columns(repaid=pl.Series(rng.integers(0, 2, n)))
    assert tomllib.loads(proposed(frame))["arms"]["values"] == [4.5, 5, 6]
    flagged = frame.with_columns(treatment=pl.Series(rng.random(n) < 0.5)).drop("rate")
    text = proposed(flagged)
    assert tomllib.loads(text)["arms"]["names"] == ["false", "true"]
    declared = parse(text)
    assert open_log(flagged, declared.instance, columns=declared.columns).report.rejected == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.drop("dose"), "no column of the log looks like the executed action"),
        (lambda f: f.drop("reward"), "no column of the log looks like an outcome"),
        (
            lambda f: f.with_columns(dose=pl.lit(1.0)),
            "no column of the log looks like the executed",
        ),
        (lambda f: f.drop("severity"), "no column of the log can be context"),
        (lambda f: f.clear(), "it has no row"),
    ],
)
def test_a_log_that_cannot_be_is_refused(
    change: Callable[[pl.DataFrame], pl.DataFrame], said: str, tmp_path: Path
) -> None:
    frame = change(pl.read_csv(own_logs.doses(tmp_path / "log.csv", 250)))
    with pytest.raises(InvalidInput, match=said):
        proposed(frame)


def test_named_columns_that_cannot_be_are_refused(tmp_path: Path) -> None:
    frame = pl.read_csv(own_logs.doses(tmp_path / "log.csv", 250)).with_columns(
        same=pl.lit(2.0), word=pl.lit("a")
    )
    for asked, said in (
        ({"action": "dosis"}, "--action: the log has no column 'dosis'; it has severity, dose"),
        ({"action": "same"}, "the action never varies: 'same' has one value"),
        ({"outcome": "same"}, "the outcome 'same' has one value"),
    ):
        with pytest.raises(InvalidInput, match=said):
            proposed(frame, **asked)


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("mine", encoding="utf-8")
    code, _, err = call("mine", "--out", str(file))
    assert code == 1
    assert "is there already; --force overwrites it" in err.replace("\n", " ")
    assert file.read_text(encoding="utf-8") == "mine"
    assert call("mine", "--out", str(file), "--force")[0] == 0
    assert read(file).instance.name == "mine"


def test_a_refused_log_writes_nothing(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    log.write_text("a,b\n1,2\n", encoding="utf-8")
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 1
    assert "--action" in err
    assert not file.exists()


@pytest.mark.parametrize(
    "arguments",
    [("a b",), ("",), ("../x",), ("mine", "--action", "price"), ("mine", "--query", "s")],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert call(*arguments)[0] == 2


@pytest.mark.parametrize("has_log", [False, True])
def test_the_table_of_the_service_is_there_to_be_uncommented(tmp_path: Path, has_log: bool) -> None:
    """Uncommented as it stands, it is valid and changes nothing."""
    file, log = tmp_path / "mine.toml", tmp_path / "log.csv"
    sales().write_csv(log)
    more = ("--from", str(log), "--outcome", "sold", "--action", "price") if has_log else ()
    code, _, said = call("mine", "--out", str(file), *more)
    assert code == 0, said
    text = file.read_text(encoding="utf-8")
    assert parse(text).service == {}
    head, there, table = text.partition("# [service]\n")
    on = parse(head + re.sub("^# ", "", there + table, flags=re.MULTILINE))
    assert set(on.service) == {"expiry", "execution", "outcomes", "launch", "batch"}
    assert policy_of(on.service, on.instance) == Policy()


def test_the_template_is_valid_and_json_says_what_was_found(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    code, out, _ = call("plain", "--out", str(file), "--json")
    assert code == 0
    nothing: dict[str, Any] = {"guessed": {}, "left_out": {}, "doubtful": [], "notices": []}
    assert json.loads(out) == {"file": str(file), **nothing}
    assert read(file).instance.space.n == 5
    assert file.read_text(encoding="utf-8").count("CHOOSE") >= 6
    log = own_logs.prices(tmp_path / "log.csv", 300)
    code, out, _ = call("m", "--from", str(log), "--out", str(tmp_path / "m.toml"), "--json")
    found: dict[str, Any] = json.loads(out)
    assert found["guessed"]["outcome"] == "booked"
    assert found["rows"] == 300
    assert set(found["left_out"]) == {"order_id", "note", "currency", "checked_in"}
    assert found["doubtful"] == ["checked_in"]


@examples(40)
@given(low=st.floats(-1e9, 1e9, allow_nan=False), width=st.floats(1e-6, 1e9, allow_nan=False))
def test_ranges_are_rounded_outwards(low: float, width: float) -> None:
    high = low + width
    below, above = outwards(low, high)
    assert below <= low
    assert above >= high
    is_share = low >= 0 and high <= 1
    assert is_share or above - below <= 1.25 * (high - low) + 1e-9 * abs(low)


TEXT, NAMES = st.characters(codec="utf-8"), ("price", "sold", "kind", "*")


@examples(25)
@given(
    name=st.text(TEXT, min_size=1, max_size=8).filter(lambda it: it not in NAMES and it[0] != "^"),
    level=st.text(TEXT, min_size=1, max_size=6).filter(lambda it: it == it.strip() != "web"),
)
def test_any_name_and_level_makes_a_valid_file(name: str, level: str) -> None:
    rng = np.random.default_rng(0)
    n = 120
    frame = pl.DataFrame(
        {
            "price": rng.uniform(1, 9, n),
            "sold": rng.integers(0, 2, n),
            "kind": np.where(rng.random(n) < 0.5, "web", level),
            name: rng.random(n),
        }
    )
    text = proposed(frame, action="price", outcome="sold")
    assert parse(text).instance.context.width >= 1


@pytest.mark.parametrize("name", ["*", "^pr.*$"])
def test_a_name_that_is_a_pattern_is_refused(name: str) -> None:
    """Polars would take such a name for several columns, or for none."""
    frame = pl.DataFrame({"price": [1.0, 2.0], "sold": [0, 1], name: [0.5, 0.7]})
    with pytest.raises(InvalidInput, match="are patterns to Polars; rename it"):
        proposed(frame, action="price", outcome="sold")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("final_rate2", "its name says that it was known only after the decision"),
        ("sold_online", "it is called like the outcome"),
        ("applied", "it tells 8"),
        ("previous_refund", ""),
        ("week_number", ""),
    ],
)
def test_columns_that_look_like_leaks_are_left_out(name: str, said: str) -> None:
    """'applied' comes before every sale and hardly without: it tells most of the outcome."""
    rng = np.random.default_rng(0)
    n = 2000
    applied = rng.random(n) < 0.1
    sold = applied & (rng.random(n) < 0.85)
    odd = applied.astype(float) if name == "applied" else rng.integers(1, 52, n).astype(float)
    frame = pl.DataFrame(
        {"x": rng.random(n), "rate": rng.uniform(1, 9, n), "sold": sold, name: odd}
    )
    text = proposed(frame)
    assert (
        (f"# - {name}: {said}" in text) if said else (name in parse(text).instance.context.columns)
    )


def test_a_status_is_known_by_what_it_says() -> None:
    """A column of 'approved' and 'edited' came after the decision, whatever it is called."""
    rng = np.random.default_rng(0)
    log = pl.DataFrame(
        {
            "busy": rng.random(300),
            "price": rng.choice([1.0, 2.0, 3.0], 300),
            "owner_said": rng.choice(["approved", "edited"], 300),
            "sold": rng.integers(0, 2, 300),
        }
    )
    assert roles_of(look(log), {}).status == "owner_said"


def priced(n: int = 1500, **columns: Any) -> pl.DataFrame:
    """Return bookings at a base price times one of five ratios, and further columns."""
    rng = np.random.default_rng(3)
    demand, base = rng.random(n), np.round(80 + 120 * rng.random(n), 2)
    ratio = rng.choice([0.8, 0.9, 1.0, 1.1, 1.2], n)
    booked = (rng.random(n) < 1.0 / (1.0 + np.exp(3.0 * ratio - 3.0 - demand))).astype(int)
    data = {"demand": demand.round(3), "base_price": base, "price": np.round(base * ratio, 2)}
    frame = pl.DataFrame({**data, "booked": booked})
    made = {name: make(frame, rng) if callable(make) else make for name, make in columns.items()}
    return frame.with_columns(**{name: pl.Series(name, one) for name, one in made.items()})


def noise(frame: pl.DataFrame, rng: np.random.Generator) -> Any:
    return rng.random(frame.height).round(3)


def with_noise(name: str) -> pl.DataFrame:
    """Return bookings with a column of that name that says nothing."""
    more: dict[str, Any] = {name: noise}
    return priced(**more)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("label", "a label of the scaler"),
        ("label_0", "a label of the scaler"),
        ("delta", "the scaler's output (δ)"),
        ("delta_hat", "the scaler's output (δ)"),
        ("scale_factor", "the scaler's output (δ)"),
        ("propensity", "the probability of the action"),
        ("logged_propensity", "the probability of the action"),
        ("action_prob", "the probability of the action"),
        ("weight", "the weight of a row"),
        ("sample_weight", "the weight of a row"),
        ("decision_time", "the time of the decision"),
        ("reviewer", "who answered a proposal"),
        ("overridden", "what became of a proposal"),
        ("is_override", "what became of a proposal"),
        ("converted", "an outcome"),
        ("value", "a reward"),
    ],
)
def test_reserved_columns_are_never_context(name: str, part: str) -> None:
    """Each is left out; the file says why, and how to put it back."""
    log = look(with_noise(name))
    asked = {"outcome": "booked"} if part == "a reward" else {}
    found = propose(log, roles_of(log, asked))
    text = toml("mine", found)
    assert list(parse(text).instance.context.columns) == ["demand", "base_price"]
    assert found.doubtful == [name]
    assert f"# - {name}: its name is that of {part}: a leak if it was known only after" in text
    line = f'# {name} = {{ type = "number", low = 0, high = 1 }}'
    assert line in text
    back = parse(text.replace(line, line.removeprefix("# ")))
    assert name in back.instance.context.columns


@pytest.mark.parametrize(
    "name", ["body_weight", "price_delta", "previous_label", "marital_status", "case_size"]
)
def test_names_that_only_sound_reserved_stay_context(name: str) -> None:
    text = proposed(with_noise(name))
    assert name in parse(text).instance.context.columns


def test_the_terminal_points_at_a_label(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    priced(label=noise).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0
    assert "left out, look at it: label: its name is that of a label" in err
    assert "label" not in read(file).instance.context.columns


def test_what_the_outcome_pays_for_is_no_context() -> None:
    """With the revenue as outcome, 'booked' came after it: by its name, or under any other."""
    frame = priced(revenue=lambda f, _: f["booked"] * f["price"])
    text = proposed(frame, outcome="revenue")
    assert list(parse(text).instance.context.columns) == ["demand", "base_price"]
    assert "# - booked: its name is that of an outcome" in text
    text = proposed(frame.rename({"booked": "state"}), outcome="revenue")
    assert list(parse(text).instance.context.columns) == ["demand", "base_price"]
    assert "# - state: it all but determines the outcome" in text


RATIO = "it is made of 'price' and 'base_price', as if it had been written after the decision"


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("uplift", lambda f, _: (f["price"] / f["base_price"]).round(2), RATIO),
        ("k", lambda f, _: f["price"] / f["base_price"], RATIO),
        ("discount", lambda f, _: f["base_price"] - f["price"], RATIO),
        ("pct", lambda f, _: (100 * (f["price"] / f["base_price"] - 1)).round(1), RATIO),
        ("logp", lambda f, _: np.log(f["price"]), "it is a function of the executed 'price'"),
        ("is_dear", lambda f, _: f["price"] > 130, "it is a function of the executed 'price'"),
        ("line", lambda f, _: np.arange(f.height) + 0.5, "it rises from row to row"),
        (
            "stars",
            lambda f, r: f["booked"] * (r.random(f.height) < 0.1) * 5,
            "whenever it differs from its usual value, the outcome is the same",
        ),
        (
            "warm",
            lambda f, r: np.where(r.random(f.height) < 0.93, f["booked"], 1 - f["booked"]),
            "it tells 6",
        ),
    ],
)
def test_what_was_written_after_the_decision_is_found_in_the_cells(
    name: str, make: Any, said: str
) -> None:
    """Whatever such a column is called. The base itself, named so, stays."""
    text = proposed(priced(**{name: make}))
    assert f"# - {name}: {said}" in text
    assert list(parse(text).instance.context.columns) == ["demand", "base_price"]


FOLLOWS = "it follows the ratio or the difference of 'price' and 'base_price', as if it had been"
ARMS = np.array(["c", "a", "e", "b", "d"])


def arm_of(frame: pl.DataFrame) -> Any:
    """Return the place of each row's arm: 0.8, 0.9, 1, 1.1 or 1.2."""
    return np.digitize(frame["price"] / frame["base_price"], [0.85, 0.95, 1.05, 1.15])


@pytest.mark.parametrize("n", [300, 1500])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda f, _: np.log(f["price"] / f["base_price"]), FOLLOWS),
        (lambda f, _: np.log(f["price"] / f["base_price"]).round(1), RATIO),
        (lambda f, _: (100 * np.log(f["price"] / f["base_price"])).round(0), FOLLOWS),
        (lambda f, _: np.cbrt(f["price"] - f["base_price"]), FOLLOWS),
        (lambda f, _: ARMS[arm_of(f)], FOLLOWS),
        (lambda f, _: np.array([3, 0, 4, 1, 2])[arm_of(f)], FOLLOWS),
        (lambda f, r: f["price"] / f["base_price"] + 0.02 * r.standard_normal(f.height), RATIO),
        (
            lambda f, _: np.array(["low", "mid", "high"])[np.digitize(f["price"], [110, 150])],
            "it is nearly a function of 'price', as if it had been written",
        ),
    ],
)
def test_what_rises_or_falls_with_the_ratio_or_names_the_arm_is_left_out(
    make: Any, said: str, n: int
) -> None:
    """Logarithms, rounded or not; the arm as a text or a code; 2 % noise; bands of prices."""
    text = proposed(priced(n, told=make))
    assert f"# - told: {said}" in text
    assert list(parse(text).instance.context.columns) == ["demand", "base_price"]


def test_a_base_of_another_name_does_not_hide_what_names_the_arm() -> None:
    """Whole prices on few whole bases rise with the base within each arm."""
    rng = np.random.default_rng(0)
    arm, tariff = rng.integers(0, 3, 600), rng.lognormal(4.5, 1.0, 600).round(0)
    price = (tariff * np.array([0.9, 1.0, 1.1])[arm]).round(0)
    frame = pl.DataFrame({"busy": rng.random(600), "tariff": tariff, "tier": ARMS[arm]})
    frame = frame.with_columns(price=price, sold=pl.Series(rng.integers(0, 2, 600)))
    assert "tier" not in parse(proposed(frame)).instance.context.columns


OR_SET_BY = (
    "is it known when the decision is taken? Leave it out if it was written after it; keep it if "
    "'price' was set by it, or what it does to the outcome is taken for what 'price' does."
)


@pytest.mark.parametrize(
    "make",
    [
        lambda f, r: np.char.add(ARMS[arm_of(f)], r.choice(["x", "y", "z"], f.height)),
        lambda f, r: f["price"] / f["base_price"] + 0.04 * r.standard_normal(f.height),
    ],
)
def test_what_nearly_tells_the_arm_is_asked_about_and_stays(make: Any) -> None:
    """Three codes an arm, or 4 % noise: perhaps it was the reason for the price."""
    text = proposed(priced(lean=make))
    asked = "it nearly tells 'price' once 'base_price' is known"
    assert f"# CHOOSE: lean: {asked}: {OR_SET_BY}\nlean = " in text


def set_by(n: int, named: str) -> pl.DataFrame:
    """Return prices that a rule set by the column 'seen', give or take."""
    rng = np.random.default_rng(0)
    base, kind = rng.uniform(80, 150, n).round(2), rng.integers(0, 3, n)
    noise, busy = rng.uniform(0.97, 1.03, n), rng.random(n).round(2)
    ratio, levels = np.array([0.9, 1.0, 1.1])[kind], np.array([5.0, 30.0, 90.0])[kind]
    wish = rng.choice([0.9, 1.0, 1.1], n)
    text = np.array(["mid", "low", "high"])[kind]
    seen, price = {
        "grade": (text, levels + rng.uniform(-2, 2, n)),
        "grade number": (kind, levels + rng.uniform(-2, 2, n)),
        "product": (text, (levels * rng.uniform(1.2, 2.0, n)).round(2)),
        "room": (text, (np.array([60, 110, 240])[kind] * wish).round(0)),
        "occupancy": (busy, (base * (0.8 + 0.5 * busy) * noise).round(0)),
        "occupancy in steps": (busy.round(1), base * (0.8 + 0.5 * busy.round(1)) * noise**0.5),
        "multiplier": (ratio, base * ratio * noise**0.5),
        "season": (text, base * np.where(rng.random(n) < 0.03, wish, ratio)),
        "season with noise": (text, base * ratio * noise),
    }[named]
    frame = pl.DataFrame({"day": rng.integers(0, 7, n), "seen": seen, "price": price.round(2)})
    if named not in ("grade", "grade number", "product", "room"):
        frame = frame.with_columns(base=pl.Series(base))
    sold = rng.random(n) < 0.3 + 0.4 * (kind / 2 + busy) / 2
    return frame.with_columns(sold=pl.Series(sold.astype(int)))


@pytest.mark.parametrize("n", [600, 6000])
@pytest.mark.parametrize(
    "named",
    [
        *("grade", "grade number", "product", "room", "occupancy", "occupancy in steps"),
        *("multiplier", "season", "season with noise"),
    ],
)
def test_what_a_rule_set_the_price_by_stays_and_is_asked_about(named: str, n: int) -> None:
    """Without it nobody could tell what it does to the outcome from what the price does."""
    log = look(set_by(n, named))
    found = propose(log, roles_of(log, {}))
    assert found.without == {}
    assert [*found.pointed] == ["seen"]
    assert OR_SET_BY in found.pointed["seen"]
    assert f"# CHOOSE: seen: {found.pointed['seen']}\nseen = " in toml("mine", found)


def test_where_a_rule_set_the_price_a_check_refuses_arms(tmp_path: Path) -> None:
    """The season sells, and sets the price: without it the certificate takes all arms."""
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    frame = set_by(4000, "season with noise")
    rng = np.random.default_rng(1)
    high = frame["seen"].replace_strict({"low": 0.5, "mid": 0.0, "high": 1.0}).to_numpy()
    sold = rng.random(4000) < logistic(3.0 * high - 1.0)
    frame.with_columns(sold=pl.Series(sold.astype(int))).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0
    assert f"seen: it nearly tells 'price' once 'base' is known: {OR_SET_BY}" in err
    text = file.read_text(encoding="utf-8")
    without = proposed(pl.read_csv(log).drop("seen"))
    refused = []
    for one in (parse(text), parse(without)):
        source = open_log(str(log), one.instance, columns=one.columns)
        document = certify(source, one.instance, one.bandit, full=False).as_json()
        refused.append([arm["verdict"] for arm in document["arms"]].count("refuse"))
    assert refused[0] >= 3
    assert refused[1] == 0


@pytest.mark.parametrize("n", [300, 3000])
def test_what_only_looks_like_a_rule_is_a_leak(n: int) -> None:
    """Codes that alternate from price to price, and bands of equal steps."""
    rng = np.random.default_rng(0)
    price = rng.choice([10.0, 20.0, 30.0, 40.0], n)
    for told in (ARMS[(price / 10).astype(int) % 2], ARMS[(price > 20).astype(int)], price > 20):
        frame = pl.DataFrame({"x": rng.random(n), "told": told, "price": price})
        text = proposed(frame.with_columns(sold=pl.Series(rng.integers(0, 2, n))))
        assert "# - told: it is a function of the executed 'price'" in text


def driven(seed: int) -> pl.DataFrame:
    """Return prices that lean on the demand (correlation 0.9), a season and a segment."""
    rng = np.random.default_rng(seed)
    n = 300
    demand, base = rng.random(n), rng.lognormal(4.5, [0.1, 0.3, 0.6, 1.0][seed % 4], n).round(2)
    segment, season = rng.integers(0, 3, n), 0.1 * np.sin(np.arange(n) / 20)
    arm = rng.choice([0.9, 1.0, 1.1], n)
    ratio = [
        np.exp(0.8 * demand + 0.11 * rng.standard_normal(n)),
        arm * (1.0 + season),
        arm * np.array([0.85, 1.0, 1.2])[segment],
    ][seed % 3]
    data = {"demand": demand, "segment": ARMS[segment], "season": season.round(3)}
    data |= {"rooms": np.ceil(base / 10), "rival": base * rng.lognormal(0, 0.1, n)}
    data |= {"tariff" if seed % 2 else "base": base, "price": (base * ratio).round(2)}
    return pl.DataFrame({**data, "sold": rng.integers(0, 2, n)})


@pytest.mark.parametrize("seed", range(12))
def test_honest_columns_that_drive_the_price_stay(seed: int) -> None:
    """Base, demand, season and segment: each moves the price and does not tell it."""
    log = look(driven(seed))
    found = propose(log, roles_of(log, {}))
    assert (found.without, found.pointed) == ({}, {})


def test_ratios_that_differ_in_the_last_bit_are_one_arm() -> None:
    frame = priced(ratio=lambda f, r: r.choice([0.8, 0.9, 1.1], f.height))
    frame = frame.with_columns(price=pl.col("base_price") * pl.col("ratio")).drop("ratio")
    assert tomllib.loads(proposed(frame))["arms"]["values"] == [0.8, 0.9, 1.1]


def test_where_the_base_is_not_called_so_both_are_left_out() -> None:
    """Three columns determine each other, and nothing says which came first."""
    frame = priced(uplift=lambda f, _: f["price"] / f["base_price"])
    text = proposed(frame.rename({"base_price": "tariff"}))
    assert list(parse(text).instance.context.columns) == ["demand"]
    assert "determine each other, and which of them came after the decision cannot be told" in text


def test_noise_is_left_in() -> None:
    """Twenty honest columns: none is taken for a leak. Their seed is fixed."""
    columns: dict[str, Any] = {f"n{i}": noise for i in range(8)}
    columns |= {f"f{i}": lambda f, r: r.random(f.height) < 0.2 for i in range(6)}
    columns |= {f"w{i}": lambda f, r: r.integers(0, 5, f.height) for i in range(6)}
    log = look(priced(400, **columns))
    found = propose(log, roles_of(log, {}))
    assert found.without == {}
    assert len(found.context) == 22


@pytest.mark.parametrize("head", ["", "Unnamed: 0", "Unnamed: 0.1", "index"])
def test_row_numbers_of_pandas_are_neither_outcome_nor_context(head: str, tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    text = priced(300).with_row_index("zz").write_csv()
    log.write_text(text.replace("zz", head, 1), encoding="utf-8")
    assert call("mine", "--from", str(log), "--out", str(file))[0] == 0
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    assert data["history"]["outcome"] == ["booked"]
    assert set(data["context"]) == {"demand", "base_price"}
    assert f"# - {head or '(a column without a name)'}: it " in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "make", "is_unit"),
    [
        ("listing_price", lambda f, r: r.integers(80, 200, f.height), False),
        ("listing", lambda f, r: r.choice([81.5, 90.25, 99.0], f.height), False),
        ("customer_age", lambda f, r: r.integers(18, 80, f.height), False),
        ("product_type", lambda f, r: r.choice(["a", "b"], f.height), False),
        ("listing", lambda f, r: r.integers(0, 9, f.height), True),
        ("store_id", lambda f, r: r.integers(0, 9, f.height), True),
        ("hotel", lambda f, r: r.choice(["sea", "city"], f.height), True),
    ],
)
def test_a_guessed_unit_is_called_and_written_like_one(name: str, make: Any, is_unit: bool) -> None:
    assert roles_of(look(priced(**{name: make})), {}).unit == (name if is_unit else "")


def test_a_guess_that_the_terminal_names_can_be_said_otherwise(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    people = ["ann", "bob", "eve"] * 500
    priced(reviewer=people, boss=people).write_csv(log)
    _, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert "reviewer: reviewer, guessed by its name; --reviewer says otherwise" in err
    more = ("--out", str(file), "--force", "--reviewer", "boss")
    assert call("mine", "--from", str(log), *more)[0] == 0
    assert tomllib.loads(file.read_text(encoding="utf-8"))["history"]["reviewer"] == "boss"


def rounded_prices(name: str, noise: float, n: int = 1500) -> pl.DataFrame:
    """Return whole prices, a base of 40 to 90 and a ratio with four digits, give or take noise."""
    rng = np.random.default_rng(5)
    base, ratio = rng.uniform(40, 90, n).round(2), rng.uniform(0.8, 1.2, n).round(4)
    booked = (rng.random(n) < 1.0 / (1.0 + np.exp(3.0 * ratio - 3.0))).astype(int)
    told = (ratio * (1.0 + noise * rng.standard_normal(n))).round(4)
    data = {"demand": rng.random(n).round(3), "base_price": base, "price": np.round(base * ratio)}
    return pl.DataFrame({**data, "booked": booked, name: told})


@pytest.mark.parametrize("name", ["factor", "k", "price_vs_market", "base_factor"])
@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_a_ratio_is_found_through_rounding_and_noise(name: str, noise: float) -> None:
    """Half a unit of a price of 40 is 1.25 %: more than the four digits of the ratio show."""
    text = proposed(rounded_prices(name, noise))
    data = tomllib.loads(text)
    assert set(data["context"]) == {"demand", "base_price"}
    assert f"# - {name}: it is " in text
    assert data["composition"]["base"] == ["base_price"]
    assert data["arms"]["values"][-1] - data["arms"]["values"][0] > 0.3


def test_a_percentage_is_found_through_the_rounding_of_the_price() -> None:
    frame = rounded_prices("k", 0.0).with_columns(pct=(100 * pl.col("k") - 100).round(2)).drop("k")
    assert "# - pct: it is made of 'price' and 'base_price'" in proposed(frame)


@pytest.mark.parametrize(
    "name",
    [
        *("approved_by", "reviewed_by", "decided_by", "answered_by", "overridden_by"),
        *("edited_by", "checkedBy", "approvedby", "geprüft_von", "manager", "physician"),
        *("operator", "moderator_name"),
    ],
)
def test_who_answered_is_the_reviewer(name: str) -> None:
    people: dict[str, Any] = {name: ["ann", "bob", "eve"] * 500}
    log = look(priced(**people))
    roles = roles_of(log, {})
    assert roles.reviewer == name
    assert [*propose(log, roles).context] == ["demand", "base_price"]


@pytest.mark.parametrize(
    "name",
    [
        *("labels", "sampleWeights", "sampleweight", "gewicht", "propensities", "actionProbs"),
        *("wahrscheinlichkeit", "decision_ts", "decidedAt", "final_approved", "approved_at"),
        *("is_approved", "wasOverridden", "ueberstimmt", "überstimmt", "vorschlag", "n_sales"),
        *("isConverted", "conversions", "gebucht", "umsatz", "rewards", "erstellt_am", "vetoes"),
        *("recommendations", "approvals", "approved_by_score", "decision_time_utc"),
        *("δ", "deltaHat", "log_delta", "scaleFactor", "scaling_factor", "scaler_output"),
    ],
)
def test_other_spellings_of_reserved_columns_are_no_context_either(name: str) -> None:
    log = look(with_noise(name))
    found = propose(log, roles_of(log, {"outcome": "booked"}))
    assert [*found.context] == ["demand", "base_price"]
    assert found.without[name]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "delta_airlines",
            "scale",
            "factor",
            "total_weight",
            "time_of_day",
            "target_group_size",
            "order_size",
            "prev_clicks",
        ),
        *("manager_age", "operator_experience", "umsatz_vorjahr", "sold_last_year", "onset"),
    ],
)
def test_other_names_that_only_sound_reserved_stay_context(name: str) -> None:
    log = look(with_noise(name))
    assert name in propose(log, roles_of(log, {"outcome": "booked"})).context


def test_a_payment_made_of_a_rate_and_a_loan_is_no_context() -> None:
    """Interest and repayment: loan · rate / 12 + loan / 36."""
    rng = np.random.default_rng(0)
    loan, rate = rng.integers(1000, 20000, 1000), rng.choice([4.5, 5.5, 6.5], 1000)
    data = {"score": rng.random(1000).round(2), "loan": loan, "rate": rate}
    payment = (loan * (rate / 1200 + 1 / 36)).round(2)
    frame = pl.DataFrame({**data, "repaid": rng.integers(0, 2, 1000), "payment": payment})
    text = proposed(frame)
    assert "payment" not in parse(text).instance.context.columns
    assert "# - payment: it" in text


def test_a_log_of_successes_alone_is_pointed_at() -> None:
    """Without the nights that stayed empty, 'booked' is 1 throughout."""
    frame = priced().with_columns(revenue=pl.col("price"), sold=pl.lit(1)).drop("booked")
    said = "sold is 1 in every row: failures seem not to be in the log"
    assert f"# NOTE: {said}" in proposed(frame)
    with pytest.raises(InvalidInput, match="the outcome 'sold' is 1 in every row: failures"):
        proposed(frame, outcome="sold")


def answered(*words: str) -> pl.DataFrame:
    """Return bookings with a 'status' of these words."""
    return priced(status=lambda frame, rng: rng.choice(words, frame.height))


@pytest.mark.parametrize("words", [("auto", "approved", "changed"), ("auto", "manual")])
def test_a_status_of_unknown_words_is_no_context(words: tuple[str, ...]) -> None:
    frame = answered(*words)
    text = proposed(frame)
    assert "status" not in parse(text).instance.context.columns
    assert "status=" not in text
    said = "its words are not known ('auto'" if "manual" not in words else "('auto', 'manual')"
    assert said in text
    with pytest.raises(InvalidInput, match="--status: status: its words are not known"):
        proposed(frame, status="status")


def test_an_action_that_only_looks_like_numbers_is_refused() -> None:
    """'120,0' became one of hundreds of categories."""
    frame = priced().with_columns(
        price=pl.col("price").map_elements(lambda p: f"{p:.1f}".replace(".", ","), pl.String)
    )
    with pytest.raises(InvalidInput, match="the action 'price' is no number: price holds text"):
        proposed(frame, action="price")
    words = pl.Series("tool", [f"t{i % 40}" for i in range(1500)])
    with pytest.raises(InvalidInput, match="40 different texts; expected numbers, or at most 30"):
        proposed(priced().with_columns(words), action="tool")


def test_where_a_reviewer_is_found_somebody_is_at_the_gate() -> None:
    words = np.random.default_rng(0).choice(["a", "b"], (2, 1500))
    frame = priced().drop("price", "base_price")
    frame = frame.with_columns(tool=pl.Series(words[0]), reviewer=pl.Series(words[1]))
    assert parse(proposed(frame)).instance.chain.has_person


def randomised(propensity: float = 0.2, n: int = 900) -> pl.DataFrame:
    """Return a randomised test of five multiples of four bases, which has one propensity."""
    rng = np.random.default_rng(3)
    base, arm = rng.choice([90, 120, 160, 210], n), rng.choice([0.8, 0.9, 1.0, 1.1, 1.25], n)
    booked = (rng.random(n) < 1.0 / (1.0 + np.exp(4.0 * arm - 5.0))).astype(int)
    data = {"base": base, "busy": rng.random(n).round(3), "price": base * arm}
    return pl.DataFrame({**data, "propensity": [propensity] * n, "booked": booked})


def test_few_bases_are_no_leak_though_prices_belong_to_one_each() -> None:
    text = proposed(randomised())
    data = tomllib.loads(text)
    assert data["composition"]["base"] == ["base"]
    assert data["arms"]["values"] == [0.8, 0.9, 1, 1.1, 1.25]
    text = proposed(randomised().with_columns(band=pl.col("price") > 130))
    assert "it is a function of the executed 'price', as if it had been written after it" in text


def test_the_one_propensity_of_an_even_test_is_taken() -> None:
    text = proposed(randomised())
    assert "# CHOOSE: propensity = propensity, guessed by its name." in text
    assert tomllib.loads(text)["history"]["propensity"] == "propensity"
    percent = "propensity: expected probabilities above 0 and at most 1, got 20; if these are"
    assert f"# NOTE: {percent} percent, divide them by 100" in proposed(randomised(20.0))
    with pytest.raises(InvalidInput, match="--propensity: " + percent):
        proposed(randomised(20.0), propensity="propensity")
    with pytest.raises(InvalidInput, match="divide percent by 100"):
        read_log(randomised(20.0), parse(text).instance)


def test_arms_that_rounding_cannot_tell_apart_are_one() -> None:
    """Whole euros on bases up to 210: steps of 0.005, so that 0.798 and 0.802 are one arm."""
    rng = np.random.default_rng(0)
    base = rng.uniform(180, 210, 900).round(2)
    price = (base * rng.choice([0.8, 0.9, 1.0], 900)).round(0)
    values = tomllib.loads(proposed(randomised().with_columns(base=base, price=price)))["arms"][
        "values"
    ]
    assert values == [0.8, 0.9, 1]


def sold_by(share: float) -> Any:
    """Return a column that is 1 with this probability where something was booked, else with 0.2."""
    return lambda f, r: (r.random(f.height) < np.where(f["booked"] == 1, share, 0.2)).astype(int)


def test_a_column_that_predicts_well_is_asked_about_and_stays(tmp_path: Path) -> None:
    """Sent to 90 % of those who booked and 20 % of the others: about 0.4 of the deviance."""
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    priced(email_sent=sold_by(0.9), weak=sold_by(0.4)).write_csv(log)
    code, _, err = call("m", "--from", str(log), "--out", str(file))
    assert code == 0
    asked = r"email_sent: it tells 3\d % of the outcome: is it known when the decision is taken\?"
    assert re.search(asked, err)
    text = file.read_text(encoding="utf-8")
    assert re.search(rf"# CHOOSE: {asked}\nemail_sent = ", text)
    assert "weak: it tells" not in text
    assert {"email_sent", "weak"} <= {*parse(text).instance.context.columns}


def keyed(frame: pl.DataFrame, _: np.random.Generator) -> Any:
    return 100 * frame["demand"] + frame["booked"]


def flagged(frame: pl.DataFrame, _: np.random.Generator) -> Any:
    return (frame["demand"] > 0.5) ^ (frame["booked"] == 1)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        ({"odd": flagged}, ["demand", "base_price"]),
        ({"ref": keyed}, ["base_price"]),
        ({"ref": keyed, "odd": flagged}, ["base_price"]),
        (
            {"a": noise, "b": noise, "sum": lambda f, _: f["booked"] + 9 * f["demand"]},
            ["base_price", "a", "b"],
        ),
    ],
)
def test_columns_that_tell_the_outcome_together_are_left_out(
    columns: dict[str, Any], kept: list[str]
) -> None:
    """Each alone tells nothing. Of two that determine each other, nobody knows the later one."""
    found = propose(log := look(priced(**columns)), roles_of(log, {}))
    assert list(found.context) == kept
    assert all(
        "% of the outcome together, though each alone tells little" in found.without[name]
        for name in found.doubtful
    )
    assert {*found.doubtful} == {"demand", "base_price", *columns} - {*kept}


def test_what_tells_much_alone_does_not_hide_what_two_tell_together() -> None:
    """Two columns that tell a third each; they stay, and the key does not."""
    log = look(priced(ref=keyed, hint=sold_by(0.9), clue=sold_by(0.88)))
    found = propose(log, roles_of(log, {}))
    assert list(found.context) == ["base_price", "hint", "clue"]


def test_where_all_columns_tell_together_the_first_stays() -> None:
    log = look(priced(ref=keyed, odd=flagged).drop("base_price"))
    assert list(propose(log, roles_of(log, {})).context) == ["demand"]


@pytest.mark.parametrize("seed", range(10))
def test_a_strong_context_is_no_joint_leak(seed: int) -> None:
    """Six causes, an interaction and a threshold: together they tell more than half."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3000, 6))
    score = x.sum(axis=1) * 1.5 + 2.0 * x[:, 0] * x[:, 1] + 2.0 * (x[:, 2] > 0.5)
    sold = (rng.random(3000) < 1.0 / (1.0 + np.exp(-3.0 * score))).astype(int)
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(6)})
    frame = frame.with_columns(price=pl.Series(rng.uniform(1, 9, 3000)), sold=pl.Series(sold))
    log = look(frame)
    assert propose(log, roles_of(log, {})).without == {}


TOTAL = "it is a running total of the outcome"


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f["booked"].cum_sum(),
        lambda f: f["booked"].cum_sum() - f["booked"],
        lambda f: 5000 - f["booked"].cum_sum(),
        lambda f: (f["booked"] * f["price"]).cum_sum(),
        lambda f: f.select(pl.col("booked").cum_sum().over("flat"))["booked"],
    ],
)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_running_total_of_the_outcome_is_left_out(make: Any, is_sorted: bool) -> None:
    """Of all rows or of a flat's; of numbers or of what they earned; in the order of time."""
    day = np.datetime64("2025-01-01T00:00") + np.arange(1500) * 60
    frame = priced(flat=["Sea", "Quay", "Dune"] * 500, time=day.astype(str))
    frame = frame.with_columns(tally=make(frame))
    frame = frame if is_sorted else frame.sample(fraction=1.0, shuffle=True, seed=1)
    assert f"# - tally: {TOTAL}" in proposed(frame)


def test_other_totals_and_stocks_stay() -> None:
    """What is in stock before the decision falls by the sale of the row before."""
    frame = priced()
    stock = 5000 - frame["booked"].cum_sum() + frame["booked"]
    log = look(frame.with_columns(stock=stock, week=pl.Series(np.arange(1500) // 140)))
    assert {"stock", "week"} <= {*propose(log, roles_of(log, {})).context}


def shares(**columns: Any) -> pl.DataFrame:
    """Return bookings where the action is the ratio of a price to its base."""
    made = {"price_ratio": lambda f, _: (f["price"] / f["base_price"]).round(3), **columns}
    return priced(**made).drop("price", "base_price")


def test_a_proposal_is_on_the_scale_of_the_action(tmp_path: Path) -> None:
    """Prices of about 140 were not proposed where ratios of about 1 ran."""
    frame = shares(suggested_price=lambda f, _: f["price"])
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    frame.write_csv(log)
    code, _, err = call("m", "--from", str(log), "--out", str(file), "--action", "price_ratio")
    assert code == 0
    said = "suggested_price is not on the scale of the action price_ratio: 0 % of its cells lie"
    assert said in err
    assert "recommended" not in tomllib.loads(file.read_text(encoding="utf-8"))["history"]
    with pytest.raises(InvalidInput, match="--recommended: suggested_price is not on the scale"):
        proposed(frame, action="price_ratio", recommended="suggested_price")
    on = frame.with_columns(recommended="price_ratio")
    roles = roles_of(look(on), {"action": "price_ratio"})
    assert (roles.recommended, roles.said) == ("recommended", [])


def test_a_proposal_that_never_ran_is_pointed_at() -> None:
    frame = priced(suggested_price=lambda f, r: f["price"] + r.uniform(0.5, 1.5, f.height))
    roles = roles_of(look(frame), {})
    assert roles.recommended == "suggested_price"
    assert "suggested_price is what ran in 0 % of the rows: look whether" in roles.said[0]


def test_words_that_never_ran_are_no_proposal() -> None:
    words = np.random.default_rng(0).choice(["a", "b"], 1500)
    frame = priced().drop("price", "base_price").with_columns(tool=pl.Series(words))
    for suggested, role in (("x" + frame["tool"], ""), (frame["tool"], "suggested")):
        log = look(frame.with_columns(suggested=suggested))
        assert roles_of(log, {"action": "tool"}).recommended == role


def test_one_column_plays_one_part() -> None:
    with pytest.raises(InvalidInput, match="--action and --outcome both name 'price'"):
        proposed(priced(), action="price", outcome="price")
    assert 'reward = "-"' in proposed(priced(), outcome="booked", reward="booked")


def test_a_column_without_a_name_is_called_so(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    text = priced(300).with_row_index("zz").write_csv()
    log.write_text(text.replace("zz", "", 1), encoding="utf-8")
    _, _, err = call("m", "--from", str(log), "--out", str(file))
    assert "left out: (a column without a name): it is like the row numbers that pandas" in err
    _, _, err = call("m", "--from", str(log), "--out", str(file), "--force", "--reward", "revenu")
    assert "no column 'revenu'; it has (a column without a name), demand, base_price" in err


@pytest.mark.parametrize("number", ["Unnamed: 0", "nth"])
def test_row_numbers_make_up_no_column(number: str) -> None:
    """A price with tax and noise is a function of the price, and of nothing else."""
    frame = priced(taxed=lambda f, r: (1.2 * f["price"] + r.normal(0, 0.3, f.height)).round(2))
    text = proposed(frame.with_row_index(number))
    assert "# - taxed: it is nearly a function of 'price', as if it had been written" in text
    assert f"and '{number}'" not in text
    assert list(parse(text).instance.context.columns) == ["demand", "base_price"]


def timed(**days: float) -> pl.DataFrame:
    """Return bookings with columns of times, so many days after the decision."""
    start = np.datetime64("2025-01-01T00:00") + np.arange(300) * 60
    times = {k: (start + int(v * 1440)).astype(str).tolist() for k, v in days.items()}
    return priced(300, **times)


@pytest.mark.parametrize("first", ["decided_at", "decision_time", "at", "time", "date"])
@pytest.mark.parametrize("then", ["outcome_time", "settled_at", "resultTime", "booked_at"])
def test_the_time_of_the_outcome_is_not_that_of_the_decision(first: str, then: str) -> None:
    """Whichever stands first in the log; both are named in the file, which reads the log."""
    for frame in (timed(**{first: 0, then: 2}), timed(**{then: 2, first: 0})):
        text = proposed(frame, outcome="booked")
        history = tomllib.loads(text)["history"]
        assert (history["time"], history["outcome_time"]) == (first, then)
        declared = parse(text)
        report = open_log(frame, declared.instance, columns=declared.columns).report
        assert report.read == report.valid == 300


@pytest.mark.parametrize(
    "name",
    [
        *("outcome_at", "paid_at", "reported_at", "observed_at", "resolved_at", "settled_date"),
        *("payment_time", "closed_at", "clicked_ts", "bezahlt_am"),
    ],
)
def test_other_names_of_the_time_of_the_outcome(name: str) -> None:
    roles = roles_of(look(timed(**{name: 1, "created_at": 0})), {})
    assert (roles.time, roles.outcome_time) == ("created_at", name)
    alone = roles_of(look(timed(**{name: 1})), {})
    assert (alone.time, alone.outcome_time) == ("", "")
    assert "is called like the time of the outcome, and no column is that of the" in alone.said[0]


def test_times_that_cannot_be_told_apart_are_said(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    timed(created_at=0, date=0.5, settled_at=3, paid_at=4).write_csv(log)
    _, _, err = call("m", "--from", str(log), "--out", str(file))
    assert "time: created_at, guessed by its name, though it might also be date; --time" in err
    assert "outcome_time: settled_at, guessed by its name, though it might also be paid_at" in err
    more = ("--out", str(file), "--force", "--outcome-time", "paid_at", "--time", "date")
    assert call("m", "--from", str(log), *more)[0] == 0
    history = tomllib.loads(file.read_text(encoding="utf-8"))["history"]
    assert (history["time"], history["outcome_time"]) == ("date", "paid_at")
    roles = roles_of(look(timed(started=0, seen=1)), {})
    assert roles.time == ""
    assert "which of started, seen is the time of the decision cannot be told" in roles.said[0]


def test_an_outcome_does_not_come_before_its_decision() -> None:
    roles = roles_of(look(timed(decided_at=0, paid_on=-30)), {})
    assert (roles.time, roles.outcome_time) == ("decided_at", "")
    assert "but lies before decided_at in 100 % of the rows: it is left out" in roles.said[0]
    with pytest.raises(InvalidInput, match="--outcome-time: demand holds number, not times"):
        proposed(timed(decided_at=0), outcome_time="demand")


@pytest.mark.parametrize("zone", ["", "Z", "+02", "+0200"])
def test_a_time_may_have_hours_only(zone: str) -> None:
    hours = np.datetime64("2025-01-01T00") + np.arange(1500) // 2
    times = [f"{one}{zone}" for one in hours.astype(str)]
    assert times[0] == f"2025-01-01T00{zone}"
    column = look(priced(night=times)).columns["night"]
    assert column.kind == "time"
    start = 1_735_689_600 - (7200 if zone.startswith("+") else 0)
    assert column.values[[0, 2]].tolist() == [start, start + 3600]


def sold_at_ratios(n: int = 2_000) -> pl.DataFrame:
    """Return prices of five ratios to a base in cents, the dearest of which ran in 4 % of rows."""
    rng = np.random.default_rng(3)
    ratio = rng.choice([0.8, 0.9, 1.0, 1.1, 1.25], n, p=[0.24, 0.24, 0.24, 0.24, 0.04])
    base = rng.uniform(80, 240, n).round(2)
    sold = (rng.random(n) < 0.5).astype(int)
    busy = rng.random(n).round(3)
    return pl.DataFrame(
        {"busy": busy, "base": base, "price": (base * ratio).round(2), "sold": sold}
    )


def test_a_level_that_quantiles_leave_out_is_said(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    sold_at_ratios().write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0, err
    assert "values = [0.8, 0.9, 1, 1.1]" in file.read_text()
    said = (
        r"over base: [345]\.\d % of the rows ran at about 1\.25, well above the highest arm, 1\.1;"
    )
    assert re.search(said, err)


def test_two_columns_of_one_name_are_refused_as_a_check_refuses_them(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    rows = "".join(f"{i % 7},{i % 5},{100 + i % 3},{i % 2}\n" for i in range(200))
    log.write_text(f"busy,busy,price,sold\n{rows}")
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code != 0
    assert "two columns are named 'busy'" in err
    assert not file.exists()


def test_a_column_with_infinite_numbers_is_said_to_have_them(tmp_path: Path) -> None:
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    frame = sold_at_ratios(600)
    heat = np.where(np.arange(600) % 10 == 4, np.inf, np.random.default_rng(0).normal(size=600))
    frame.with_columns(heat=pl.Series(heat)).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0, err
    assert 'left out: heat: it holds numbers of which some are infinite, such as "inf"' in err


@pytest.mark.parametrize("sign", ["\u200b", "\u00ad", "\ufeff", "\U000e0041"])
@pytest.mark.parametrize("role", ["price", "sold"])
def test_invisible_signs_in_a_header_are_said_and_left_out(
    role: str, sign: str, tmp_path: Path
) -> None:
    """The declaration has the name as it is shown, and [history] the log's; both are read."""
    log, file = tmp_path / "log.csv", tmp_path / "mine.toml"
    raw = role + sign
    sold_at_ratios(600).rename({role: raw}).write_csv(log)
    code, _, err = call("mine", "--from", str(log), "--out", str(file))
    assert code == 0, err
    said = f"the column {raw!a} has an invisible sign in its name: here it is called '{role}'"
    assert said in err
    text = file.read_text(encoding="utf-8")
    assert f"# NOTE: {said}" in text
    assert sign not in text
    declared = read(file)
    assert [one.name for one in declared.instance.actions] == ["price"]
    assert declared.instance.reward.outcome == ("sold",)
    report = open_log(str(log), declared.instance, columns=declared.columns).report
    assert report.read == report.valid == 600


def test_an_invisible_sign_in_a_category_that_is_an_arm_is_refused() -> None:
    words = np.random.default_rng(0).choice(["a", "b\u200b"], 1500)
    frame = priced().drop("price", "base_price").with_columns(tool=pl.Series(words))
    with pytest.raises(
        InvalidInput, match=r"'tool' has the category 'b\\u200b', with an invisible"
    ):
        proposed(frame, action="tool")
