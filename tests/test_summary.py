"""The document of a run: its keys, its sums, its nulls, and one record at a time."""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import weakref
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from gdcb.errors import InvalidInput
from gdcb.protocol import metrics
from gdcb.protocol.metrics import cold_start, waiting
from gdcb.protocol.metrics.bootstrap import resamples
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.summary import EXTRAS, SETTINGS, Entry, document, plain
from tests.protocol_builders import ground, record, settings

T, R = 60, 12
KEYS = ("B4", "A3", "B4ope", "B1", "B4u")

METHOD = {
    "label",
    "regret",
    "excess",
    "vs_B4",
    "vs_A3",
    "regret_curve",
    "excess_curve",
    "parts",
    "parts_curve",
    "parts_paper",
    "reward",
    "episodes_to_threshold",
    "calibration_error_curve",
    "override_rate_curve",
    "overrides",
    "actions",
    "measures",
    "certificates",
    "tuned",
}
COLD_START = {
    "warm_curve",
    "cold_curve",
    "ope_curve",
    "warm_minus_cold",
    "warm_below_cold_from",
    "saving_at_50",
    "compression",
}


def records(episodes: int = T, replicates: int = R) -> dict[str, Record]:
    levels = {"B4": 0.4, "A3": 1.2, "B4ope": 1.6, "B1": 2.0, "B4u": 0.5}
    return {
        key: record(episodes, replicates, seed, levels[key], has_scaler=key != "B1")
        for seed, key in enumerate(KEYS)
    }


def entries(made: dict[str, Record]) -> dict[str, Entry]:
    def provider(key: str) -> Callable[[], Record]:
        return lambda: made[key]

    return {
        key: Entry(
            f"title of {key}",
            provider(key),
            {"prior": 0.5},
            is_gated=not key.endswith("u"),
            rival={"B1": "cold", "B2": "cold", "B2w": "warm", "B3w": "warm"}.get(key),
        )
        for key in made
    }


def of(made: dict[str, Record], **changes: Any) -> dict[str, Any]:
    episodes, replicates = next(iter(made.values())).reward.shape
    about = settings(episodes, replicates, **changes)
    return document(about, entries(made), ground(episodes, replicates))


@pytest.fixture(scope="module")
def made() -> dict[str, Record]:
    return records()


@pytest.fixture(scope="module")
def found(made: dict[str, Record]) -> dict[str, Any]:
    return of(made)


def test_the_keys_are_those_that_scripts_read(found: dict[str, Any]) -> None:
    assert set(found) == {
        *SETTINGS,
        *EXTRAS,
        "floor",
        "floor_curve",
        "methods",
        "against_best",
        "cold_start",
    }
    assert list(found["methods"]) == list(KEYS)
    assert all(set(method) == METHOD for method in found["methods"].values())
    assert set(found["cold_start"]) == COLD_START
    assert set(found["cold_start"]["saving_at_50"]) == {"total", "excess"}
    for method in found["methods"].values():
        assert (
            set(method["parts"]) == set(method["parts_curve"]) == {"bandit", "calibration", "gate"}
        )
        assert set(method["episodes_to_threshold"]) == {
            "median",
            "low",
            "high",
            "censored",
            "booked",
        }


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def test_the_document_is_plain_json(found: dict[str, Any]) -> None:
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {type(leaf) for leaf in leaves(found)} <= {str, int, float, bool, type(None)}


def test_parts_sum_to_regret_at_every_episode(found: dict[str, Any]) -> None:
    for method in found["methods"].values():
        total = sum(part["mean"] for part in method["parts"].values())
        assert total == pytest.approx(method["regret"]["mean"], abs=1e-9)
        for t, point in enumerate(method["regret_curve"]):
            parts = sum(curve[t]["mean"] for curve in method["parts_curve"].values())
            assert parts == pytest.approx(point["mean"], abs=1e-9)
        if method["parts_paper"] is not None:
            total = sum(part["mean"] for part in method["parts_paper"].values())
            assert total == pytest.approx(method["regret"]["mean"], abs=1e-9)


