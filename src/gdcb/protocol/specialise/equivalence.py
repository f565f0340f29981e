"""Theorem 2: what the gate lets through, and what the history is good for."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.bias import ContextBias
from gdcb.arrays import Array
from gdcb.pages.numbers import plain as number
from gdcb.pages.numbers import share
from gdcb.pages.words import some
from gdcb.protocol.ground import Shared
from gdcb.protocol.metrics import estimate
from gdcb.protocol.specialise.figures import Figure, figure, measured, theorem
from gdcb.protocol.specialise.measured import NO_FIT, Past, bias_of, eta_of, trust_of
from gdcb.protocol.specialise.runs import OURS, Runs

STATEMENT = (
    "As an equality of executed laws the theorem is false: it would need a gate that ignores the "
    "proposal. A contraction holds: what two policies execute differs in total variation by at "
    "most η(x) times what they propose. History is usable for another reason: the reward given "
    "what ran and x does not depend on who proposed, if the reward law is stable, nobody used "
    "information outside x that also predicts the outcome, and outcomes are neither selectively "
    "missing nor carried over. A posterior without context is then off by b, what an arm's "
    "contexts in the history are worth beyond those of the reference."
)
_CERTAIN = 1e-9  # η this near to 0 or 1 is 0 or 1
_ENOUGH = 0.5  # share of the rows that must count for a direct start


def equivalence(shared: Shared, past: Past, runs: Runs) -> dict[str, Any]:
    """Return Theorem 2."""
    gate, told = _gate(shared, past)
    ours = None if runs.overridden is None else estimate(runs.overridden)
    changed = np.bincount(past.log.group, ~past.log.is_own) / np.bincount(past.log.group)
    rates = [
        figure("override rate", ours, f"{OURS}'s rows" if ours else f"{OURS} was not run"),
        figure("override rate, history", estimate(changed), "the incumbent's rows, same gate"),
    ]
    on, why_on = measured(lambda: bias_of(past, is_scaled=True)) if past.is_fitted else NO_FIT
    off, why_off = measured(lambda: bias_of(past, is_scaled=False))
    trust = trust_of(past)
    known = figure(
        "P(nobody knew more than x)",
        None if trust is None else estimate(trust),
        "overridden rows against approved ones, same arm; overrides count so far"
        if trust is not None
        else "nobody overrides, or it is not asked",
    )
    biases = [*_bias("scaler fitted", on, why_on), *_bias("scaler off", off, why_off)]
    verdict = (told, _use(past, on, off), _private(trust))
    return theorem(STATEMENT, [*gate, *rates, known, *biases], verdict)


def _gate(shared: Shared, past: Past) -> tuple[list[Figure], str]:
    found, why = measured(lambda: eta_of(shared, past))
    if found is None:
        return [figure("η(x)", None, why)], ""
    least, mean, most = (float(of(found.eta)) for of in (np.min, np.mean, np.max))
    gates = ", ".join(f"{name} {number(value)}" for name, value in found.by_gate.items())
    where = f"exact on arm cells, {some(found.eta.size, 'context')}; smallest {number(least)}"
    figures = [
        figure("η(x), mean", mean, where),
        figure("η(x), largest", most, f"mean bound of each gate: {gates or 'no gate'}"),
    ]
    if most <= _CERTAIN:
        return figures, "η is 0: the gate decides all, and here the paper's equality is exact."
    told = "The paper's equality does not hold: it would need η = 0."
    if most >= 1.0 - _CERTAIN:
        return figures, f"{told} In some contexts η is 1, and there the gate guarantees nothing."
    passes = f"at most {share(most)} of a difference between policies, {share(mean)} on average"
    return figures, f"{told} The gate lets through {passes}."


def _bias(name: str, found: ContextBias | None, why: str) -> list[Figure]:
    """Return the size of b̂, and the rows that it leaves of the history."""
    if found is None:
        return [figure(f"{what}, {name}", None, why) for what in ("b̂", "n_eff")]
    n = np.maximum(found.n.sum(axis=1), 1.0)
    size = np.sqrt((found.n * np.nan_to_num(found.bias) ** 2).sum(axis=1) / n)
    error = (np.sqrt(found.noise[:, None] * found.n).sum(axis=1) / n).mean()  # Σ (n_a/n)·σ/√n_a
    together = (found.shared_weight * n).mean()
    return [
        figure(
            f"b̂, {name}",
            estimate(size),
            f"root mean square over arms, {number(float(found.spread.mean()))} less its own noise; "
            f"an arm's posterior error is {number(float(error))}",
        ),
        figure(
            f"n_eff, {name}",
            estimate(found.n_eff.sum(axis=1)),
            f"of {n.mean():,.0f} rows at an arm; {together:,.0f} where arms share a curve",
        ),
    ]


def _use(past: Past, on: ContextBias | None, off: ContextBias | None) -> str:
    """Say what the history is good for, as far as context goes."""
    if on is None or off is None:
        return "What the history is good for was not measured with the scaler both on and off."
    if not np.isfinite(on.standard_error[on.n > 0]).any():
        return "The history is too short to tell what it is good for."
    one, bare = (float(found.n_eff.sum() / found.n.sum()) for found in (on, off))
    curve, bare_curve = (float(found.shared_weight.mean()) for found in (on, off))
    counts = f"of the rows at an arm {share(one)} count with the scaler fitted"
    counts += f", and {share(bare)} without"
    kept, without = one, bare
    if past.is_on_a_line:
        kept, without = curve, bare_curve
        counts += (
            f". Where arms share a curve it is {share(curve)} with, and {share(bare_curve)} without"
        )
    use = "arms too" if kept >= _ENOUGH else "arms only after an adjustment for context"
    told = f"The history can start the scaler, and {use}: {counts}."
    if without < _ENOUGH <= kept:
        told += " It is the scaler that makes it usable."
    return told


def _private(trust: Array | None) -> str:
    """Say whether overrides may be believed."""
    if trust is None:
        return ""
    doubted = float((trust < _ENOUGH).mean())
    if doubted == 0:
        return "Nothing shows that overrides carry private information."
    return (
        f"In {share(doubted)} of the replicates overrides look as if the person knew more than x: "
        "there, approved rows teach and overridden ones hardly count."
    )
