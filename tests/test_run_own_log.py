"""`gdcb run MINE.toml --history LOG`: the protocol in worlds that are modelled on a log."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from gdcb import declaration
from gdcb.cli import app, tables
from gdcb.errors import InvalidInput
from gdcb.history import certify
from gdcb.history import read as read_log
from gdcb.history.batch import Batch
from gdcb.history.columns import look
from gdcb.history.infer import propose
from gdcb.history.instance_file import toml
from gdcb.history.model_world import ModelWorld, world_of
from gdcb.history.reviewer import person_of
from gdcb.history.roles import roles_of
from gdcb.history.sentences import REFUSALS
from gdcb.history.warm import treated
from gdcb.instance import Instance
from gdcb.instances import study
from gdcb.pages.numbers import Estimate
from gdcb.protocol import experiment
from gdcb.protocol.block import _past, run_task
from gdcb.protocol.experiment import settings_of_own
from gdcb.protocol.ground import shared_by, study_of
from gdcb.protocol.methods import build, settings_for
from gdcb.protocol.record import Record
from gdcb.protocol.report.document import ColdStart
from gdcb.protocol.report.words import MODELLED
from gdcb.protocol.store import Store
from gdcb.protocol.task import GROUND
from gdcb.records import Rows
from gdcb.streams import CONTEXT, OUTCOME, WORLD, Streams
from tests import own_logs

TINY = ("--replicates", "5", "--episodes", "10", "--engine", "local")
METHODS = "B1,B2gw,B4,A1,A2,A3"


def call(*arguments: str) -> tuple[int, str, str]:
    """Run in this process."""
    result = CliRunner().invoke(app, ["run", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def declared_for(log: Path, file: Path) -> Path:
    """Write the file that is proposed for a log."""
    seen = look(str(log))
    file.write_text(toml("mine", propose(seen, roles_of(seen, {}))), encoding="utf-8")
    return file


def opened(log: Path, tmp_path: Path) -> tuple[Instance, Batch]:
    """Return a log's rows, read by what is proposed for it."""
    declared = declaration.read(declared_for(log, tmp_path / "opened.toml"))
    return declared.instance, read_log(str(log), declared.instance, columns=declared.columns)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run once on a log of prices."""
    folder = tmp_path_factory.mktemp("own")
    log = own_logs.prices(folder / "log.csv")
    file = declared_for(log, folder / "mine.toml")
    out = folder / "out"
    arguments = (str(file), "--history", str(log), *TINY, "--methods", METHODS, "--out", str(out))
    code, said, err = call(*arguments)
    assert code == 0, err
    return {
        "log": log,
        "file": file,
        "said": said,
        "out": out,
        "page": (out / "report.html").read_text(encoding="utf-8"),
        "document": json.loads((out / "summary.json").read_text(encoding="utf-8")),
    }


# The command


def test_every_surface_says_that_the_response_is_a_model(run: dict[str, Any]) -> None:
    assert run["document"]["response"] == "model"
    assert " ".join(MODELLED.split()) in " ".join(run["said"].split())
    # At the top, in the summary, and above theorems and results.
    assert run["page"].count(MODELLED) >= 4
    assert "with a known truth" not in run["page"]
    assert "untuned" in run["page"]


def test_the_document_is_whole(run: dict[str, Any]) -> None:
    document = run["document"]
    assert list(document["methods"]) == METHODS.split(",")
    assert document["instance"] == "mine"
    assert document["variant"] == "model"
    for method in document["methods"].values():
        assert len(method["regret_curve"]) == 10
        parts = sum(part["mean"] for part in method["parts"].values())
        assert parts == pytest.approx(method["regret"]["mean"], rel=1e-9)
    assert document["cold_start"]["warm_minus_cold"] is not None
    options = document["options"]
    assert options["history"] == str(run["log"])
    assert len(options["log"]) == len(options["file"]) == 16
    words = {word: value for _, word, value in document["specification"]}
    assert words["log"] == "900 rows read, 900 valid"
    assert "B5, B5w, B5u: nobody was asked for preferences" in words["methods left out"]


def test_every_surface_says_what_the_certificates_decided(run: dict[str, Any]) -> None:
    """Counts by arm are those of the certificates themselves; the console says the same."""
    methods = run["document"]["methods"]
    found = methods["B4"]["certificates"]
    assert methods["A3"]["certificates"] is None, "it starts cold"
    assert methods["B2gw"]["certificates"] is None, "it reads the context"
    studied = study(str(run["file"]), "model", {"history": str(run["log"])}, 10)
    own: Any = studied.domain.world
    drawn = started(own, 5, seed=0)[0]
    instance, bandit = studied.domain.instance, studied.domain.bandit
    expected = {name: Counter[str]() for name in instance.space.names}
    reasons, whole = Counter[str](), 0
    for one in drawn.replicates:
        batch = replace(own.batch.take(one.kept), unit=own.place(one))
        certificate = certify(batch, instance, bandit, full=False)
        whole += certificate.is_refused
        for arm in certificate.arms:
            expected[arm.arm][arm.verdict] += 1
        for kind, names in certificate.refusals.items():
            reasons[REFUSALS[kind]] += len(names)
    assert found["histories"] == 5
    assert found["refused"] == whole
    for arm in found["arms"]:
        assert {name: n for name, n in arm.items() if name != "arm" and n} == dict(
            expected[arm["arm"]]
        )
    assert {one["reason"]: one["count"] for one in found["reasons"]} == dict(reasons)
    said = " ".join(run["said"].split())
    assert f"Certificates: {whole} of 5 histories refused as a whole" in said
    assert "What the certificates let B4 use" in run["page"]
    assert f"Certificates: {whole} of 5 histories refused as a whole" in run["page"]


def test_its_command_gives_the_same_bytes(run: dict[str, Any], tmp_path: Path) -> None:
    words = shlex.split(run["document"]["command"])
    assert words[:2] == ["gdcb", "run"]
    code, _, err = call(*words[2:], "--engine", "local", "--out", str(tmp_path))
    assert code == 0, err
    for name in ("summary.json", "episodes.parquet", "report.html"):
        assert (tmp_path / name).read_bytes() == (run["out"] / name).read_bytes()


def test_json_is_the_document_and_nothing_else(run: dict[str, Any], tmp_path: Path) -> None:
    # On other processes, which read file and log again.
    code, out, _ = call(
        *(str(run["file"]), "--history", str(run["log"]), "--replicates", "2", "--episodes", "3"),
        *("--methods", "B4", "--engine", "pool", "--out", str(tmp_path), "--json"),
    )
    assert code == 0
    assert json.loads(out)["response"] == "model"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("{file}",), 2, "give its log with --history LOG"),
        (("str", "--history", "{log}"), 2, "--history is for a TOML file"),
        (("{file}", "str", "--history", "{log}"), 2, "a file runs by itself"),
        (("{file}", "--history", "{log}", "--variant", "mis"), 2, "a log has one truth"),
        (("{file}", "--history", "{log}", "--query", "select 1"), 2, "no database's URL"),
        (("{file}", "--history", "sqlite://me:secret@h/db"), 2, "it may hold no password"),
        (("{file}", "--history", "nowhere.csv"), 1, "there is no such file"),
        (("nowhere.toml", "--history", "{log}"), 1, "cannot be read"),
        (("{file}", "--history", "{log}", "--methods", "B5"), 1, "nobody was asked"),
        (("{file}", "--history", "{log}", "--methods", "B9"), 1, "no method 'B9'"),
        (("{file}", "--history", "{log}", "--option", "nights=3"), 1, "has the option rows, not"),
        (("{file}", "--history", "{log}", "--option", "rows=0"), 1, "rows: expected a whole"),
    ],
)
def test_wrong_calls_are_refused_before_any_work(
    arguments: tuple[str, ...], code: int, said: str, run: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [word.format(file=run["file"], log=run["log"]) for word in arguments]
    found, _, err = call(*words, "--out", str(out))
    assert found == code
    assert said in " ".join(err.split())
    assert "secret" not in err
    assert not (out / "report.html").exists()


def test_a_changed_log_is_noticed(tmp_path: Path) -> None:
    log = own_logs.prices(tmp_path / "log.csv", 300)
    file = str(declared_for(log, tmp_path / "mine.toml"))
    settings = settings_of_own(file, str(log), 3, 2, 0, ("B4",))
    options = dict(settings.options)
    assert study(file, "model", options, 3).response == "model"
    own_logs.prices(log, 301)
    with pytest.raises(InvalidInput, match="has changed since the run began"):
        study(file, "model", options, 3)
    assert dict(settings_of_own(file, str(log), 3, 2, 0, ("B4",)).options) != options


def test_an_interrupted_run_goes_on(run: dict[str, Any], tmp_path: Path) -> None:
    settings = settings_of_own(
        str(run["file"]), str(run["log"]), 10, 5, 0, tuple(METHODS.split(","))
    )
    # A2 is another method's second name, and runs as that.
    once = replace(settings, methods=("B1", "B2gw", "B4", "A1", "B4u", "A3"))
    about = experiment._about(settings_for(study_of(once.task(0, GROUND))))
    with Store(tmp_path, once, about=about) as store:
        for key in (GROUND, "B1"):
            store.write(once.task(0, key), run_task(once.task(0, key)))
    words = shlex.split(run["document"]["command"])[2:]
    code, _, err = call(*words, "--engine", "local", "--out", str(tmp_path), "--resume")
    assert code == 0, err
    assert "nothing to resume" not in err
    for name in ("summary.json", "episodes.parquet", "report.html"):
        assert (tmp_path / name).read_bytes() == (run["out"] / name).read_bytes()


def test_of_a_long_log_a_sample_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = own_logs.prices(tmp_path / "log.csv", 1500)
    file = str(declared_for(log, tmp_path / "mine.toml"))
    monkeypatch.setattr("gdcb.instances.own_log.domain.MOST_ROWS", 400)
    found = study(file, "model", {"history": str(log)}, 3)
    world: Any = found.domain.world
    assert world.batch.n == 400
    assert (np.diff(world.batch.time) >= 0).all()
    words = {word: value for _, word, value in found.specification}
    assert words["log"] == "1,500 rows read, 1,500 valid, of which a sample of 400 is used"


def test_rows_that_break_the_schema_are_said(tmp_path: Path) -> None:
    log = own_logs.prices(tmp_path / "log.csv", 400)
    file = str(declared_for(log, tmp_path / "mine.toml"))
    frame = pl.read_csv(log)
    demand = frame["demand"].to_list()
    frame.with_columns(demand=pl.Series([7.0, 8.0, *demand[2:]])).write_csv(log)
    found = study(file, "model", {"history": str(log)}, 3)
    words = {word: value for _, word, value in found.specification}
    assert words["log"] == "400 rows read, 398 valid"
    assert "demand: outside 0 to 1 in 2 rows" in words["what is odd about the log"]


@pytest.mark.parametrize("make", [own_logs.doses, own_logs.choices])
def test_rewards_and_categories_run_too(make: Any, tmp_path: Path) -> None:
    log = make(tmp_path / "log.csv", 400)
    file = declared_for(log, tmp_path / "mine.toml")
    out = tmp_path / "out"
    code, _, err = call(
        *(str(file), "--history", str(log), "--replicates", "3", "--episodes", "5"),
        *("--engine", "local", "--out", str(out)),
    )
    assert code == 0, err
    document = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert {"B1", "B2", "B2w", "B4", "A3"} <= set(document["methods"])
    assert not {"B2g", "B3", "A1", "B5"} & set(document["methods"])
    if make is own_logs.doses:
        assert document["methods"]["B1"]["label"] == "Gaussian Thompson"


# The world


def world(tmp_path: Path, n: int = 900, **settings: Any) -> ModelWorld:
    """Return the world of a log of prices."""
    log = own_logs.prices(tmp_path / "log.csv", n, **settings)
    return world_of(*opened(log, tmp_path))[0]


def started(of: ModelWorld, replicates: int, seed: int = 3) -> tuple[Any, Any, Streams]:
    streams = Streams(seed, of.units)
    group = np.repeat(np.arange(replicates), of.units)
    return of.start(streams.at(WORLD, 0), group), group, streams


def test_the_response_is_found_again_though_prices_follow_demand(tmp_path: Path) -> None:
    """P = σ(3 − 3c + 2(d − ½)); four standard errors fail a sound fit once in 16,000 seeds."""
    of = world(tmp_path, 6000)
    features, response = (
        of.response.features,
        replace(of.response, form=replace(of.response.form, degree=1, interactions=False)),
    )
    fit = response.fit(of.batch, of.taught)
    p = len(features.columns)
    half = (features.high - features.low)[0] / 2
    slope, error = fit.mean[1 + p] / half, np.linalg.norm(fit.root[1 + p]) / half
    assert abs(slope + 3.0) < 4 * error
    assert error < 0.3
    at = features.columns.index(of.instance.context.names.index("demand"))
    slope, error = fit.mean[1 + at], np.linalg.norm(fit.root[1 + at])
    assert abs(slope - 2.0 * features.spread[at]) < 4 * error
    assert of.response.by_action > 0


def test_units_that_charge_more_because_they_are_worth_more_do_not_mislead() -> None:
    """Level of unit u: u/2, and its price 0.3·u/2: without habits the slope would be far off."""
    rng = np.random.default_rng(0)
    n, k = 6000, 8
    unit = rng.integers(0, k, n)
    level = 1.0 * (unit - 3.5)
    price = 2.0 + 0.5 * level + 0.3 * rng.normal(size=n)
    p = 1.0 / (1.0 + np.exp(-(level - 2.0 * (price - 2.0))))
    sold = (rng.random(n) < p).astype(float)
    instance = declaration.parse(
        """
        context.x = { type = "number" }
        arms = { part = "list", values = [1.0, 2.0, 3.0] }
        composition = { part = "multiply", names = ["price"] }
        gates = []
        reward = { part = "payoff", outcome = ["sold"], action = 0 }
        bandit = { part = "beta-thompson" }
        """
    ).instance
    batch = Batch(rng.normal(size=(n, 1)), price[:, None], sold[:, None], unit, np.arange(n))
    of, _ = world_of(instance, batch)
    response = replace(of.response, form=replace(of.response.form, degree=1, interactions=False))
    features = response.features
    half = (features.high - features.low)[0] / 2
    fit = response.fit(batch, of.taught)
    error = np.linalg.norm(fit.root[2]) / half
    assert abs(fit.mean[2] / half + 2.0) < 4 * error
    alone = replace(features, habit=None)
    biased = replace(response, features=alone).fit(batch, of.taught)
    assert biased.mean[2] / half > -1.0


def test_halves_do_not_meet_and_replicates_differ(tmp_path: Path) -> None:
    of = world(tmp_path)
    state, group, streams = started(of, 4)
    for one in state.replicates:
        assert not set(one.fitted.tolist()) & set(one.kept.tolist())
        assert 0.4 < one.fitted.size / of.taught.size < 0.6
        assert set(of.batch.unit[one.kept].tolist()) <= set(one.units.tolist())
    weights = of.weights(state).reshape(4, of.units, -1)
    assert len(np.unique(weights[:, 0, 1])) == 4
    past = of.past(of.instance, of, state, group, streams)
    kept = np.concatenate([one.kept for one in state.replicates])
    assert past.log.y.tolist() == of.batch.outcome[kept, 0].tolist()
    assert past.log.action.tolist() == of.batch.action[kept].tolist()
    assert (group[past.log.unit] == past.log.group).all()
    names = state.unit[past.log.unit]
    assert (names == of.batch.unit[kept]).all()


def confounded(path: Path, n: int = 2000) -> Path:
    """Write prices that follow demand: P = σ(2.5 − 3·price/100 + 3·(demand − ½)); no proposals."""
    rng = np.random.default_rng(0)
    demand = rng.random(n)
    price = 100.0 * (1.0 + 0.6 * (demand - 0.5)) * np.exp(0.2 * rng.standard_normal(n))
    p = 1.0 / (1.0 + np.exp(-(2.5 - 0.03 * price + 3.0 * (demand - 0.5))))
    booked = (rng.random(n) < p).astype(int)
    pl.DataFrame({"demand": demand, "price": price.round(2), "booked": booked}).write_csv(path)
    return path


def test_prices_that_follow_demand_do_not_spoil_the_warm_start(tmp_path: Path) -> None:
    """From plain rows the warm start had 2.5 times the cold one's regret; certified, under half."""
    log, out = confounded(tmp_path / "log.csv"), tmp_path / "out"
    file = declared_for(log, tmp_path / "mine.toml")
    code, _, err = call(
        *(str(file), "--history", str(log), "--replicates", "5", "--episodes", "30"),
        *("--methods", "B4,A3", "--engine", "local", "--out", str(out)),
    )
    assert code == 0, err
    document = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    warm, cold = (document["methods"][key]["regret"]["mean"] for key in ("B4", "A3"))
    assert warm < 0.8 * cold
    real = " ".join(document["about"]["real"])
    assert "certificate of each replicate's history" in real


