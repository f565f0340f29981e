"""The protocol on studies unlike str: rewards, sums, two coordinates, categories, masks, cells."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdcb import bandits, engine
from gdcb.bandits.logistic_arms import BradleyTerryArmsThompson, LogisticArmsThompson
from gdcb.errors import InvalidInput
from gdcb.instances import STUDIES, load
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.stylised import credit, dosing
from gdcb.protocol import block, fitting, methods, tuning
from gdcb.protocol.block import run_setup, run_task
from gdcb.protocol.ground import neutral_of, shared_by
from gdcb.protocol.methods import build, methods_of
from gdcb.protocol.record import Record
from gdcb.protocol.record_checks import check_record
from gdcb.protocol.sampling import Sample, allowed, sample, tuning_of
from gdcb.protocol.task import Task
from gdcb.rewards import Payoff
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, simulate
from tests.made_studies import NAMES, made_priors, made_settings, made_study, study_of

EVERY = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the protocol find the made studies by name."""
    for name in NAMES:
        module: Any = types.ModuleType(f"gdcb.instances.made_{name}")
        module.study = study_of(name)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(STUDIES, f"made_{name}", f"made_{name}")


def task_of(name: str, key: str, episodes: int = 5, replicates: int = 2) -> Task:
    return Task(f"made_{name}", "well", (), 5, episodes, 0, replicates, key)


def sample_of(name: str, groups: int = 6, contexts: int = 80) -> Sample:
    study = made_study(name)
    plain = study.domain.instance
    without = replace(plain, scaler=neutral_of(plain), gate=plain.chain)
    return sample(study, without, 7, groups, contexts)


# Who plays


@EVERY
def test_every_method_that_applies_runs(name: str) -> None:
    settings = made_settings(name)
    for key in methods_of(made_study(name)):
        task = task_of(name, key)
        shared = shared_by(task)
        record = run_setup(build(shared.study, key, settings), shared, task)
        check_record(key, record, shared.ground)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (
            "dosing",
            {
                "B1": bandits.GaussianThompson,
                "B2": bandits.LinearThompson,
                "B2s": bandits.SharedLinearThompson,
                "B3": bandits.HierarchicalThompson,
                "B4flat": bandits.GaussianThompson,
                "B5": bandits.BradleyTerryThompson,
                "A1": bandits.CurveThompson,
            },
        ),
        (
            "credit",
            {
                "B1": bandits.BetaThompson,
                "B2s": bandits.SharedLinearThompson,
                "B2g": bandits.LogisticThompson,
                "B4fac": bandits.FactoredThompson,
                "B5": bandits.BradleyTerryThompson,
                "A1": bandits.HierarchicalCurveThompson,
            },
        ),
        (
            "moderation",
            {
                "B1": bandits.BetaThompson,
                "B2": bandits.LinearThompson,
                "B2s": bandits.LinearThompson,
                "B2g": LogisticArmsThompson,
                "B4flat": bandits.BetaThompson,
                "B5": BradleyTerryArmsThompson,
                "A1": bandits.BetaThompson,
            },
        ),
    ],
)
def test_who_plays_is_what_the_instance_declares(name: str, kinds: dict[str, type]) -> None:
    study, settings = made_study(name), made_settings(name)
    for key, kind in kinds.items():
        assert type(build(study, key, settings).bandit) is kind


def test_what_does_not_apply_says_why() -> None:
    reward = inapplicable(load("dosing").instance, 4)
    assert reward["B2g"] == reward["B2gw"] == "outcomes are no classes"
    assert "B4fac" in reward
    assert "B4fac" not in inapplicable(load("credit").instance, 4)
    assert inapplicable(load("moderation").instance, 4) == {
        "B4fac": "arms have one factor: its levels are the arms, as in B4flat"
    }
    alone = inapplicable(load("moderation").instance, 1)
    assert {"B3", "B3w", "B2s", "B2sw"} <= set(alone)
    free = replace(load("str").instance, gate=(), scaler=ConstantScaler())
    assert {"A2", "B4u", "A1", "A3s", "B1u"} <= set(inapplicable(free, 4))
    assert set(inapplicable(load("moderation").instance, 4)) <= set(methods.DEFAULT)
    assert labels(load("dosing").instance)["B1"] == "Gaussian Thompson"
    assert labels(load("credit").instance) == {}
    assert len(set(labels(load("tools").instance).values())) == 6


def test_a_study_that_is_not_tuned_says_so() -> None:
    with pytest.raises(InvalidInput, match="instance 'dosing': it is not tuned"):
        tuning_of(replace(made_study("dosing"), tuning=None))


def test_methods_without_settings_say_how_to_get_them() -> None:
    study = made_study("dosing")
    for key in ("B1", "B2w", "B5", "A1"):
        with pytest.raises(InvalidInput, match=f"method {key}: there are no settings of .*tuning"):
            build(study, key, {})
    with pytest.raises(InvalidInput, match=r"'made_dosing': there is no tuned\.json yet; run"):
        methods.tuned_settings("made_dosing", "well")


