"""Does context change which arm is best, against the noise? The variance ratio, from a history.

Theorem 1 promises most where context moves rewards much. The paper's diagnostic is the variance of
one arm's mean over contexts, Var_x[u(Φ(a, δ*(x)))]/σ². It can point the wrong way: a level that
all arms share makes it large although scaling is worthless, and a reward that follows δ* makes it
0 although scaling is worth most. What matters is whether context moves the *difference* of arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.surface import LEAST_ROWS, BlockSums, Surface, Table, block_sums, checked
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.pages.numbers import Estimate, common_digits, fixed
from gdcb.parts import check_choice, check_number
from gdcb.streams import check_seed

MARGINAL, SUBSTANTIAL = 0.1, 1.0  # the paper's thresholds
FOLDS = 3  # one chooses the pair of arms, two estimate how their difference varies
_TURNS = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
_MOST = 4_000_000  # numbers in the sums of one batch of draws
MOST_COEFFICIENTS = 120  # of m: time grows with their cube, memory with their square
_MOST_ARMS = 8  # that are compared where m would have more coefficients
_CHOOSERS = 3  # then every third block chooses arms and columns, and the others answer


@dataclass(frozen=True, slots=True)
class VarianceRatio:
    """How much context moves the difference of two arms, in units of the noise.

    Parameters
    ----------
    ratio, low, high : Cov(D̂¹, D̂²)/σ̂² and its interval; an estimate of a number ≥ 0 that may itself
        fall below 0, because noise does not inflate it
    paper, paper_low, paper_high : Var_x[m(Φ(a, δ(x)), x)]/σ̂² of the best arm, likewise
    noise : σ̂², residual variance on rows that the fit has not seen
    best, rival : the two arms (indices) that most folds chose
    level : of the intervals
    n_rows, n_blocks : size of the history
    is_scaled : whether the paper's ratio was taken at δ(x); else at neutral δ
    n_arms, n_columns : arms compared and context columns read, of `of_arms` and `of_columns`
    """

    ratio: float
    low: float
    high: float
    paper: float
    paper_low: float
    paper_high: float
    noise: float
    best: int
    rival: int
    level: float
    n_rows: int
    n_blocks: int
    is_scaled: bool
    n_arms: int = 0
    n_columns: int = 0
    of_arms: int = 0
    of_columns: int = 0

    @property
    def advice(self) -> str:
        """Say what the ratio advises, by the paper's thresholds and with the interval in mind."""
        below = " An estimate of it may fall below 0 by chance." if self.ratio < 0 else ""
        return self._advice + below + self._asked

    @property
    def _asked(self) -> str:
        """Say what was left out, where the work had to be bounded."""
        left = [
            f"{some} of {whole} {what}"
            for some, whole, what in (
                (self.n_arms, self.of_arms, "arms"),
                (self.n_columns, self.of_columns, "context columns"),
            )
            if some < whole
        ]
        if not left:
            return ""
        chosen = "every third block of rows chose them, and the other rows answered"
        return f" To bound the work it compares {' and '.join(left)}: {chosen}."

    @property
    def _advice(self) -> str:
        span = Estimate(self.ratio, self.low, self.high)
        digits = common_digits([span])
        told, low, high = (fixed(one, digits) for one in (span.mean, self.low, self.high))
        said = f"The variance ratio is {told} ({low} to {high}): "
        if self.high < MARGINAL:
            return said + "below 0.1, where the benefit is marginal unless there are many rounds."
        if self.low > SUBSTANTIAL:
            return said + "above 1, where the benefit is substantial; a scaler is recommended."
        if self.low > MARGINAL:
            return said + "above 0.1, where a scaler has something to gain."
        if self.high < SUBSTANTIAL:
            return said + "below 1; whether a scaler has anything to gain is open."
        return said + "the history does not tell whether a scaler pays."

    def as_json(self) -> dict[str, Any]:
        """Return plain data: estimates as mean, low and high."""
        return {
            "mean": self.ratio,
            "low": self.low,
            "high": self.high,
            "advice": self.advice,
            "paper": {"mean": self.paper, "low": self.paper_low, "high": self.paper_high},
            "noise": self.noise,
            "arms": [self.best, self.rival],
            "asked": {
                "arms": self.n_arms,
                "of_arms": self.of_arms,
                "columns": self.n_columns,
                "of_columns": self.of_columns,
            },
            "level": self.level,
            "rows": self.n_rows,
            "blocks": self.n_blocks,
        }


