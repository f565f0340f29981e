"""The long version of the two Kalman questions: what a notch does to ε, and whether loops compound.

    python -m benchmarks.spectral
    python -m benchmarks.spectral --part alarms --records 500

Prints Markdown tables. `alarms` looks for lines where there are none, `fresh` does so on a system
of another kind than those by which the constants of the search were set, `notch` answers the open
question on spectral pre-filtering, `loop` the remark on the closed loop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, riccati
from gdcb.theorems import kalman_loop, kalman_spectrum
from gdcb.theorems.kalman_lines import Case, records

PARTS = ("alarms", "notch", "loop", "fresh")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=int, default=2000, help="of each kind, for alarms")
    parser.add_argument(
        "--replicates",
        type=int,
        default=200,
        help="of each case, for notch; 20 times as many for loop",
    )
    asked = parser.parse_args(arguments)
    for index, part in enumerate(PARTS):
        if asked.part and part not in asked.part:
            continue
        start = time.process_time()
        rng = np.random.default_rng([asked.seed, index])
        {"alarms": _alarms, "notch": _notch, "loop": _loop, "fresh": _fresh}[part](rng, asked)
        print(f"\n{part}: {time.process_time() - start:.0f} s of processor time\n")


def _alarms(rng: np.random.Generator, asked: argparse.Namespace) -> None:
    size = kalman_spectrum.Sizes(alarms=asked.records, alarm_steps=(100, 300, 1000))
    found = kalman_spectrum.false_alarms(rng, size)
    rows = [[one["gain"], one["steps"], one["rate"], one["low"], one["high"]] for one in found]
    n = asked.records // 4
    for name, k in kalman_spectrum.GAINS.items():
        if k == 0.0:
            continue
        tracks = records(rng, Case(300, 0.0), 10 * n, k)[0][:, :, 1].reshape(300, n, 10)
        gaps = records(rng, Case(300, 0.0), n, k)[0][:, :, 1]
        gaps[rng.random(gaps.shape) < 0.2] = np.nan
        two = np.stack([_two_channels(rng, k) for _ in range(n)], axis=1)
        for kind, nu in (("ten tracks", tracks), ("a fifth NaN", gaps), ("two channels", two)):
            one = kalman_spectrum.alarm_rate(nu)
            rows.append([f"{name}, {kind}", 300, one["rate"], one["low"], one["high"]])
        nu = records(rng, Case(300, 0.0), asked.records, k)[0][:, :, 1]
        for cycles in (3.2, 5.0):
            one = kalman_spectrum.alarm_rate(nu, periods=(300 / cycles,), search=False)
            kind = f"a given period of {cycles:g} cycles"
            rows.append([f"{name}, {kind}", 300, one["rate"], one["low"], one["high"]])
    _print(["gain", "steps", "found in", "low", "high"], rows)


def _fresh(rng: np.random.Generator, asked: argparse.Namespace) -> None:
    """Position and damped velocity, one measured: innovations of a second-order filter."""
    f, h = np.array([[1.0, 1.0], [0.0, 0.95]]), np.array([[1.0, 0.0]])
    process = np.diag([0.0, 0.1])
    rows = []
    for name, scale in (("Q₀ right", 1.0), ("Q₀ 100 times too small", 0.01), ("too large", 100.0)):
        q = scale * process + 1e-9 * np.eye(2)
        k = gain(h, riccati(f, h, q, np.eye(1)), np.eye(1))[:, 0]
        for steps in (100, 300):
            s, estimate = np.zeros((2, 2, asked.records))
            nu = np.empty((steps + 300, asked.records))
            for t in range(steps + 300):
                nu[t] = s[0] + rng.normal(size=asked.records) - estimate[0]
                estimate = f @ (estimate + k[:, None] * nu[t])
                s = f @ s
                s[1] += np.sqrt(process[1, 1]) * rng.normal(size=asked.records)
            one = kalman_spectrum.alarm_rate(nu[300:])
            rows.append([name, steps, one["rate"], one["low"], one["high"]])
    _print(["two states", "steps", "found in", "low", "high"], rows)


def _two_channels(rng: np.random.Generator, k: float) -> Array:
    """Return innovations (T, 1, 2) of two sensors of one state, which are correlated."""
    nu = records(rng, Case(300, 0.0), 1, k)[0][:, 0, 1]
    return np.stack([nu + 0.5 * rng.normal(size=300), nu + rng.normal(size=300)], axis=1)[:, None]


def _notch(rng: np.random.Generator, asked: argparse.Namespace) -> None:
    size = kalman_spectrum.Sizes(
        steps=(250, 1000, 4000),
        amplitudes=(0.0, 0.25, 0.5, 1.0, 2.0),
        replicates=asked.replicates,
        alarms=20,
        resamples=500,
    )
    found = kalman_spectrum.spectral(rng, size)
    _print(found["table"]["columns"], found["table"]["rows"])
    columns = ["line", "steps", "found", "variance ratio", "low", "high", "ε² ratio", "low", "high"]
    columns += ["sup ε floor", "filter: left in", "low", "high", "taken off", "low", "high"]
    rows = [_ratios(one) for one in found["cases"]]
    print()
    _print(columns, rows)
    print()
    for check in kalman_spectrum.checks(found)[1:]:
        print(f"- {check.sentence}")
    for sentence in kalman_spectrum.answer(found):
        print(f"- {sentence}")


def _ratios(one: dict[str, Any]) -> list[Any]:
    name = f"{one['amplitude']:g}, period {one['period']:g}"
    if one["wander"]:
        name += ", phase walks"
    row: list[Any] = [name, one["steps"], one["found"]]
    for part in ("variance_ratio", "square_ratio"):
        row += [one[part][end] for end in ("mean", "low", "high")]
    row.append(one["floor_sup"])
    for part in ("left_in", "taken_off"):
        row += [one[part][end] for end in ("mean", "low", "high")]
    return row


def _loop(rng: np.random.Generator, asked: argparse.Namespace) -> None:
    size = kalman_loop.Sizes(400, 20 * asked.replicates, 4 * asked.replicates, sweeps=8)
    found = kalman_loop.closed_loop(rng, size)
    _print(found["table"]["columns"], found["table"]["rows"])
    print()
    rows = []
    for one in found["domains"]:
        row: list[Any] = [one["domain"]]
        for part in ("modes_alone", "context_alone", "together", "saved", "feedback"):
            row += [100 * one[part][end] for end in ("mean", "low", "high")]
        rows.append([*row, kalman_loop.kind(one["saved"])])
    ends = ["low", "high"]
    columns = ["domain", "modes alone, %", *ends, "context alone, %", *ends, "both, %", *ends]
    _print([*columns, "beyond the sum, %", *ends, "feedback, %", *ends, "kind"], rows)
    print()
    for check in kalman_loop.checks(found):
        print(f"- {check.sentence}")


def _print(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        cells = [f"{one:.3g}" if isinstance(one, float) else str(one) for one in row]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