def test_parts_are_not_mixed_up(made: dict[str, Record], found: dict[str, Any]) -> None:
    parts, method = made["B4"].parts, found["methods"]["B4"]
    for name, i in (("calibration", 1), ("bandit", 2), ("gate", 3)):
        assert method["parts"][name]["mean"] == pytest.approx(parts[..., i].sum(axis=0).mean())
    paper = made["B4"].parts_paper
    for i, name in enumerate(("bandit", "calibration", "gate")):
        assert method["parts_paper"][name]["mean"] == pytest.approx(
            paper[..., i].sum(axis=0).mean()
        )


def test_curves_are_cumulative_and_rates_are_not(
    made: dict[str, Record], found: dict[str, Any]
) -> None:
    for key, method in found["methods"].items():
        assert len(method["regret_curve"]) == T
        assert method["regret_curve"][-1]["mean"] == pytest.approx(method["regret"]["mean"])
        rates = [point["mean"] for point in method["override_rate_curve"]]
        assert rates == pytest.approx(made[key].overridden.mean(axis=1).tolist())
    errors = [point["mean"] for point in found["methods"]["B4"]["calibration_error_curve"]]
    assert errors == pytest.approx(made["B4"].error.mean(axis=1).tolist())
    assert found["floor_curve"][-1]["mean"] == pytest.approx(found["floor"]["mean"])


def test_excess_is_regret_above_the_floor(found: dict[str, Any]) -> None:
    method = found["methods"]["B1"]
    assert method["excess"]["mean"] == pytest.approx(
        method["regret"]["mean"] - found["floor"]["mean"]
    )
    assert method["excess_curve"][-1]["mean"] == pytest.approx(method["excess"]["mean"])


def test_what_does_not_apply_is_null(found: dict[str, Any]) -> None:
    without_scaler, without_gate = found["methods"]["B1"], found["methods"]["B4u"]
    assert without_scaler["calibration_error_curve"] is None
    assert without_scaler["parts_paper"] is None
    assert without_gate["excess"] is None
    assert without_gate["excess_curve"] is None
    assert found["methods"]["B4"]["vs_B4"] is found["methods"]["A3"]["vs_A3"] is None


@pytest.mark.parametrize("ours", ["B4", "A3"])
def test_differences_from_ours_are_paired_and_corrected(
    made: dict[str, Record], found: dict[str, Any], ours: str
) -> None:
    """Ours with its history, and without; each family of differences is corrected by itself."""
    totals = {key: value.parts[..., 0].sum(axis=0) for key, value in made.items()}
    others = [key for key in KEYS if key != ours]
    expected = metrics.paired({key: totals[key] - totals[ours] for key in others})
    assert {key: found["methods"][key][f"vs_{ours}"] for key in others} == expected


def test_the_best_rival_is_the_one_of_least_excess_that_starts_as_ours_does() -> None:
    """Its ratio is of means, and its interval Fieller's: 1 less the share saved, ends swapped."""
    levels = {"B4": 0.4, "A3": 1.2, "B1": 2.0, "B2": 1.5, "B2w": 0.9, "B3w": 1.1}
    made = {key: record(T, R, i, level) for i, (key, level) in enumerate(levels.items())}
    best, floor = of(made)["against_best"], ground(T, R).floor.sum(axis=0)
    assert list(best) == ["warm", "cold"]
    for start, ours, rival in (("warm", "B4", "B2w"), ("cold", "A3", "B2")):
        mine, theirs = (made[key].parts[..., 0].sum(axis=0) - floor for key in (ours, rival))
        saved = metrics.saving(mine, theirs)
        assert saved is not None
        assert saved["low"] is not None
        assert saved["high"] is not None
        assert best[start]["rival"] == rival
        ratio = best[start]["ratio"]
        assert ratio["mean"] == pytest.approx(mine.mean() / theirs.mean())
        assert (ratio["low"], ratio["high"]) == (1 - saved["high"], 1 - saved["low"])
        assert ratio["low"] < ratio["mean"] < ratio["high"]


