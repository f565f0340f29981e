"""What a gate does to two policies' executed laws: the stated equality, and the contraction.

P_exec(· | x) = Σ_a π(a)·K_g(· | Φ(a, δ), x). On arm cells K_g is a matrix (`cell_kernel`), so both
total variations and the Dobrushin coefficient η(x) are exact: nothing below is sampled except
what the two-sample test is shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis import cell_kernel, dobrushin
from gdcb.arrays import Array
from gdcb.gates import Approval, Bounds, Cap, Chain, Shield, SimulatedPerson
from gdcb.instance import Instance
from gdcb.records import Rows
from gdcb.streams import GATE, Streams
from gdcb.theorems.worlds import Pricing, instance_of

ARMS = (0.7, 0.85, 1.0, 1.15, 1.3)
TOLERANCE = 1e-9  # sums of five products, in floating point
# Two recommending policies: one that likes it cheap, one that likes it dear.
CHEAP, DEAR = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.array([0.05, 0.1, 0.15, 0.3, 0.4])


def chance(rows: Rows) -> Array:
    """Return p(x) = 0.6 + 0.2·x₁, between 0.25 and 0.95: (N,)."""
    return np.asarray(0.6 + 0.2 * rows.x[:, 0])


def _approve(e: Array, rows: Rows) -> Array:
    return np.broadcast_to(chance(rows)[:, None], e.shape[:2])


def _approve_cheap(e: Array, rows: Rows) -> Array:
    """Approve cheap prices more often than dear ones."""
    return np.asarray(np.clip(chance(rows)[:, None] + 0.6 * (1.0 - e[..., 0]), 0.0, 1.0))


def _never(e: Array, _: Rows) -> Array:
    return np.zeros(e.shape[:2])


def own_price(rows: Rows) -> Array:
    """Return the person's own price, 1 + 0.1·x₂: (N, 1)."""
    return np.asarray(1.0 + 0.1 * rows.x[:, 1:2])


def _person(approve: Any = _approve, anchor: float = 0.0) -> Approval:
    return Approval(SimulatedPerson(approve, own_price, anchor=anchor), name="person")


def _open(*gates: Any) -> Chain:
    return Chain(gates, closed=False)


def gates() -> dict[str, Chain]:
    """Return the gates that are judged, by name."""
    bounds = Bounds(low=0.8, high=1.2)
    return {
        "identity": Chain(),
        "projection": _open(bounds),
        "cap": _open(Cap(limit=1.1)),
        "shield": _open(Shield(fallback=(1.0,), when="x1", at_most=0.0, high=1.1)),
        "one feasible price": _open(Bounds(low=1.0, high=1.0)),
        "human, p(x)": _open(_person()),
        "human, p(e, x)": _open(_person(_approve_cheap)),
        "human who decides all": _open(_person(_never)),
        "anchored editor, quarter": _open(_person(anchor=0.25)),
        "anchored editor, half": _open(_person(anchor=0.5)),
        "anchored editor, whole": _open(_person(anchor=1.0)),
        "chain: human, then bounds": Chain((_person(), bounds)),
        "chain: human, cap, human": _open(
            _person(), Cap(limit=1.1), Approval(SimulatedPerson(_approve, own_price), name="second")
        ),
    }


def pricing(gate: Chain) -> Instance:
    """Return the five prices behind a gate, without a scaler."""
    return instance_of(Pricing(), "none", arms=ARMS, gate=gate)


def contexts(n: int, *seed: int) -> Rows:
    """Return n contexts of one unit."""
    rng, zero = np.random.default_rng([*seed, 1]), np.zeros(n, dtype=np.int64)
    return Rows(zero, zero, 3.0**0.5 * (2.0 * rng.random((n, 2)) - 1.0))


def variation(first: Array, second: Array) -> Array:
    """Return ½‖P − Q‖₁ along the last axis.

    >>> variation(np.array([0.5, 0.5]), np.array([0.2, 0.8])).round(9).tolist()
    0.3
    """
    return np.asarray(0.5 * np.abs(first - second).sum(axis=-1))


