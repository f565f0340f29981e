"""MABWiser's bare Beta-Thompson decision, in its own environment.

Reads a number of decisions a line, answers with microseconds a decision. Runs under `.peers`.
"""

import sys
import time

import numpy as np
from mabwiser.mab import MAB, LearningPolicy


def main() -> None:
    """Answer until the input ends."""
    rng = np.random.default_rng(0)
    mab = MAB(list(range(25)), LearningPolicy.ThompsonSampling(), seed=1)
    arms = rng.integers(0, 25, 2000)
    # The peer must really learn: arm 7 books twice as often as the others.
    mab.fit(arms, (rng.random(2000) < np.where(arms == 7, 0.8, 0.4)).astype(int))
    picks = [mab.predict() for _ in range(500)]
    if max(set(picks), key=picks.count) != 7:
        sys.exit("mabwiser does not learn here")
    for line in sys.stdin:
        n = int(line)
        start = time.perf_counter()
        for _ in range(n):
            mab.predict()
        print((time.perf_counter() - start) / n * 1e6, flush=True)


main()