def test_without_a_rival_or_ours_there_is_no_ratio(made: dict[str, Record]) -> None:
    """B4 has no warm rival here; one replicate has no interval, and no floor no excess."""
    assert of(made)["against_best"]["warm"] is None
    assert of(made)["against_best"]["cold"]["rival"] == "B1"
    without = {key: value for key, value in made.items() if key != "A3"}
    assert of(without)["against_best"] == {"warm": None, "cold": None}
    alone = of(records(T, 1))["against_best"]["cold"]["ratio"]
    assert alone["low"] is alone["high"] is None
    nothing = Ground(np.full((T, R), np.nan), ground(T, R).edges)
    found = document(settings(T, R), entries(made), nothing)
    assert found["against_best"] == {"warm": None, "cold": None}


def test_the_cold_start_is_ours_with_its_history_against_ours_without(
    made: dict[str, Record], found: dict[str, Any]
) -> None:
    start, floor = found["cold_start"], ground(T, R).floor
    warm, cold = (made[key].parts[..., 0] for key in ("B4", "A3"))
    for name, key in (("warm_curve", "B4"), ("cold_curve", "A3"), ("ope_curve", "B4ope")):
        assert start[name] == found["methods"][key]["regret_curve"]
    assert start["warm_minus_cold"] == metrics.curve(warm - cold)
    assert start["warm_below_cold_from"] == metrics.first_below(warm - cold)
    w, c, f = (x[:50].sum(axis=0) for x in (warm, cold, floor))
    assert start["saving_at_50"]["total"]["mean"] == pytest.approx(1 - w.mean() / c.mean())
    assert start["saving_at_50"]["excess"]["mean"] == pytest.approx(
        1 - (w - f).mean() / (c - f).mean()
    )
    slow, fast = (metrics.episodes_to_threshold(made[key].advantage) for key in ("A3", "B4"))
    assert start["compression"] == metrics.compression(slow, fast, seed=3)


def test_a_run_shorter_than_fifty_episodes_has_no_saving() -> None:
    start = of(records(49))["cold_start"]
    assert start["saving_at_50"] == {"total": None, "excess": None}
    assert start["warm_minus_cold"] is not None
    assert of(records(50))["cold_start"]["saving_at_50"]["total"] is not None


@pytest.mark.parametrize("missing", ["B4", "A3"])
def test_without_both_starts_nothing_is_compared(missing: str, made: dict[str, Record]) -> None:
    found = of({key: value for key, value in made.items() if key != missing})
    start = found["cold_start"]
    assert start["warm_minus_cold"] is start["warm_below_cold_from"] is start["compression"] is None
    assert start["saving_at_50"] == {"total": None, "excess": None}
    assert (start["warm_curve"] is None) == (missing == "B4")
    assert (start["cold_curve"] is None) == (missing == "A3")
    assert all(method[f"vs_{missing}"] is None for method in found["methods"].values())


def test_actions_are_shares_of_all_rows(made: dict[str, Record], found: dict[str, Any]) -> None:
    actions = found["methods"]["B4"]["actions"]
    assert actions["edges"] == [0.0, 0.5, 1.0, 1.5, 2.0]
    counts = made["B4"].executed.sum(axis=0)
    assert actions["executed"] == pytest.approx((counts / counts.sum()).tolist())
    assert sum(actions["recommended"]) == pytest.approx(1)


def test_a_world_without_incumbent_classes_or_counted_actions() -> None:
    one = record(T, R)
    nothing = np.full((T, R), np.nan)
    zero = np.zeros((R, 4), dtype=np.int64)
    bare = dataclasses.replace(
        one, advantage=nothing, success=nothing, recommended=zero, executed=zero
    )
    found = document(
        settings(T, R), {"B4": Entry("GDCB", lambda: bare)}, Ground(nothing, ground(T, R).edges)
    )
    method = found["methods"]["B4"]
    assert method["episodes_to_threshold"] is None
    assert method["actions"] is None
    assert found["floor"] is found["floor_curve"] is method["excess"] is None
    assert method["regret"] is not None
    json.dumps(found, allow_nan=False)


def test_one_replicate_of_one_episode() -> None:
    found = of(records(1, 1))
    assert found["methods"]["B1"]["regret"]["low"] is None
    assert found["methods"]["B1"]["vs_B4"]["p"] is None
    assert found["cold_start"]["compression"]["applies"] is False
    json.dumps(found, allow_nan=False)