def variance_ratio(
    x: Array,
    action: Array,
    reward: Array,
    arms: Array | int,
    *,
    block: Array | None = None,
    delta: Array | None = None,
    joins: str = "product",
    surface: Surface | None = None,
    pair: str = "rival",
    level: float = 0.95,
    draws: int = 200,
    splits: int = 8,
    seed: int = 0,
    most: int = MOST_COEFFICIENTS,
) -> VarianceRatio:
    """Estimate the variance ratio of a finished history, with an interval.

    D(x) = m(a, x) − m(a′, x) at neutral δ, m a ridge regression of rewards (`Surface`). Blocks of
    rows are split into three folds, many times over. One fold chooses the arms, the other two
    give D̂¹ and D̂²; Cov_x(D̂¹, D̂²) has no noise of its own in its mean. a is the arm with the best
    mean. a′ is its rival: the arm that gains most over a in the contexts that favour it,
    E[(m(a′, x) − m(a, x))₊] under a normal law of D.

    The interval is a bootstrap of blocks. Every draw weighs the blocks anew and repeats everything:
    fits, choice and noise; copies of a block stay in one fold.

    Parameters
    ----------
    x : (n, p) contexts
    action : (n,) executed actions relative to their base, in units of the arms at neutral δ; or
        the executed arm, where arms are categories
    reward : (n,) rewards; divide by the base where actions are relative to it
    arms : (K,) coordinates of the arms, or K where they are categories
    block : (n,) labels of rows that may depend on each other; None: runs of neighbouring rows
    delta : (n,) δ(x) at which the paper's ratio is taken; None: neutral
    joins : 'product' (Φ = a·δ) or 'sum' (a + δ)
    pair : 'rival', or 'best': a′ has the second best mean. On a fine grid of arms that is the
        neighbour of a, and D is as small as the grid is fine
    draws, splits, seed : of the bootstrap and of the folds
    most : coefficients that m may have. Where contexts times arms need more, every third block
        chooses the arms with the best means and the columns that move rewards most, and the
        ratio of these is estimated on the other blocks

    Notes
    -----
    Assumes: m is rich enough; all of x that moves both action and reward is in it; arms overlap in
    comparable contexts. Arms that the history hardly tried are left out.

    Stops applying: what m cannot express counts as noise, and the ratio is then too low (a
    third of it, where demand is nearly a step). The ratio knows no horizon, and without a scaler
    the loss goes on for ever: over many rounds a small ratio pays too. The paper's ratio asks for
    m at a·δ(x), which may lie beyond all that was tried.

    Examples
    --------
    Two arms, x = ∓1 in turn, and 0.1 of noise: arm 0 pays 0, arm 1 pays x. D = ∓x, with variance
    1 against 0.01. A level 3x that both arms share would change nothing.

    >>> x = np.tile([-1.0, 1.0], 300)[:, None]
    >>> arm = np.repeat([0, 1], 300)
    >>> z = np.random.default_rng(1).permutation(np.tile([-0.1, 0.1], 300))
    >>> shuffled = np.random.default_rng(2).permutation(600)
    >>> found = variance_ratio(x[shuffled], arm[shuffled], (x[:, 0] * arm + z)[shuffled], 2)
    >>> 90 < found.ratio < 110, found.low > 80
    (True, True)
    """
    check_choice("pair", pair, ("rival", "best"))
    check_choice("joins", joins, ("product", "sum"))
    check_number("level", level, 0.5, 1.0 - 1e-12)
    counts: dict[str, tuple[Any, int]] = {
        "draws": (draws, 2),
        "splits": (splits, 1),
        "most": (most, 24),
    }
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidInput(f"{name}: expected a whole number >= {least}, got {value!r}")
    rng = np.random.default_rng(check_seed(seed))
    surface = surface or Surface()
    history = checked(x, action, reward, arms, block, delta)
    some, arm_of, n_columns = _bounded(surface, history, most)
    sums = block_sums(surface, some, joins)
    n_blocks = sums.count.size
    if n_blocks < 4 * FOLDS:
        raise InvalidInput(
            f"block: expected at least {4 * FOLDS} blocks, for {FOLDS} folds; got {n_blocks}"
        )
    folds = np.argsort(rng.random((splits, n_blocks)), axis=1) % FOLDS
    weights = rng.multinomial(n_blocks, np.full(n_blocks, 1.0 / n_blocks), size=draws)
    weights = np.concatenate((np.ones((1, n_blocks)), weights))
    d = sums.moment.shape[1]
    step = max(1, _MOST // (splits * FOLDS * d * d))
    parts = [
        _ratios(sums, weights[at : at + step], folds, pair) for at in range(0, draws + 1, step)
    ]
    found = np.concatenate([part[0] for part in parts])
    (low, paper_low, _), (high, paper_high, _) = np.quantile(
        found[1:], [(1.0 - level) / 2, (1.0 + level) / 2], axis=0
    ).tolist()
    ratio, paper, noise = found[0].tolist()
    best, rival = (int(arm_of[place]) for place in parts[0][1])
    return VarianceRatio(
        ratio,
        low,
        high,
        paper,
        paper_low,
        paper_high,
        noise,
        best,
        rival,
        float(level),
        int(sums.count.sum()),
        n_blocks,
        delta is not None,
        arm_of.size,
        n_columns,
        history.n_arms,
        history.x.shape[1],
    )


def _bounded(surface: Surface, history: Table, most: int) -> tuple[Table, Array, int]:
    """Return what is asked: the rows, the arms in it (K′,), and how many columns it reads.

    All of it where m has at most so many coefficients. Else every third block chooses: of
    categories the arms with the highest upper limits of their means, then the columns that move
    rewards most within these arms. The rows of the other blocks answer, so that the choice does
    not flatter the answer.
    """
    everyone, columns = np.arange(history.n_arms), np.arange(history.x.shape[1])
    if surface.width(columns.size) * surface.n_actions(history.arms) <= most:
        return history, everyone, columns.size
    chooses, kept = history.block % _CHOOSERS == 0, everyone
    answers, asked = ~chooses, chooses
    if history.is_category:
        kept = _promising(history, chooses)
        on = np.isin(history.action, kept)
        answers, asked = answers & on, asked & on
    n_actions = surface.n_actions(kept.size if history.is_category else history.arms)
    room = [c for c in range(1, columns.size + 1) if surface.width(c) * n_actions <= most]
    best_first = np.argsort(-_moved(history, asked), kind="stable")
    columns = np.sort(best_first[: max(room, default=1)])
    return history.take(np.flatnonzero(answers), columns, kept), kept, columns.size


def _promising(history: Table, rows: Array) -> Array:
    """Return the arms (at most eight) whose mean reward may be the highest in these rows."""
    action, reward = history.action[rows], history.reward[rows]
    count = np.bincount(action, minlength=history.n_arms)
    n = np.maximum(count, 1)
    mean = np.bincount(action, reward, history.n_arms) / n
    limit = mean + reward.std() / np.sqrt(n)
    # The rows that answer are twice as many: an arm must have enough of them to be compared.
    ranked = np.argsort(-np.where(2 * count >= LEAST_ROWS, limit, -np.inf), kind="stable")
    return np.sort(ranked[:_MOST_ARMS])


def _moved(history: Table, rows: Array) -> Array:
    """Return how much each column moves rewards within arms: Σ n·r² over the arms, (p,)."""
    x, reward, action = history.x[rows], history.reward[rows], history.action[rows]
    arm = action if history.is_category else np.zeros(action.size, dtype=np.int64)
    total = np.zeros(x.shape[1])
    for one in np.unique(arm):
        mine, y = x[arm == one], reward[arm == one]
        centred, y = mine - mine.mean(axis=0), y - y.mean()
        size = np.sqrt((centred**2).sum(axis=0) * (y @ y))
        total += y.size * ((centred.T @ y) / np.where(size > 0, size, np.inf)) ** 2
    return total


def _ratios(
    sums: BlockSums, weights: Array, folds: Array, pair: str
) -> tuple[Array, tuple[int, int]]:
    """Return ratio, the paper's ratio and σ̂² under each row of block weights, and the arms.

    Parameters
    ----------
    weights : (W, B) how often each block counts
    folds : (S, B) the fold of every block, in S splits
    """
    n_draws, n_splits, d = weights.shape[0], folds.shape[0], sums.moment.shape[1]
    rows = weights @ sums.count
    mean, spread = sums.spread(weights, "context")
    papers = sums.spread(weights, "paper")[1]
    is_in = folds[:, None] == np.arange(FOLDS)[:, None]  # (S, F, B)
    # One tall product of matrices is several times as quick as many small ones.
    inside = (weights[:, None, None] * is_in).reshape(-1, weights.shape[1])
    of_each = (n_draws, n_splits, FOLDS)
    gram = (inside @ sums.gram.reshape(-1, d * d)).reshape(*of_each, d, d)
    moment = (inside @ sums.moment).reshape(*of_each, d)
    square = (inside @ sums.square).reshape(of_each)
    theta = sums.solve(gram, moment)  # (W, S, F, d)
    rest = sums.solve(gram.sum(2, keepdims=True) - gram, moment.sum(2, keepdims=True) - moment)
    missed = square - 2.0 * (rest * moment).sum(-1)
    missed += ((rest[..., None, :] @ gram)[..., 0, :] * rest).sum(-1)
    size = (weights @ sums.square / rows)[:, None]
    noise = np.maximum(missed.sum(axis=2) / rows[:, None], 1e-12 * size + 1e-300)  # (W, S)
    surfaces = theta.reshape(n_draws, n_splits, FOLDS, -1, sums.arms.shape[1])
    by_arm = surfaces @ sums.arms.T  # (W, S, F, P, K)
    best, rival = _choose(by_arm, mean, spread, pair)
    total, alone = np.zeros((n_draws, n_splits)), np.zeros((n_draws, n_splits))
    for chooser, one, other in _TURNS:
        a, b = best[:, :, chooser, None, None, None], rival[:, :, chooser, None, None, None]
        two = by_arm[:, :, [one, other]]
        gap = (np.take_along_axis(two, a, -1) - np.take_along_axis(two, b, -1))[..., 0]
        total += ((gap[:, :, 0, None] @ spread[:, None])[:, :, 0] * gap[:, :, 1]).sum(-1)
        first, second = theta[:, :, one], theta[:, :, other]
        alone += ((first[:, :, None] @ papers[:, None])[:, :, 0] * second).sum(-1)
    columns = [(value / FOLDS / noise).mean(axis=1) for value in (total, alone)]
    chosen = np.stack((best[0].ravel(), rival[0].ravel()), axis=1)
    kinds, often = np.unique(chosen, axis=0, return_counts=True)
    a, b = sums.kept[kinds[often.argmax()]]
    return np.stack((*columns, noise.mean(axis=1)), axis=1), (int(a), int(b))


def _choose(by_arm: Array, mean: Array, spread: Array, pair: str) -> tuple[Array, Array]:
    """Return the arm with the best mean, and the second arm of the pair: (W, S, F) each."""
    from scipy.special import ndtr

    worth = (mean[:, None, None, None] @ by_arm)[..., 0, :]  # (W, S, F, K)
    best = worth.argmax(axis=-1)[..., None]
    ahead = worth - np.take_along_axis(worth, best, -1)
    score = ahead
    if pair == "rival":
        gap = by_arm - np.take_along_axis(by_arm, best[..., None, :], -1)
        variance = ((spread[:, None, None] @ gap) * gap).sum(axis=-2)
        sd = np.sqrt(np.maximum(variance, 1e-300))
        z = np.maximum(ahead / sd, -40.0)  # further down nothing is left of the gain
        gain = sd * z * ndtr(z) + sd * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        np.put_along_axis(gain, best, 0.0, -1)
        # Where no arm is ever ahead, the second best is as near as one comes.
        score = np.where((gain > 0).any(axis=-1, keepdims=True), gain, ahead)
    score = score.copy()
    np.put_along_axis(score, best, -np.inf, -1)
    return best[..., 0], score.argmax(axis=-1)