def contraction(gate: Chain, rows: Rows, pairs: int, seed: int) -> dict[str, Any]:
    """Return η by cells and by formula, and how far many pairs of policies used it up.

    Half of the pairs are drawn evenly from all policies, half are two single arms; every pair of
    arms is among them, so that the largest ratio is η itself where the bound is sharp.
    """
    instance = pricing(gate)
    k = len(ARMS)
    delta = np.ones((rows.n, 1, 1))
    kernel = cell_kernel(instance, rows, delta)
    eta = dobrushin(kernel)
    actions = instance.composition.compose(instance.space, delta, rows.x)
    formula = instance.chain.contraction(actions, rows).prod(axis=1)
    rng = np.random.default_rng([seed, 0, 0, 2])
    arms = np.array([(a, b) for a in range(k) for b in range(k) if a != b])
    single = np.eye(k)[arms[np.arange(pairs) % len(arms)]]
    policies = np.concatenate((rng.dirichlet(np.ones(k), size=(pairs, 2)), single))
    recommended = variation(policies[:, 0], policies[:, 1])
    executed = np.empty((rows.n, policies.shape[0]))
    for i in range(rows.n):
        laws = policies @ kernel[i]
        executed[i] = variation(laws[:, 0], laws[:, 1])
    bound = eta[:, None] * recommended
    ratio = executed / recommended
    return {
        "eta": float(eta.max()),
        "eta_mean": float(eta.mean()),
        "eta_formula": float(formula.max()),
        "formula_excess": float((formula - eta).max()),
        "formula_short": float((eta - formula).max()),
        "comparisons": int(executed.size),
        "violations": int((executed > bound + TOLERANCE).sum()),
        "largest_ratio": float(ratio.max()),
        "slack_of_sup": float((eta - ratio.max(axis=1)).max()),
        "largest_gap_to_bound": float((bound - executed).max()),
    }


def executed_prices(instance: Instance, n: int, seed: int, turn: int = 0) -> Array:
    """Draw n rounds of each of the two policies through the gates: executed prices (2, n)."""
    executed, streams = np.empty((2, n)), Streams(seed)
    for i, policy in enumerate((CHEAP, DEAR)):
        rows = contexts(n, seed, turn, i)
        rng = np.random.default_rng([seed, turn, i, 3])
        e = np.array(ARMS)[rng.choice(len(ARMS), size=n, p=policy)][:, None]
        draws = instance.chain.draw(streams.at(GATE, 2 * turn + i), n)
        executed[i] = instance.chain.apply(draws, e, rows).action[:, 0]
    return executed


def difference(gate: Chain, rows: Rows, n: int, seed: int) -> dict[str, Any]:
    """Return the executed TV exactly, a sampled lower limit of it, and what the KS test says.

    TV is at least P₀(A) − P₁(A) for any event A; here A is 'a price below 1', chosen before any
    row was drawn, and the interval is that of a difference of two shares.
    """
    from scipy.special import ndtri
    from scipy.stats import ks_2samp

    instance = pricing(gate)
    kernel = cell_kernel(instance, rows, np.ones((rows.n, 1, 1)))
    between = variation(CHEAP @ kernel, DEAR @ kernel)
    executed = executed_prices(instance, n, seed)
    share = (executed < 1.0 - TOLERANCE).mean(axis=1)
    error = float(np.sqrt((share * (1.0 - share) / n).sum()))
    gap, z = float(share[0] - share[1]), float(ndtri(0.975))
    test = ks_2samp(executed[0], executed[1], method="asymp")
    return {
        "recommended_tv": float(variation(CHEAP, DEAR)),
        "executed_tv": float(between.mean()),
        "executed_tv_largest": float(between.max()),
        "rows": n,
        "sampled": gap,
        "low": gap - z * error,
        "high": gap + z * error,
        "ks_statistic": float(test.statistic),
        "ks_p": float(test.pvalue),
        "ks_printed": f"{test.pvalue:.3f}",
    }


def two_sample_test(gate: Chain, n: int, repeats: int, seed: int) -> dict[str, Any]:
    """Return what the two-sample KS test says of many pairs of logs behind one gate."""
    from scipy.stats import ks_2samp

    instance, p = pricing(gate), np.empty(repeats)
    for turn in range(repeats):
        one, other = executed_prices(instance, n, seed, turn + 1)
        p[turn] = ks_2samp(one, other, method="asymp").pvalue
    return {
        "rows": n,
        "repeats": repeats,
        "median_p": float(np.median(p)),
        "rejected": float((p < 0.05).mean()),
        "printed_0.000": float((p < 0.0005).mean()),
    }
