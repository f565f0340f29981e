"""A disparate-impact table by age and sex: a diagnostic, and no proof of fairness.

Neither attribute is read by scaler, learner or gate. Other factors go with them, so that groups
may still be treated differently; the table shows how far. A ratio below four fifths is the rule of
thumb of 29 CFR 1607.4(D), made for hiring and used for credit by analogy; it does not prove
discrimination, and a ratio above it does not prove its absence. Nothing here looks at whether a
difference is explained by risk.

Age bands: under 25 (as much work on these data has it), 25 to 59, and 60 and over. (Regulation B
calls an applicant of 62 and over elderly.) Sex is what the data's column is labelled with; the code
behind the label 'female' joins women who are not single with men who are (Grömping 2019), so that
rows 'by sex' compare two labels more than two sexes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

NOTE = (
    "A diagnostic, and no proof of fairness: age and sex were read by no part of the decision; "
    "differences come through other factors, and may or may not be justified by risk."
)
FOUR_FIFTHS = 0.8
_Z = 1.959963984540054
_AGES = (("under 25", -np.inf, 25.0), ("25 to 59", 25.0, 60.0), ("60 and over", 60.0, np.inf))


@dataclass(frozen=True)
class Group:
    """One row of the table.

    Parameters
    ----------
    by, name, n : attribute, group, and applications of it
    offered : share that was made an offer
    apr, capped : mean APR of the offers, and share of them at the cap
    take_up, default : share of the offers that was taken, and of these that defaulted
    favourable : share of all applications that was offered the list rate or better
    ratio : its ratio to the most favoured group of the attribute, with a 95 % interval
    finding : 'the most favoured', 'below four fifths', 'not below' or 'too few to tell', by that
        interval
    """

    by: str
    name: str
    n: int
    offered: float
    apr: float
    capped: float
    take_up: float
    default: float
    favourable: float
    ratio: tuple[float, float, float]
    finding: str


def table(
    age: Array,
    is_female: Array,
    apr: Array,
    base: Array,
    cap: Array,
    taken: Array,
    defaulted: Array,
) -> list[Group]:
    """Return the table of N applications, all (N,).

    `apr` is NaN where no offer was made; `taken` and `defaulted` are 0 or 1, or probabilities.
    """
    columns = (age, is_female, apr, base, cap, taken, defaulted)
    if len({np.shape(column) for column in columns}) != 1 or np.ndim(age) != 1 or not len(age):
        raise InvalidInput("fairness: expected columns of one length, with at least one row")
    groups = [("age", name, (age >= low) & (age < high)) for name, low, high in _AGES]
    female = np.asarray(is_female, dtype=bool)
    groups += [("sex", "labelled female", female), ("sex", "labelled male", ~female)]
    is_good = np.nan_to_num(apr, nan=np.inf) <= base
    best = {
        by: max(
            (float(is_good[of].mean()), int(of.sum()))
            for b, _, of in groups
            if b == by and of.any()
        )
        for by in ("age", "sex")
    }
    out = []
    for by, name, of in groups:
        n = int(of.sum())
        if n == 0:
            continue
        offers = of & np.isfinite(apr)
        loans = float(taken[offers].sum())
        good = float(is_good[of].mean())
        is_best = (good, n) == best[by]
        ratio = (1.0, 1.0, 1.0) if is_best else adverse_impact_ratio(good, n, *best[by])
        out.append(
            Group(
                by,
                name,
                n,
                float(offers.sum() / n),
                _mean(apr[offers]),
                _mean(apr[offers] >= cap[offers]),
                _mean(taken[offers]),
                float(defaulted[offers].sum() / loans) if loans > 0 else np.nan,
                good,
                ratio,
                "the most favoured" if is_best else _finding(ratio),
            )
        )
    return out


def adverse_impact_ratio(
    share: float, n: int, best: float, n_best: int
) -> tuple[float, float, float]:
    """Return share/best with its 95 % interval, by the normal law of the log ratio (Katz 1978).

    Half of one hundred against four fifths of one hundred: 0.5/0.8, and a standard error of
    √(0.5/50 + 0.2/80) = 0.1118 of the logarithm.

    >>> ratio, low, high = adverse_impact_ratio(0.5, 100, 0.8, 100)
    >>> ratio, round(low, 4), round(high, 4)
    (0.625, 0.502, 0.7781)
    """
    if share <= 0.0 or best <= 0.0:
        return (np.nan, 0.0, np.inf)
    error = np.sqrt((1.0 - share) / (share * n) + (1.0 - best) / (best * n_best))
    ratio = share / best
    return ratio, float(ratio * np.exp(-_Z * error)), float(ratio * np.exp(_Z * error))


def _finding(ratio: tuple[float, float, float]) -> str:
    if ratio[2] < FOUR_FIFTHS:
        return "below four fifths"
    return "not below" if ratio[1] >= FOUR_FIFTHS else "too few to tell"


def _mean(values: Array) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def text(rows: list[Group]) -> str:
    """Return the table as text, with what it is and is not."""
    head = (
        f"{'':18}{'n':>7}{'offered':>9}{'APR':>8}{'at cap':>8}{'taken':>8}{'default':>9}"
        f"{'≤ list':>8}  ratio to the most favoured"
    )
    lines = [head]
    for one in rows:
        ratio, low, high = one.ratio
        lines.append(
            f"{one.name:18}{one.n:7d}{one.offered:9.1%}{one.apr:8.2%}{one.capped:8.1%}"
            f"{one.take_up:8.1%}{one.default:9.1%}{one.favourable:8.1%}"
            f"  {ratio:.2f} ({low:.2f} to {high:.2f}): {one.finding}"
        )
    return "\n".join([*lines, NOTE])