def test_the_history_is_what_its_certificate_says(tmp_path: Path) -> None:
    """Row by row as `treated` leaves it; who reads the context gets the log's own rows."""
    log = confounded(tmp_path / "log.csv", 1200)
    file = declared_for(log, tmp_path / "mine.toml")
    found = study(str(file), "model", {"history": str(log)}, 3)
    own: Any = found.domain.world
    state, group, _ = started(own, 2)
    assert found.certified is not None
    past = found.certified(found.domain.instance, found.domain.bandit, state, group)
    assert past is not None
    assert past.plain is not None
    for g, one in enumerate(state.replicates):
        batch = own.batch.take(one.kept)
        certificate = certify(batch, found.domain.instance, found.domain.bandit, full=False)
        assert certificate.verdict in ("adjust", "reweight")
        expected = treated(certificate, batch, group[:1]).log
        mine = past.log.take(np.flatnonzero(past.log.group == g))
        assert mine.y.tolist() == expected.y.tolist()
        assert mine.weight.tolist() == expected.weight.tolist()
        plain = past.plain.take(np.flatnonzero(past.plain.group == g))
        assert plain.y.tolist() == batch.outcome[:, 0].tolist()
    settings = settings_of_own(str(file), str(log), 3, 2, 0, ("B2gw", "B4"))
    seen = {}
    for key in settings.methods:
        task = settings.task(0, key)
        shared = shared_by(task)
        setup = build(shared.study, key, settings_for(shared.study))
        seen[key] = _past(setup, shared, task, shared.world)
    assert seen["B2gw"] is not None
    assert seen["B2gw"].plain is None
    assert set(seen["B2gw"].log.weight.tolist()) == {1.0}
    assert seen["B4"] is not None
    assert seen["B4"].plain is not None


