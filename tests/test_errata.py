"""What the paper says, what holds: the tests that `docs/errata.md` names."""

from __future__ import annotations

import numpy as np
from scipy import stats

from benchmarks.claims import Rated, _priced, regret
from gdcb.arrays import Array
from gdcb.bandits import CurveThompson
from gdcb.gates import Approval, Bounds, Chain, SimulatedPerson
from gdcb.instance import Rules
from gdcb.records import Rows
from gdcb.scalers import ConstantScaler


def _rows(n: int) -> Rows:
    zero = np.zeros(n, dtype=np.int64)
    return Rows(zero, zero, np.zeros((n, 1)))


def _total_variation(first: Array, second: Array, levels: Array) -> float:
    shares = [np.array([(part == level).mean() for level in levels]) for part in (first, second)]
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def test_an_idempotent_gate_does_not_hide_the_policy() -> None:
    """Two policies behind one idempotent projection have different executed laws.

    Proposals 1, 2, 3 behind [1, 2]: always-1 executes 1, always-3 executes 2: TV = 1 = η.
    """
    gate = Chain((Bounds(low=1.0, high=2.0),))
    low, high = np.full((10, 1), 1.0), np.full((10, 1), 3.0)
    executed = [gate.apply((None,), proposal, _rows(10)).action for proposal in (low, high)]
    again = [gate.apply((None,), action, _rows(10)).action for action in executed]
    assert (again[0] == executed[0]).all()  # idempotent
    assert (again[1] == executed[1]).all()
    assert _total_variation(executed[0], executed[1], np.array([1.0, 2.0])) == 1.0


def test_approval_contracts_by_its_approval_rate() -> None:
    """Behind 'approve with p, else own action', TV(executed) = p · TV(proposed).

    Policies (0.8, 0.2) and (0.3, 0.7) on two actions: TV 0.5. With p = 0.6 and the own action
    always the first: executed (0.88, 0.12) and (0.58, 0.42), TV 0.3 = 0.6 · 0.5.
    """
    p = 0.6
    person = SimulatedPerson(
        lambda e, _: np.full(e.shape[:2], p), lambda rows: np.zeros((rows.n, 1))
    )
    gate = Chain((Approval(person),), closed=False)
    actions = np.array([[[0.0], [1.0]]])

    class IsSecond:
        """The indicator of the second action: its mean behind the gate is a probability."""

        def __call__(self, e: Array) -> Array:
            return np.asarray(e[..., 0] == 1.0, dtype=float)

        def take(self, index: Array) -> IsSecond:
            return self

    second_runs = gate.expect(IsSecond(), actions, _rows(1))[0]  # by what was proposed
    first, second = np.array([0.8, 0.2]), np.array([0.3, 0.7])
    executed = [
        np.array([1 - policy @ second_runs, policy @ second_runs]) for policy in (first, second)
    ]
    np.testing.assert_allclose(executed[0], [0.88, 0.12])
    proposed_tv = 0.5 * np.abs(first - second).sum()
    executed_tv = 0.5 * np.abs(executed[0] - executed[1]).sum()
    np.testing.assert_allclose(executed_tv, p * proposed_tv)


def test_a_small_ks_p_value_means_the_laws_differ() -> None:
    """Equal laws give p-values that are rarely small, different laws give p = 0.000."""
    rng = np.random.default_rng(5)
    same = stats.ks_2samp(rng.normal(size=2000), rng.normal(size=2000)).pvalue
    other = stats.ks_2samp(rng.normal(size=2000), rng.normal(0.5, 1, size=2000)).pvalue
    assert same > 0.01
    assert other < 0.0005