def test_a_study_may_bring_its_own_learner_without_a_scaler() -> None:
    plain = made_study("dosing")
    assert plain.tuning is not None
    own = replace(
        plain,
        unscaled=lambda settings: bandits.GaussianThompson(prior_mean=settings["level"]),
        tuning=replace(plain.tuning, unscaled=lambda found, spread: {"level": found.units}),
    )
    prior = fitting.prior_of(own, sample_of("dosing", 3, 20), "A1")
    assert prior == {"A1": {"level": 4}}
    setup = build(own, "A1", {"A1": prior["A1"] | fitting.START})
    assert setup.bandit == bandits.GaussianThompson(prior_mean=4)
    assert setup.instance.scaler == ConstantScaler(0.0)
    assert fitting.knobs_of(own, "A1") == ("scale",)


# What is known of the worlds


@EVERY
def test_what_is_learned_is_the_world_s(name: str) -> None:
    """From the mean alone: the classes' probabilities, and the rewards' means."""
    found = sample_of(name, 3, 20)
    world: Any = found.world
    ask = {
        "dosing": world.mean,
        "credit": getattr(world, "_repaid", None),
        "moderation": getattr(world, "_satisfied", None),
        "tools": getattr(world, "_success", None),
    }[name]
    truth = ask(found.state, found.action[:, None], found.rows)[:, 0]
    assert found.target == pytest.approx(truth, abs=1e-9)
    assert found.rows.n == 3 * found.units * 20
    assert found.coord.shape == (found.rows.n, found.instance.space.n_coords)


def test_where_both_classes_pay_the_same_the_chance_must_be_given() -> None:
    study = made_study("moderation")
    plain = study.domain.instance
    same = replace(plain, reward=Payoff(lose=1.0), scaler=neutral_of(plain), gate=plain.chain)
    with pytest.raises(InvalidInput, match=r"both classes pay the same .* give Tuning\.learned"):
        sample(study, same, 7, 2, 4)
    assert study.tuning is not None
    given = replace(study.tuning, learned=lambda state, e, rows: np.full(e.shape[:2], 0.25))
    assert (sample(replace(study, tuning=given), same, 7, 2, 4).target == 0.25).all()


def test_the_noise_of_rewards_is_measured() -> None:
    """0.4 of 1,920 rows: a standard error of 0.4/√3840 = 0.0065, and 5 of them."""
    assert sample_of("dosing").noise == pytest.approx(0.4, abs=0.033)
    assert sample_of("credit").noise == 0.5


def test_the_scaler_finds_its_delta_from_labels() -> None:
    """320 labels of noise 1 and 0.3 a group, of five and three weights; a level is the arms'.

    Glucose is what the incumbent's doses leave, so that the contexts of dosing are not all of a
    beginning.
    """
    found = sample_of("dosing")
    delta = found.delta(load("dosing").instance.scaler)[:, 0, 0]
    truth = dosing.true_delta(found.rows.x)
    assert np.corrcoef(delta, truth)[0, 1] > 0.98
    assert (delta - truth).std() < 0.4
    found = sample_of("credit")
    delta = found.delta(load("credit").instance.scaler)
    assert delta.shape == (found.rows.n, 1, 1)
    assert np.log(delta[:, 0, 0] / credit.true_delta(found.rows.x)).std() < 0.1
    # The rate is divided by δ, the tenor passes.
    place = found.located(delta)
    assert place[:, 0] == pytest.approx(found.coord[:, 0] / delta[:, 0, 0])
    assert (place[:, 1] == found.coord[:, 1]).all()


def test_arms_are_drawn_among_the_allowed() -> None:
    u = np.array([0.0, 0.34, 0.67, 0.999999])
    assert allowed(u, 3, None).tolist() == [0, 1, 2, 2]
    mask = np.array([[True, False, True], [False, True, False], [True, True, True], [True] * 3])
    assert allowed(u, 3, mask).tolist() == [0, 1, 2, 2]
    found = sample_of("tools")
    assert found.rows.mask is not None
    assert not found.rows.mask.all()
    assert found.rows.mask[np.arange(found.rows.n), found.arm].all()


# Priors


@EVERY
def test_every_family_has_a_prior_in_every_form(name: str) -> None:
    study, found = made_study(name), made_priors(name)
    wanted = {
        fitting.key_of(family, form)
        for family in fitting.families_of(study)
        for form in fitting.forms_of(study, family)
    }
    assert set(found) == wanted
    json.dumps(found, allow_nan=False)
    assert "B4avg" not in {key.split()[0] for key in found}  # there is one form
    settings = made_settings(name)
    for family in fitting.families_of(study):
        for form in fitting.forms_of(study, family):
            some = settings | {family: found[fitting.key_of(family, form)] | fitting.START}
            for key in fitting.judged_by(study, family):
                setup = build(study, key, some)
                setup.instance.check_bandit(setup.instance.bind(setup.bandit))
                setup.instance.bind(setup.bandit).init(np.zeros(1, int), setup.instance.space)


