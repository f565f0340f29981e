"""One simulation on NumPy or on a GPU: nights priced behind limits, with exact regret.

    python examples/device_world.py                                   on NumPy
    python examples/device_world.py --device cuda --replicates 1000000

`--device` needs torch: pip install "gdcb[torch]".

A world runs on both if it takes its functions from `namespace(array)`, makes new arrays where
`group` is, and never asks whether any number is true (see `gdcb.arrays`).
"""

import argparse

import gdcb
from gdcb.analysis import regret_parts
from gdcb.arrays import along, logistic, namespace, put_where
from gdcb.records import Rows
from gdcb.simulate import simulate

BASE_PRICE = 100.0
PRICES = tuple(0.02 * i for i in range(20, 101))  # candidates, in base prices


class Nights:
    """A night is booked with a chance that falls with its price; flats differ in appeal."""

    def start(self, rng, group):
        """Draw the appeal of every flat."""
        return 0.5 * rng.normal(group.shape[0])

    def context(self, rng, state, t, group):
        """Reveal how busy the season is: one row a unit, in order."""
        xp, n = namespace(group), group.shape[0]
        return Rows(xp.arange(n, device=group.device), group, rng.uniform(n, 1) - 0.5)

    def _chance(self, state, e, rows):
        appeal = state[rows.unit][:, None]
        return logistic(4.0 + appeal + rows.x[:, :1] - 4.0 * e[..., 0] / BASE_PRICE)

    def mean(self, state, e, rows):
        """Return the exact E[reward] of prices (N, M, 1): (N, M). NaN: nothing runs, worth 0."""
        value = self._chance(state, e, rows) * e[..., 0]
        return put_where(value, value != value, 0.0)

    def candidates(self, state, rows):
        """Return a fine grid of prices, for the gate floor."""
        xp = namespace(rows.x)
        prices = xp.asarray(PRICES, dtype=xp.float64, device=rows.x.device)
        return xp.tile(BASE_PRICE * prices[:, None], (rows.n, 1, 1))

    def best(self, state, rows):
        """Return the best price of each row (here: on the grid)."""
        grid = self.candidates(state, rows)
        best = self.mean(state, grid, rows).argmax(axis=1)
        return along(grid, best[:, None, None], axis=1)[:, 0]

    def sample(self, rng, state, e, rows):
        """Draw whether the night is booked (N, 1); at no price it is not."""
        xp = namespace(e)
        is_booked = rng.uniform(rows.n, 1) < self._chance(state, e[:, None], rows)
        return xp.astype(is_booked, xp.float64)

    def label(self, rng, state, e, rows):
        """Teach no scaler."""

    def advance(self, rng, state, e, outcome, rows):
        """Keep no memory."""
        return state


def pricing(gate=(), **parts):
    """Return five prices around 100, booked × price, behind `gate`."""
    return gdcb.Instance(
        name="nights",
        context=gdcb.Schema({"season": gdcb.Number(-1, 1)}),
        arms=gdcb.ArmList(values=(60.0, 80.0, 100.0, 120.0, 140.0)),
        scaler=gdcb.ConstantScaler(0.0),
        composition=gdcb.Add(names=("price",)),
        gate=gate,
        reward=gdcb.Payoff(outcome=("booked",), action=0),
        **parts,
    )


def main():
    """Run it and print the regret of the last fifth of the rounds, by part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=None, help="a torch device; NumPy without it")
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=100)
    asked = parser.parse_args()
    instance, world = pricing(gdcb.Bounds(low=50.0, high=110.0)), Nights()
    sums, late = [], int(0.8 * asked.rounds)

    def watch(turn):
        """Keep means of the parts; they stay on the device until the end."""
        if turn.t >= late:
            parts = regret_parts(instance, world, turn)
            columns = (parts.total, parts.calibration, parts.bandit, parts.gate)
            sums.append([column.mean() for column in columns])

    simulate(
        instance,
        gdcb.BetaThompson(),
        world,
        rounds=asked.rounds,
        replicates=asked.replicates,
        seed=1,
        watch=watch,
        device=asked.device,
    )
    means = [sum(float(mean) for mean in column) / len(sums) for column in zip(*sums, strict=True)]
    means = [round(mean, 2) + 0.0 for mean in means]  # a sum of tiny parts must not print as -0.00
    names = ("regret a night", "calibration", "bandit", "gate")
    print(", ".join(f"{name} {mean:.2f}" for name, mean in zip(names, means, strict=True)))


if __name__ == "__main__":
    main()
