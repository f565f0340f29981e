"""Moderation through the protocol, in small: methods, parts of regret, measures, turnover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdcb.instances.moderation import bank
from gdcb.instances.moderation.generator import posts
from gdcb.protocol.block import run_task
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import methods_of
from gdcb.protocol.record import Record
from gdcb.protocol.task import Task

SEED, EPISODES, REPLICATES = 11, 60, 8


def ran(variant: str, key: str, *options: tuple[str, Any]) -> tuple[Record, Any]:
    """Return a method's record, and what its block shares."""
    task = Task("moderation", variant, options, SEED, EPISODES, 0, REPLICATES, key)
    record = run_task(task)
    assert isinstance(record, Record)
    return record, shared_by(task)


def excess(variant: str, key: str) -> float:
    """Return the mean regret above the floor."""
    record, shared = ran(variant, key)
    return float((record.parts[..., 0] - shared.floor).sum(axis=0).mean())


@pytest.mark.parametrize("variant", ["well", "mis"])
def test_severity_bands_pay(variant: str) -> None:
    """GDCB loses less than half of what it loses without a score, and less than LinTS loses.

    Eight replicates of one seed. Measured: 0.5 against 5.1 and 1.1 in `well`, 1.8 against 6.8 and
    2.2 in `mis`. LinTS reads the off-the-shelf score as advice, and is linear in it.
    """
    ours = excess(variant, "B4")
    assert ours < 0.5 * excess(variant, "A1")
    assert ours < excess(variant, "B2sw")


def test_parts_sum_and_calibration_is_nothing() -> None:
    """δ changes no action, so no arm is out of reach: calibration is 0; measures are shares."""
    record, _ = ran("mis", "B4")
    total, calibration, bandit, gate = np.moveaxis(record.parts, -1, 0)
    np.testing.assert_allclose(calibration + bandit + gate, total, atol=1e-9)
    np.testing.assert_allclose(calibration, 0.0, atol=1e-12)
    assert (bandit > -1e-12).all()
    assert record.measures is not None
    assert record.measures.shape == (REPLICATES, 4)
    assert ((record.measures >= 0) & (record.measures <= 1)).all()


def test_turnover_is_the_gates_part() -> None:
    """From mid-run on the gate costs more than before it and overrides more; until then nothing."""
    changed, after = ran("mis", "B4", ("moderator", "turnover"))
    plain, before = ran("mis", "B4")
    half = EPISODES // 2
    np.testing.assert_array_equal(changed.parts[:half], plain.parts[:half])
    np.testing.assert_array_equal(after.floor[:half], before.floor[:half])
    gate = changed.parts[half:, :, 3].mean() - plain.parts[half:, :, 3].mean()
    bandit = changed.parts[half:, :, 2].mean() - plain.parts[half:, :, 2].mean()
    assert gate > 0.01
    assert gate > bandit
    assert changed.overridden[half:].mean() > 1.5 * plain.overridden[half:].mean()


def test_which_methods_apply() -> None:
    """Three outcomes are no two classes, three categories no grid; all others run."""
    _, shared = ran("well", "B1")
    keys = methods_of(shared.study)
    assert {"B1", "B2", "B2w", "B2s", "B3", "B4", "B4flat", "B4ope", "B5", "A1", "A3"} <= set(keys)
    assert not {"B2g", "B2gw", "B2gu", "B4fac"} & set(keys)
    assert set(shared.study.left_out) == {"B2g", "B2gw", "B2gu", "B4fac"}


def test_posts_of_ones_own_run(tmp_path: Path) -> None:
    """The generator's own posts from a file are run like the bank's."""
    path = tmp_path / "own.csv"
    seen: dict[str, float] = {post.text: post.severity for post in posts(80, bank.SEED)}
    lines = [f'"{text.replace(chr(34), chr(39))}",{s:.4f}' for text, s in seen.items()]
    path.write_text("text,severity\n" + "\n".join(lines) + "\n", encoding="utf-8")
    record, _ = ran("mis", "B4", ("posts", str(path)))
    assert np.isfinite(record.parts).all()
    assert record.parts[..., 0].mean() < 0.2
