"""Consumer loans at random interest rates: what a log says where chance set the rate.

The log is that of Karlan and Zinman (2008), 'Credit Elasticities in Less-Developed Economies',
replication data 113240 at openICPSR (CC BY 4.0); it is not part of this repository.

    python -m examples.real_logs.credit PATH/TO/kz_demandelasts_aer08.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gdcb
from gdcb import analysis
from gdcb.analysis import what_if
from gdcb.arrays import Array
from gdcb.history import Batch, certify, open_log, read
from gdcb.history.warm import start
from gdcb.log_columns import LogColumns
from gdcb.records import Rows

STANDARD = {"LOW": 7.75, "MEDIUM": 9.75, "HIGH": 11.75}  # the lender's own rate, % a month
SHARES = (0.35, 0.5, 0.65, 0.8, 0.95)  # arms: shares of the standard rate; half a step reaches 1
CAPS = (10.0, 8.0, 6.0, 4.0, 3.0)  # % a month; the last is below every rate offered
SEED = 2008
COLUMNS = LogColumns(unit="customers", time="posted")
# Months of the three mailings; the day is made up.
_POSTED = {1: "2003-07-01T00:00Z", 2: "2003-09-01T00:00Z", 3: "2003-10-01T00:00Z"}
_KEPT = ("risk", "itcscore", "appscore", "age", "trcount", "dormancy", "lastamount", "province")


def log_of(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the log of a frame with the data set's columns: a row is one letter with an offer.

    rate is what the letter offered (% a month), net what came of it in rand: interest of the loan
    less the average amount past due, 0 where no loan was taken. propensity is the share of letters
    of the same risk and wave whose rate fell into the same cell: the rate was drawn within these.
    """
    step = (SHARES[-1] - SHARES[0]) / (len(SHARES) - 1)
    wave = pl.col("wave").cast(pl.Int64)
    kept = frame.filter(pl.col("normrate_less") == 1).with_columns(
        standard=pl.col("risk").replace_strict(STANDARD, return_dtype=pl.Float64)
    )
    place = ((pl.col("rate") / pl.col("standard") - SHARES[0]) / step).round()
    drawn = ["risk", "wave"]
    return (
        kept.select(
            *_KEPT,
            "standard",
            wave=wave.cast(pl.String),
            posted=wave.replace_strict(_POSTED),
            customers=pl.col("risk"),
            rate=pl.col("offer4").cast(pl.Float64),
            took=pl.col("tookup"),
            net=pl.col("grossinterest").fill_null(0.0) - pl.col("pstdue_average").fill_null(0.0),
        )
        .with_columns(cell=place.clip(-1, len(SHARES) - 1))
        .with_columns(propensity=pl.len().over(*drawn, "cell") / pl.len().over(drawn))
        .drop("cell")
    )


def instance() -> gdcb.Instance:
    """Return the decision: a share of the standard rate of the customer's risk, behind a cap."""
    number = gdcb.Number
    return gdcb.Instance(
        name="loans",
        title="Interest rate of a mailed offer",
        context=gdcb.Schema(
            {
                "standard": number(1, 20, "the lender's rate of this risk, % a month"),
                "risk": gdcb.Category(tuple(STANDARD)),
                "wave": gdcb.Category(("1", "2", "3")),
                "itcscore": number(0, 1000, "credit bureau's score"),
                "appscore": number(0, 100, "lender's own score"),
                "age": number(15, 100),
                "trcount": number(1, 100, "loans so far"),
                "dormancy": number(0, 36, "months since the last loan"),
                "lastamount": number(50, 20_000, "size of the last loan, rand"),
            }
        ),
        arms=gdcb.ArmList(values=SHARES),
        composition=gdcb.Multiply(base=("standard",), names=("rate",)),
        gate=gdcb.Cap(limit=max(STANDARD.values()), name="rate cap"),
        reward=gdcb.Scaled(outcome=("net",)),
    )


def bandit() -> gdcb.GaussianThompson:
    """Return the learner, one a risk category: rewards of 0 ± 250 rand are expected."""
    return gdcb.GaussianThompson(prior_mean=0.0, strength=1.0, shape=1.0, rate=250.0**2)


