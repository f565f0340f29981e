"""Theorem 1: whether a scaler pays here."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.ratio import MARGINAL, VarianceRatio
from gdcb.pages.numbers import share
from gdcb.pages.words import some
from gdcb.protocol.ground import Shared
from gdcb.protocol.metrics import Estimate, estimate, in_words
from gdcb.protocol.specialise.figures import figure, theorem
from gdcb.protocol.specialise.measured import Past
from gdcb.protocol.specialise.runs import OURS, WITHOUT, Runs

STATEMENT = (
    "A scaler pays as far as context changes which arm is best. The theorem bounds how far an "
    "imperfect scaler can raise the variance; that it lowers it must be measured. The variance "
    "ratio sets the part of context in the difference of two arms against the noise of one reward."
)
MISLED = (
    "So the ratio does not decide here: it sets one round's gain against one round's noise, while "
    "without a scaler the loss comes back in every round, and context may bias a warm start."
)
_LARGE = 0.1  # share of the regret that nobody would call marginal


def variance(
    shared: Shared, past: Past, runs: Runs, ratio: VarianceRatio | None, why: str
) -> dict[str, Any]:
    """Return Theorem 1; `why` says why there is no ratio, where there is none."""
    repaired, paper, rows = None, None, ""
    if ratio is not None:
        repaired = Estimate(mean=ratio.ratio, low=ratio.low, high=ratio.high)
        paper = Estimate(mean=ratio.paper, low=ratio.paper_low, high=ratio.paper_high)
        rows = f"{some(past.replicates, 'history', 'histories')} of {some(ratio.n_rows, 'row')}"
    where = "δ̂(x)" if ratio is not None and ratio.is_scaled else "neutral δ"
    delta = shared.delta
    is_log = past.instance.composition.joins == "product" and bool((delta > 0).all())
    spread = (np.log(delta) if is_log else delta).var(axis=1)
    spread = spread.reshape(delta.shape[0], -1).mean(axis=1)  # over the arms that have one
    gain, note = _gain(runs)
    figures = [
        figure("variance ratio", repaired, why or f"of the difference of two arms; {rows}"),
        figure("the paper's ratio", paper, why or f"of one arm's mean at {where}; gives no advice"),
        figure(
            f"Var {'log ' if is_log else ''}δ°",
            estimate(spread),
            f"over {some(delta.shape[1], 'reference context')}; {some(spread.size, 'replicate')}",
        ),
        figure(f"regret saved by the scaler, {WITHOUT} − {OURS}", gain, note),
    ]
    advice = f"The variance ratio was {why}." if ratio is None else ratio.advice
    return theorem(STATEMENT, figures, (advice, _against(gain, runs, ratio)))


def _gain(runs: Runs) -> tuple[Estimate | None, str]:
    """Return what the scaler saved in this run, and a note."""
    if OURS not in runs.regret or WITHOUT not in runs.regret:
        return None, f"{OURS} and {WITHOUT} were not both run"
    gain = estimate(runs.regret[WITHOUT] - runs.regret[OURS])
    return gain, f"paired; of {in_words(estimate(runs.regret[WITHOUT]))} without it"


def _against(gain: Estimate | None, runs: Runs, ratio: VarianceRatio | None) -> str:
    """Hold the advice to what happened."""
    if gain is None or gain["low"] is None or gain["high"] is None:
        return ""
    if gain["high"] < 0:
        return f"In this run a scaler did harm: {in_words(gain)} was saved by it."
    if gain["low"] <= 0:
        return "In this run no difference can be told between with a scaler and without."
    part = gain["mean"] / float(runs.regret[WITHOUT].mean())
    told = f"In this run the scaler saved {share(part)} of the regret that was there without it."
    is_misled = ratio is not None and ratio.high < MARGINAL and part >= _LARGE
    return f"{told} {MISLED}" if is_misled else told