def test_a_refused_history_starts_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was refused teaches nothing: the run is the cold one, bit for bit."""
    log = confounded(tmp_path / "log.csv", 600)
    file = declared_for(log, tmp_path / "mine.toml")

    def refused(*given: Any, **named: Any) -> Any:
        certificate = certify(*given, **named)
        certificate.verdict = "refuse"
        return certificate

    monkeypatch.setattr("gdcb.instances.own_log.start.certify", refused)
    settings = settings_of_own(str(file), str(log), 4, 2, 0, ("B4", "A3"))
    regret = {}
    for key in settings.methods:
        record = run_task(settings.task(0, key))
        assert isinstance(record, Record)
        regret[key] = record.parts.tolist()
    assert regret["B4"] == regret["A3"]


@pytest.mark.parametrize(
    ("saving", "said"),
    [
        (Estimate(-0.917, -1.2, -0.6), "it cost 91.7 % [60.0, 120.0] of the cold start's regret. "),
        (Estimate(0.25, 0.2, 0.3), "it saved 25.0 % [20.0, 30.0] of the cold start's regret."),
    ],
)
def test_a_warm_start_that_costs_is_said_to_cost(saving: Estimate, said: str) -> None:
    start = ColdStart([], [], [], [], None, saving, None, None)
    (words,) = tables._cold_start(start)
    assert said in words
    assert ("The warm start hurt." in words) is (saving.mean < 0)


def test_a_replicate_hangs_on_nothing_beside_it(tmp_path: Path) -> None:
    of = world(tmp_path)
    (few, few_group, few_streams), (many, group, streams) = started(of, 2), started(of, 5)
    n = few_group.size
    assert of.weights(few).tolist() == of.weights(many)[:n].tolist()
    rows = of.context(streams.at(CONTEXT, 0), many, 0, group)
    same = of.context(few_streams.at(CONTEXT, 0), few, 0, few_group)
    assert rows.x[:n].tolist() == same.x.tolist()
    e = of.candidates(many, rows)
    whole = of.mean(many, e, rows)
    one = rows.take(np.array([7]))
    assert whole[7].tolist() == of.mean(many, e[[7]], one)[0].tolist()
    assert of.best(many, rows)[7].tolist() == of.best(many, one)[0].tolist()


@pytest.mark.parametrize("kind", ["prices", "doses", "choices"])
def test_nothing_is_better_than_the_best(kind: str, tmp_path: Path) -> None:
    """Not even far beyond what the log has seen, and outcomes have the mean that is said."""
    log = getattr(own_logs, kind)(tmp_path / "log.csv", 500)
    of, _ = world_of(*opened(log, tmp_path))
    state, group, streams = started(of, 3)
    rows = of.context(streams.at(CONTEXT, 0), state, 0, group)
    best = of.mean(state, of.best(state, rows)[:, None], rows)
    rng = np.random.default_rng(0)
    if kind == "choices":
        others = np.broadcast_to(np.arange(3.0)[:, None], (rows.n, 3, 1))
    else:
        unit = of.response.features.unit(rows.x)[:, None]
        others = unit * rng.uniform(-6, 9, (rows.n, 200, 1))
        others = np.abs(others) if kind == "prices" else others
    worth = of.mean(state, others, rows)
    assert (worth <= best + 1e-6 * np.abs(best)).all()
    # μ is the mean of what comes: 4 standard errors over 4,000 draws of one row.
    many = rows.take(np.zeros(4000, dtype=np.int64))
    e = np.repeat(others[:1, 1], 4000, axis=0)
    outcome = of.sample(Streams(1, 4000).at(OUTCOME, 0), state, e, many)
    reward = of.instance.realised(outcome, e, many.x)
    error = max(float(reward.std()) / 4000**0.5, 1e-9)
    assert abs(reward.mean() - worth[0, 1]) < 4 * error + 0.02 * abs(worth[0, 1])


def test_where_nothing_runs_the_null_action_counts(tmp_path: Path) -> None:
    of = world(tmp_path)
    state, group, streams = started(of, 1)
    rows = of.context(streams.at(CONTEXT, 0), state, 0, group)
    nothing = np.full((rows.n, 1), np.nan)
    assert of.mean(state, nothing[:, None], rows).tolist() == [[0.0]] * rows.n
    assert (of.sample(streams.at(OUTCOME, 0), state, nothing, rows) == 0).all()


def test_the_incumbent_is_what_was_proposed_in_that_row(tmp_path: Path) -> None:
    of = world(tmp_path)
    state, group, streams = started(of, 2)
    rows = of.context(streams.at(CONTEXT, 0), state, 0, group)
    assert of.batch.recommended is not None
    expected = of.batch.recommended[of.row_of(rows)]
    assert of.incumbent(streams.at(OUTCOME, 0), state, rows).tolist() == expected.tolist()
    assert rows.x.tolist() == of.batch.x[of.row_of(rows)].tolist()
    assert (of.batch.unit[of.row_of(rows)] == state.unit).all()


# The people


def test_the_reviewer_is_found_again(tmp_path: Path) -> None:
    """65 % approved, own price 1.0·base ± 0.1, whatever the proposal; standard errors are 0.01."""
    log = own_logs.prices(tmp_path / "log.csv", 4000)
    instance, batch = opened(log, tmp_path)
    of, said = world_of(instance, batch)
    person, _ = person_of(instance, batch, of.response.features, 0)
    rows = Rows(np.zeros(batch.n, int), np.zeros(batch.n, int), batch.x)
    assert batch.recommended is not None
    chance = person.chance(batch.recommended[:, None], rows)[:, 0]
    assert chance.mean() == pytest.approx(0.65, abs=0.03)
    place = person.own_action(rows)[:, 0] / of.response.features.unit(batch.x)[:, 0]
    assert place.mean() == pytest.approx(1.0, abs=0.03)
    assert person.scatter == pytest.approx(0.1, abs=0.02)
    assert person.anchor == 0.0
    assert person.veto == 0.0
    assert "'reviewer' is a model of the log's 4,000 answers: 64 % approved" in said[0]


def test_a_reviewer_who_leans_on_the_proposal_is_seen(tmp_path: Path) -> None:
    log = own_logs.prices(tmp_path / "log.csv", 4000)
    frame = pl.read_csv(log).with_columns(
        price=pl.when(pl.col("price") == pl.col("recommended_price"))
        .then(pl.col("price"))
        .otherwise((pl.col("price") + pl.col("recommended_price")) / 2)
    )
    frame.write_csv(log)
    instance, batch = opened(log, tmp_path)
    of, said = world_of(instance, batch)
    person, _ = person_of(instance, batch, of.response.features, 0)
    assert person.anchor == pytest.approx(0.5, abs=0.05)
    assert "lean towards the proposal" in said[0]


def test_without_proposals_the_hard_gates_stay_and_it_is_said(tmp_path: Path) -> None:
    log = own_logs.prices(tmp_path / "log.csv", 600)
    instance, batch = opened(log, tmp_path)
    of, said = world_of(instance, replace(batch, recommended=None))
    assert [gate.name for gate in of.instance.chain.gates] == ["bounds"]
    assert len(said) == 1
    assert said[0].startswith("The log does not say what was proposed")
    assert said[0].endswith("nothing is known of reviewer: the hard gates stay.")


def test_logs_from_which_nothing_can_be_learned_are_refused(tmp_path: Path) -> None:
    log = own_logs.prices(tmp_path / "log.csv", 400)
    instance, batch = opened(log, tmp_path)
    unit = world_of(instance, batch)[0].response.features.unit(batch.x)
    cases = (
        (batch.take(np.arange(150)), "the log is too small: it has 150 rows"),
        (
            replace(batch, action=1.5 * unit),
            "the action never varies: relative to its base it is 1.5",
        ),
        (replace(batch, outcome=0 * batch.outcome), "the outcome never varies: it is 0 in all 400"),
        (
            replace(batch, outcome=np.nan * batch.outcome),
            "the log has no outcome: 'booked' is empty",
        ),
    )
    for other, said in cases:
        with pytest.raises(InvalidInput, match=said):
            world_of(instance, other)


TWO = """
name = "loans"
context.risk = { type = "number", low = 0, high = 1 }
arms = { part = "grid", factors = { rate = [6.0, 8.0, 10.0], tenor = [6.0, 12.0] } }
composition = { part = "multiply", names = ["rate", "tenor"] }
gates = [
    { part = "review", name = "desk", low = 0.0, high = 9.0 },
    { part = "bounds", low = 3.0, high = 15.0 },
]
reward = { part = "payoff", outcome = ["repaid"], action = 0 }
bandit = { part = "curve-thompson" }
history = { recommended = ["asked", "term"], action = ["rate", "term"] }
"""


def loans(path: Path, n: int = 700) -> Path:
    """Write loans of two columns; a desk looks at rates above 9, and lowers a third of them."""
    rng = np.random.default_rng(0)
    risk, asked, term = rng.random(n), rng.uniform(5, 12, n).round(2), rng.choice([6.0, 12.0], n)
    is_lowered = (asked > 9) & (rng.random(n) < 0.33)
    rate = np.where(is_lowered, rng.normal(8.5, 0.2, n), asked).round(2)
    p = 1.0 / (1.0 + np.exp(-(2.0 - 0.3 * (rate - 8.0) - 1.5 * risk - 0.02 * term)))
    repaid = (rng.random(n) < p).astype(int)
    data = {"risk": risk, "asked": asked, "rate": rate, "term": term, "repaid": repaid}
    pl.DataFrame(data).write_csv(path)
    return path


def test_two_columns_behind_a_review_run(tmp_path: Path) -> None:
    log, file = loans(tmp_path / "log.csv"), tmp_path / "mine.toml"
    file.write_text(TWO, encoding="utf-8")
    found = study(str(file), "model", {"history": str(log)}, 3)
    world: Any = found.domain.world
    assert {"B2s", "B2sw", "B3", "A1"} <= set(found.left_out)
    # Only what the rule flags is asked about, and a third of it is changed.
    made = " ".join(found.about["made"])
    n_flagged = int((world.batch.recommended[:, 0] > 9).sum())
    assert f"'desk' is a model of the log's {n_flagged} answers" in made
    state, group, streams = started(world, 2)
    rows = world.context(streams.at(CONTEXT, 0), state, 0, group)
    best = world.mean(state, world.best(state, rows)[:, None], rows)
    arms = world.instance.composition.compose(world.instance.space, np.ones((rows.n, 1, 1)), rows.x)
    assert (world.mean(state, arms, rows) <= best + 1e-6).all()
    out = tmp_path / "out"
    code, _, err = call(
        *(str(file), "--history", str(log), "--replicates", "2", "--episodes", "3"),
        *("--methods", "B1,B4,A3", "--engine", "local", "--out", str(out)),
    )
    assert code == 0, err


def test_two_people_are_not_told_apart(tmp_path: Path) -> None:
    log, file = loans(tmp_path / "log.csv"), tmp_path / "mine.toml"
    second = '{ part = "approval", name = "boss" },\n    { part = "bounds"'
    file.write_text(TWO.replace('{ part = "bounds"', second), encoding="utf-8")
    with pytest.raises(InvalidInput, match="desk, boss are people"):
        study(str(file), "model", {"history": str(log)}, 3)
