"""Our integrator of glucose and insulin beside simglucose's: a Markdown table.

    python -m benchmarks.dosing
    python -m benchmarks.dosing --patients 30 --copies 64

Both live the same 24 hours of four meals. simglucose steps some patients one after the other, as
it ships them; ours lives all thirty in many copies at once. They go in turns, and the ratio is of
the time a patient-day takes, the median over the turns. Beside it stands how far the readings of
the two lie apart. It needs `pip install "gdcb[domains]"`, and a minute.
"""

from __future__ import annotations

import argparse
import logging
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.dosing.integrate import STEPS, live, resting
from gdcb.instances.dosing.patients import cohort

DAY = 1440
MEALS = ((420, 45.0), (720, 70.0), (900, 15.0), (1110, 80.0))


def day(seed: int = 0) -> tuple[Array, Array]:
    """Return meals and insulin (1440, 30) of a day."""
    rng, who = np.random.default_rng(seed), cohort().patients
    size = np.clip(who.BW / 70.0, 0.4, 1.2)
    meals, insulin = np.zeros((DAY, 30)), np.tile(who.basal, (DAY, 1))
    for minute, grams in MEALS:
        meals[minute] = grams * rng.uniform(0.5, 1.2, 30) * size
        insulin[minute] += meals[minute] / 12.0 * size
    return meals, insulin


def theirs(index: int, meals: Array, insulin: Array) -> tuple[Array, float]:
    """Let one patient of simglucose live a day: glucose (1441,) and seconds."""
    from simglucose.patient.t1dpatient import Action, T1DPatient

    patient = T1DPatient.withName(cohort().names[index])
    read = [patient.observation.Gsub]
    began = time.perf_counter()
    for eaten, infused in zip(meals[:, index].tolist(), insulin[:, index].tolist(), strict=True):
        patient.step(Action(CHO=eaten, insulin=infused))
        read.append(patient.observation.Gsub)
    return np.array(read), time.perf_counter() - began


def ours(copies: int, meals: Array, insulin: Array) -> tuple[Array, float]:
    """Let all thirty live a day, each `copies` times: glucose (1441, 30), seconds a patient-day."""
    who = np.tile(np.arange(30), copies)
    patients, body = cohort().patients.take(who), resting(cohort(), who)
    began = time.perf_counter()
    read = live(patients, body, meals[:, who], insulin[:, who])
    return read[:, :30], (time.perf_counter() - began) / who.size


def main(given: Sequence[str]) -> None:
    """Measure in turns and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dosing")
    parser.add_argument("--patients", type=int, default=6, help="of simglucose, spread evenly")
    parser.add_argument("--copies", type=int, default=32, help="of all thirty, at once")
    asked = parser.parse_args(given)
    logging.disable(logging.CRITICAL)
    meals, insulin = day()
    ours(1, meals[:60], insulin[:60])
    slow, quick, gaps = [], [], []
    for index in np.linspace(0, 29, asked.patients).astype(int).tolist():
        read, seconds = theirs(index, meals, insulin)
        mine, a_day = ours(asked.copies, meals, insulin)
        slow.append(seconds)
        quick.append(a_day)
        gaps.append(float(np.abs(read - mine[:, index]).max()))
    ratio = statistics.median(a / b for a, b in zip(slow, quick, strict=True))
    told = f"{1000 * statistics.median(quick):.2f} ms | {ratio:,.0f} × as fast"
    lines = (
        "| | a patient-day | beside simglucose |",
        "|---|---|---|",
        f"| simglucose {version('simglucose')} | {1000 * statistics.median(slow):,.0f} ms | 1 |",
        f"| ours, {30 * asked.copies:,} at once, {STEPS} steps a minute | {told} |",
        "",
        f"Largest difference of {asked.patients} patients over 24 h: {max(gaps):.4f} mg/dL.",
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
    )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
