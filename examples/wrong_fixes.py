"""Wrong position fixes: what they cost a filter, gated or not, and what they do to seeds.

python examples/wrong_fixes.py

Simulated: 200 drives of 300 seconds in one dimension, fixes with a standard deviation of 0.3 m,
one in fifty of them 10 m off. The same where drives turn in between, which two modes expect, with
and without wrong fixes. Then one record of 720 fixes with a single fix that is 4.9 m off,
or that jumps by as much and stays there, from which Q and R are seeded.
"""

import numpy as np

from gdcb.kalman import Model, kalman_filter, seed
from gdcb.kalman.imm import imm

PUSH = np.array([[0.5], [1.0]])
F, H, R = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), 0.09 * np.eye(1)
MODEL = Model(F, H, 0.01 * PUSH @ PUSH.T, R)
MODES = (MODEL, Model(F, H, 4.0 * PUSH @ PUSH.T, R))
SWITCH = np.array([[0.97, 0.03], [0.1, 0.9]])


def drives(rng, steps, tracks, turns=False):
    """Return true positions and fixes, both (steps, tracks, 1)."""
    state, truth = np.zeros((tracks, 2)), np.empty((steps, tracks, 1))
    push, mode = np.full((tracks, 1), 0.1), np.zeros(tracks, dtype=int)
    for t in range(steps):
        truth[t] = state @ H.T
        state = state @ F.T + push * rng.normal(size=(tracks, 1)) @ PUSH.T
        if turns:
            mode = (rng.random(tracks) < SWITCH[mode, 1]).astype(int)
            push = np.where(mode, 2.0, 0.1)[:, None]
    return truth, truth + 0.3 * rng.normal(size=truth.shape)


def spoil(rng, fixes):
    """Return fixes of which one in fifty is 10 m off."""
    is_wrong = rng.random(fixes.shape) < 0.02
    return fixes + 10.0 * rng.choice([-1.0, 1.0], fixes.shape) * is_wrong


def show(name, found, truth):
    """Print one line of a table of errors."""
    late, last = np.quantile(np.abs(found.mean[..., :1] - truth), (0.95, 0.99))
    print(f"{name:20}  {late:15.2f}  {last:5.2f}  {found.is_gated.mean():7.2%}")


def main():
    """Print the tables."""
    rng = np.random.default_rng(0)
    truth, fixes = drives(rng, 300, 200)
    spoilt = spoil(rng, fixes)

    print("error in m            95th percentile   99th   refused")
    for name, z, gate in (
        ("no wrong fixes", fixes, None),
        ("2 % are 10 m off", spoilt, None),
        ("the same, gated", spoilt, 0.999),
    ):
        show(name, kalman_filter(z, MODEL, np.zeros(2), np.eye(2), gate=gate), truth)

    rng = np.random.default_rng(1)
    truth, fixes = drives(rng, 300, 200, turns=True)
    spoilt, even = spoil(rng, fixes), np.array([0.5, 0.5])
    print("\nwith turns, two modes 95th percentile   99th   refused")
    for name, z, gate in (
        ("no wrong fixes", fixes, None),
        ("the same, gated", fixes, 0.999),
        ("2 % are 10 m off", spoilt, None),
        ("the same, gated", spoilt, 0.999),
    ):
        show(name, imm(z, MODES, np.zeros(2), np.eye(2), even, SWITCH, gate=gate), truth)

    _, record = drives(np.random.default_rng(4), 720, 1)
    wrong, jump = record.copy(), record.copy()
    wrong[300] += 4.9
    jump[300:] += 4.9
    print("\nseeded from 720 fixes       q̂       R̂   (truth: 0.010, 0.090)")
    for name, z, leave_out in (
        ("no wrong fix", record, True),
        ("one fix 4.9 m off, kept", wrong, False),
        ("the same, left out", wrong, True),
        ("a jump of 4.9 m, kept", jump, False),
        ("the same, left out", jump, True),
    ):
        found = kalman_filter(z, MODEL, np.zeros(2), np.eye(2))
        seeds = seed(
            found.innovation,
            MODEL,
            found.gain,
            None,
            basis=(PUSH @ PUSH.T)[None],
            leave_out_outliers=leave_out,
        )
        q, r = seeds.process.value[1, 1], seeds.noise.value[0, 0]
        print(f"{name:25}  {q:6.3f}  {r:6.3f}")
        for said in seeds.warnings:
            print(f"   {said}")


if __name__ == "__main__":
    main()
