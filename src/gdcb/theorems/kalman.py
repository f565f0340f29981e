"""The Kalman lemma and Proposition (§5.4): what holds of the embedding and of the seeding of P₀.

Each part is a small experiment with figures; what is claimed in the paper and what is put in its
place are judged by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.streams import check_seed
from gdcb.theorems import (
    kalman_lemma,
    kalman_loop,
    kalman_seeding,
    kalman_spectrum,
    kalman_windows,
)
from gdcb.theorems.verdict import Progress, document, plain, quiet

TITLE = "Kalman lemma and Proposition: embedding, seeding, lines, closed loop"
_KEY = 11  # of the random numbers, beside those of the theorems


@dataclass(frozen=True)
class Settings:
    """Size of the experiments.

    Parameters
    ----------
    systems : random systems on which the lemma's constant is judged
    rows : of the ridge regressions
    sizes : tracks and replicates on which P̂₀ is judged
    windows : tracks on which R̂ is read from leading and late windows
    record : steps of one stationary record
    split : replicates of 200 tracks, whole and in halves
    lines : records with and without periodic lines; None: left out
    loop : replicates of the closed loop; None: left out
    """

    systems: int = 3000
    rows: int = 20_000
    sizes: kalman_seeding.Sizes = field(default_factory=kalman_seeding.Sizes)
    windows: int = 20_000
    record: int = 40_000
    split: int = 200
    lines: kalman_spectrum.Sizes | None = field(default_factory=kalman_spectrum.Sizes)
    loop: kalman_loop.Sizes | None = field(default_factory=kalman_loop.Sizes)


def check(
    seed: int = 0, progress: Progress | None = None, settings: Settings | None = None
) -> dict[str, Any]:
    """Run all parts; return claims, figures and a verdict, safe for JSON.

    Every part draws from a stream of its own, so that one may be run alone and give the same. A
    repaired claim that holds is found to fail once in some 1,000 runs: each lies within four
    standard errors of what it says.
    """
    check_seed(seed)
    say, size = progress or quiet, settings or Settings()
    rng = [np.random.default_rng([seed, _KEY, i]) for i in range(8)]
    say("the lemma's constant")
    lemma = kalman_lemma.sensitivity(rng[4], size.systems)
    ridge = kalman_lemma.identification(rng[5], size.rows)
    say("P₀ from more and more tracks")
    tracks = kalman_seeding.consistency(rng[0], size.sizes)
    say("P₀ from few tracks")
    few = kalman_seeding.few_tracks(rng[1], size.sizes)
    say("windows and splits")
    windows = kalman_windows.windows(rng[2], size.windows)
    split = kalman_windows.split(rng[3], size.record, size.split)
    lines = None if size.lines is None else kalman_spectrum.spectral(rng[6], size.lines, say)
    loop = None if size.loop is None else kalman_loop.closed_loop(rng[7], size.loop, say)
    return document(
        TITLE,
        [
            *kalman_lemma.checks(lemma, ridge),
            *kalman_seeding.checks(tracks, few),
            *kalman_windows.checks(windows, split),
            *([] if lines is None else kalman_spectrum.checks(lines)),
            *([] if loop is None else kalman_loop.checks(loop)),
        ],
        lemma=lemma,
        ridge=ridge,
        tracks=tracks,
        few=few,
        windows=windows,
        split=split,
        lines=lines,
        loop=loop,
        notes=[] if lines is None else kalman_spectrum.answer(lines),
    )


def tables(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a finished check by title: columns (names) and rows (plain data)."""
    shown = {
        "the lemma's bound on random systems": plain(found["lemma"]["table"]),
        "error of P̂₀ on row(H), relative": plain(found["tracks"]["table"]),
        "R̂ by window, for R = 1": plain(found["windows"]["table"]),
    }
    if found["lines"] is not None:
        shown["lines found where there are none"] = plain(found["lines"]["alarm_table"])
        shown["error of log Q̂ and log R̂, with and without a notch"] = plain(found["lines"]["table"])
    if found["loop"] is not None:
        shown["closed loop, mean squared errors"] = plain(found["loop"]["table"])
    return shown