def test_knobs_are_those_that_a_learner_has() -> None:
    study = made_study("moderation")
    assert fitting.knobs_of(study, "B1") == ("scale",)
    assert fitting.knobs_of(study, "A1") == ("scale",)
    assert fitting.knobs_of(study, "B2g") == ("scale", "signal", "width")
    assert fitting.knobs_of(study, "B4") == ("scale",)
    assert fitting.knobs_of(made_study("dosing"), "A1") == ("scale", "width")
    assert fitting.knobs_of(study, "B5") == ("scale", "width")


# Masks


def test_nobody_proposes_an_arm_that_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every method, in every round; and B5's rivals are among the allowed too."""
    turns: list[Turn] = []

    def spied(*parts: Any, watch: Any, **settings: Any) -> Any:
        def both(turn: Turn) -> None:
            watch(turn)
            turns.append(turn)

        return simulate(*parts, watch=both, **settings)

    monkeypatch.setattr(block, "simulate", spied)
    settings = made_settings("tools")
    for key in methods_of(made_study("tools")):
        task = task_of("tools", key)
        shared = shared_by(task)
        run_setup(build(shared.study, key, settings), shared, task)
    assert len(turns) == 5 * len(methods_of(made_study("tools")))
    barred = 0
    for turn in turns:
        mask = turn.rows.mask
        assert mask is not None
        n = np.arange(turn.rows.n)
        assert mask[n, turn.decision.arm].all()
        barred += int((~mask).sum())
        if turn.outcome.shape[1] > 1:  # the operator was asked
            assert mask[n, turn.rows.x[:, -1].astype(int)].all()
    assert barred > 0


# Tuning


@pytest.mark.parametrize("name", ["dosing", "tools"])
def test_a_study_is_tuned_and_what_was_found_is_written(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On 2 replicates of 4 episodes, with knobs from ½ to 2."""
    made, path = f"made_{name}", tmp_path / "tuned.json"
    monkeypatch.setattr(tuning, "LARGEST", 2.0)
    monkeypatch.setattr(tuning, "tuned_file", lambda *_: path)
    monkeypatch.setattr(tuning, "VARIANTS", ("well",))
    monkeypatch.setattr(engine, "named", lambda _: engine.Local())
    monkeypatch.setattr(tuning, "_sample", lambda *_: sample_of(name, 4, 30))
    study = made_study(name)
    out = tuning.tune_all(made)
    assert out == json.loads(path.read_text())
    assert out["tuned_on"]["replicates"] == 2
    assert out["tuned_on"]["episodes"] == 4
    assert set(out["well"]) == set(fitting.families_of(study))
    for family, settings in out["well"].items():
        assert set(settings["judged"]) == set(fitting.judged_by(study, family))
        assert all(0.5 <= settings[knob] <= 2.0 for knob in fitting.START)
        assert settings["tried"] >= len(fitting.forms_of(study, family))
    for key in methods_of(study):
        build(study, key, out["well"])
    marked = out | {"well": out["well"] | {"B2": {"kept": True}}}
    path.write_text(json.dumps(marked))
    again = tuning.tune_all(made, only=("B1",))
    assert again["well"]["B2"] == {"kept": True}
    assert again["well"]["B1"] == out["well"]["B1"]


# What str was


@pytest.mark.parametrize(
    ("key", "well", "mis"),
    [
        ("B1", 602.327428, 510.400599),
        ("B2w", 440.297952, 403.694832),
        ("B2sw", 304.214146, 278.72388),
        ("B2gw", 279.388121, 225.136773),
        ("B3w", 697.13453, 616.352081),
        ("B4", 255.038013, 218.002059),
        ("B4avg", 257.380485, 229.742198),
        ("B4fac", 460.087751, 442.457706),
        ("B4flat", 435.02206, 415.504244),
        ("B4ope", 259.37473, 227.515913),
        ("B5w", 644.572886, 584.219406),
        ("A1", 539.541162, 448.478938),
    ],
)
def test_str_is_what_it_was(key: str, well: float, mis: float) -> None:
    """Regret of 4 replicates of 16 nights, as before the protocol ran anything else.

    With the settings that are stored: who tunes str anew puts new numbers here.
    """
    for variant, total in (("well", well), ("mis", mis)):
        record = run_task(Task("str", variant, (("nights", 200),), 11, 16, 0, 4, key))
        assert isinstance(record, Record)
        assert record.parts[..., 0].sum() == pytest.approx(total, abs=1e-5)