def test_one_record_at_a_time_is_in_memory() -> None:
    alive: list[weakref.ref[Any]] = []

    def provider(seed: int) -> Callable[[], Record]:
        def ask() -> Record:
            gc.collect()
            assert all(ref() is None for ref in alive)
            fresh = record(T, R, seed)
            alive.extend(weakref.ref(array) for array in (fresh.parts, fresh.reward, fresh.error))
            return fresh

        return ask

    document(
        settings(T, R),
        {key: Entry(key, provider(i)) for i, key in enumerate(KEYS)},
        ground(T, R),
    )
    assert len(alive) == 3 * len(KEYS)


def test_the_same_records_give_the_same_text(
    made: dict[str, Record], found: dict[str, Any]
) -> None:
    assert json.dumps(of(made)) == json.dumps(found)


def test_the_seed_of_the_run_draws_the_resamples(
    monkeypatch: pytest.MonkeyPatch, made: dict[str, Record]
) -> None:
    seeds = []

    def spy(n_replicates: int, seed: int) -> Iterator[Any]:
        seeds.append(seed)
        return resamples(n_replicates, seed)

    monkeypatch.setattr(waiting, "resamples", spy)
    monkeypatch.setattr(cold_start, "resamples", spy)
    of(made, seed=4)
    assert seeds == [4] * (len(KEYS) + 1)  # one for each method's median, one for the compression


def test_extras_and_settings_go_through() -> None:
    extras = {"variance_ratio": {"mean": np.float64(0.4), "low": math.nan, "high": None}}
    found = document(
        settings(1, 1, command="gdcb run str", options={"out": PurePosixPath("a/b")}),
        entries(records(1, 1)),
        ground(1, 1),
        extras,
    )
    assert found["variance_ratio"] == {"mean": 0.4, "low": None, "high": None}
    assert found["theorems"] is None
    assert found["command"] == "gdcb run str"
    assert found["options"] == {"out": "a/b"}


def broken(name: str, values: Any) -> dict[str, Entry]:
    one = record(3, 2)
    setattr(one, name, values)
    return {"B2": Entry("LinTS", lambda: one)}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("parts", np.zeros((3, 2, 3)), "record of B2: expected parts of shape"),
        ("reward", np.zeros((3, 3)), "record of B2: expected reward of shape"),
        ("executed", np.zeros((2, 5)), "record of B2: expected executed of shape"),
        ("reward", np.array([[1, 1], [1, np.nan], [1, 1]]), "nan in episode 2 of replicate 1"),
        ("overridden", np.full((3, 2), np.inf), "expected finite overridden"),
        ("parts", np.ones((3, 2, 4)), "parts that sum to the total regret, got a gap of 2"),
        ("parts_paper", np.zeros((3, 2, 3)), "parts_paper that sum to the total regret"),
    ],
)
def test_a_broken_record_is_refused_by_name(name: str, values: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        document(settings(3, 2), broken(name, values), ground(3, 2))


def test_parts_that_miss_by_a_billionth_are_refused() -> None:
    one = record(3, 2)
    one.parts[1, 1, 0] += 1e-7
    with pytest.raises(InvalidInput, match="gap"):
        document(settings(3, 2), {"B4": Entry("GDCB", lambda: one)}, ground(3, 2))


def test_bad_settings_are_refused() -> None:
    fine = entries(records(3, 2))
    with pytest.raises(InvalidInput, match="expected 4 episodes of 2 replicates"):
        document(settings(4, 2), fine, ground(3, 2))
    with pytest.raises(InvalidInput, match="lacks \\['instance'"):
        document({"seed": 1}, fine, ground(3, 2))
    with pytest.raises(InvalidInput, match="extras among"):
        document(settings(3, 2), fine, ground(3, 2), {"theorem": 1})
    with pytest.raises(InvalidInput, match="none of them 0"):
        document(settings(0, 2), fine, ground(0, 2))
    with pytest.raises(InvalidInput, match="rising"):
        document(settings(3, 2), fine, Ground(np.zeros((3, 2)), np.array([1.0, 1.0])))
    with pytest.raises(InvalidInput, match="plain data, got object"):
        plain({"a": object()})