def test_subtracting_the_prediction_loses_the_arm_means() -> None:
    """r − m(a, x) has mean 0 for every arm; r − (m(a, x) − m̄(a)) keeps v(a) and drops Var m.

    v = (1, 2), m(a, x) = v(a)·(1 + x), x ~ N(0, 1), noise 0.5: with a perfect m the paper's form
    averages 0, the centred form v(a) with variance 0.25 instead of v² + 0.25.
    """
    rng = np.random.default_rng(6)
    x, reference = rng.normal(size=200_000), rng.normal(size=200_000)
    for value in (1.0, 2.0):
        r = value * (1 + x) + 0.5 * rng.normal(size=x.size)
        predicted = value * (1 + x)
        papers = r - predicted
        centred = r - (predicted - (value * (1 + reference)).mean())
        # Six standard errors of the means: false alarms about 1 in 10⁸.
        assert abs(papers.mean()) < 6 * 0.5 / x.size**0.5
        assert abs(centred.mean() - value) < 6 * (value + 0.5) / x.size**0.5
        np.testing.assert_allclose(centred.var(), 0.25, rtol=0.02)
        np.testing.assert_allclose(r.var(), value**2 + 0.25, rtol=0.02)


def test_without_a_scaler_regret_is_linear() -> None:
    """With δ held at 1, late rounds keep losing what context explains; with it, they do not.

    Ungated, so that the gate's own floor is out of the way. The late rate without a scaler is at
    least four times the rate with one, and no lower in the last fifth than in the one before.
    """
    late: dict[str, list[float]] = {}
    for name, scaler in (("with", None), ("without", ConstantScaler(1.0))):
        ledger = regret(
            _priced(Chain(), Rules(), scaler),
            CurveThompson(prior_mean=(0.0, -1.0), prior_sd=(1.5, 1.0)),
            Rated(),
            600,
            60,
            21,
        )
        total = ledger.parts[..., 0].mean(axis=1)
        late[name] = [float(total[360:480].mean()), float(total[480:].mean())]
    assert late["without"][1] > 4 * late["with"][1]
    assert late["without"][1] > 0.8 * late["without"][0]


def test_the_papers_split_blames_both_loops_where_nothing_is_lost() -> None:
    """With δ̂ = 0.8·δ* and the arm 1.25 the executed action is optimal: total 0.

    μ(e) = −(e − 1)², δ* = 1, arms (1, 1.25). The paper's telescope: 'bandit'
    μ(1) − μ(1.25·δ*) = 0.0625, 'calibration' μ(1.25·δ*) − μ(1.25·δ̂) = −0.0625. Ours: no arm under
    δ̂ could do better, so both are 0.
    """

    def mean(e: float) -> float:
        return -((e - 1.0) ** 2)

    true, fitted, arms, chosen = 1.0, 0.8, (1.0, 1.25), 1.25
    papers_bandit = mean(1.0 * true) - mean(chosen * true)
    papers_calibration = mean(chosen * true) - mean(chosen * fitted)
    np.testing.assert_allclose([papers_bandit, papers_calibration], [0.0625, -0.0625])
    ours_calibration = mean(1.0) - max(mean(arm * fitted) for arm in arms)
    ours_bandit = max(mean(arm * fitted) for arm in arms) - mean(chosen * fitted)
    np.testing.assert_allclose([ours_calibration, ours_bandit], [0.0, 0.0], atol=1e-12)


def test_algorithm_1_returns_its_prior() -> None:
    """Under stationary innovations, V_fit − (V_cal − H P Hᵀ) is H P Hᵀ, whatever produced them.

    Scalar H = 1: two records with innovation variances 2 and 50, prior 4: both seed P₀ ≈ 4.
    """
    rng = np.random.default_rng(7)
    for spread in (2.0, 50.0):
        innovations = spread**0.5 * rng.normal(size=400_000)
        calibration, fit = innovations[:100_000], innovations[100_000:]
        prior = 4.0
        noise = calibration.var() - prior
        seeded = fit.var() - noise
        # Six standard errors of the difference of two sample variances.
        error = spread * (2 / calibration.size + 2 / fit.size) ** 0.5
        assert abs(seeded - prior) < 6 * error