def halves(log: pl.DataFrame, seed: int = SEED) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two random halves of the rows, each in the order of the log."""
    is_first = np.random.default_rng(seed).permutation(log.height) < log.height // 2
    return log.filter(is_first), log.filter(~is_first)


def learned(loans: gdcb.Instance, log: pl.DataFrame) -> tuple[Any, tuple[str, ...]]:
    """Return the state after a warm start from a log, and its units: one learner a risk."""
    source = open_log(log, loans, COLUMNS)
    certificate = certify(source, loans, bandit(), full=False)
    units = source.units
    return start(certificate, source, loans, bandit(), np.arange(len(units)))[0], units


def proposals(loans: gdcb.Instance, state: Any, rows: Batch) -> Array:
    """Return how likely the learner proposes each arm to each row: (N, K)."""
    asked = Rows(rows.unit, rows.unit, rows.x)
    return gdcb.propensity(loans, bandit(), state, asked).proposed


def behaviour_of(loans: gdcb.Instance, x: Array, cell: Array) -> Array:
    """Return the share of each cell among rows of the same risk and wave: (N, K + 2)."""
    places = loans.context.positions
    drawn = x[:, [*places["risk"], *places["wave"]]]
    _, stratum = np.unique(drawn, axis=0, return_inverse=True)
    stratum = stratum.ravel()
    count = np.zeros((stratum.max() + 1, loans.space.n + 2))
    np.add.at(count, (stratum, cell), 1.0)
    return np.asarray((count / count.sum(axis=1, keepdims=True))[stratum])


def feedback_of(loans: gdcb.Instance, rows: Batch, targets: list[Array]) -> list[analysis.Feedback]:
    """Return rows as off-policy estimates see them: under the experiment, then under each target.

    Proposals are below every cap that the log knew, so that what is proposed runs.
    """
    delta, net = np.ones((rows.n, 1, 1)), rows.outcome[:, 0]
    cell = analysis.arm_cells(loans, rows.action[:, None], delta, rows.x)[:, 0]
    behaviour = behaviour_of(loans, rows.x, cell)
    model = analysis.outcome_model(rows.x, cell, net, behaviour.shape[1])
    laws = [behaviour, *(np.pad(target, ((0, 0), (0, 2))) for target in targets)]
    return [analysis.Feedback(cell, net, behaviour, law, model) for law in laws]


def lower_caps(loans: gdcb.Instance, rows: Batch, caps: tuple[float, ...]) -> list[what_if.Answer]:
    """Return what each lower cap on the rate would have been worth; nobody had proposed more."""
    log = what_if.gated_log(loans, rows.x, rows.action, rows.action, rows.outcome[:, 0])
    questions = [what_if.ReplaceGate("rate cap", gdcb.Cap(limit=cap)) for cap in caps]
    return what_if.ask_all(loans, log, questions)


def _three(mean: float, low: float, high: float) -> str:
    return f"{mean:.1f} ({low:.1f} to {high:.1f})"


def _less(one: analysis.Feedback, other: analysis.Feedback) -> str:
    """Return what one policy earns more than another, or why that has no interval."""
    try:
        return _three(*analysis.difference(one, other))
    except gdcb.GdcbError as error:
        return f"no interval: {error}"


def _limits(found: analysis.Interval | None) -> str:
    if found is None:
        return "–"
    between = f"{found.low:.1f} to {found.high:.1f}"
    return between if found.mean is None else f"{found.mean:.1f} ({between})"


def _certificate(loans: gdcb.Instance, log: pl.DataFrame, margin: float) -> None:
    source = open_log(log, loans, COLUMNS)
    found = certify(source, loans, bandit(), margin=margin, full=False)
    report = source.report
    print(f"\n## Certificate, margin {margin:g}: {found.verdict}\n")
    print(f"{report.read:,} letters, {report.rejected} rejected, {report.duplicates} copies\n")
    print("\n".join(f"- {reason}" for reason in found.reasons))
    print(
        "\n| arm | verdict | rows | effective | bias, rand | counts as |\n|---|---|--:|--:|--:|--:|"
    )
    for arm in found.arms:
        bias = _three(arm.bias, arm.low, arm.high)
        figures = f"{arm.rows:,.0f} | {arm.ess:,.0f} | {bias} | {arm.n_eff:,.0f}"
        print(f"| {arm.arm} | {arm.verdict} | {figures} |")
    print("\n| test | p | threshold |\n|---|--:|--:|")
    for test in found.tests:
        print(f"| {test.name} | {test.p:.2g} | {test.threshold:g} |")


def _values(loans: gdcb.Instance, one: pl.DataFrame, other: pl.DataFrame, title: str) -> None:
    state, units = learned(loans, one)
    rows, _ = read(other, loans, COLUMNS)
    law = proposals(loans, state, rows)
    dearest = np.zeros_like(law)
    dearest[:, -1] = 1.0
    own, ours, top = feedback_of(loans, rows, [law, dearest])
    print(f"\n## {title}\n")
    print(f"| risk | {' | '.join(loans.space.names)} |\n|---|{'--:|' * loans.space.n}")
    for place, unit in enumerate(units):
        shares = law[rows.unit == place].mean(axis=0)
        print(f"| {unit} | {' | '.join(f'{share:.2f}' for share in shares)} |")
    print("\n| policy | rand a letter | less the experiment | effective rows | largest weight |")
    print("|---|--:|--:|--:|--:|")
    for name, feedback in (("experiment", own), ("GDCB", ours), ("dearest arm for all", top)):
        value = analysis.evaluate(feedback)
        gain = "" if feedback is own else _less(feedback, own)
        said = _three(value.mean, value.low, value.high)
        print(f"| {name} | {said} | {gain} | {value.ess:,.0f} | {value.largest_weight:.2f} |")
    print(f"\nGDCB less the dearest arm: {_less(ours, top)}")


def main() -> None:
    """Print certificate, values and answers as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the data set as CSV")
    given = parser.parse_args()
    log, loans = log_of(pl.read_csv(given.path, infer_schema_length=None)), instance()
    for margin in (0.1, 0.01):
        _certificate(loans, log, margin)
    first, second = halves(log)
    _values(loans, first, second, "Learned on the first half, valued on the second")
    _values(loans, second, first, "Learned on the second half, valued on the first")
    print("\n## Lower caps, second half\n")
    print("| cap | answer | rand a letter | difference | changed | effective rows |")
    print("|--:|---|--:|--:|--:|--:|")
    for cap, answer in zip(
        CAPS, lower_caps(loans, read(second, loans, COLUMNS)[0], CAPS), strict=True
    ):
        said = [_limits(answer.value), _limits(answer.difference)]
        figures = f"{100 * answer.changed:.0f} % | {answer.ess or 0:,.0f}"
        print(f"| {cap:g} | {answer.kind} | {' | '.join(said)} | {figures} |")
        if answer.kind == "refused":
            print(f"\n{answer.says}")


if __name__ == "__main__":
    main()
