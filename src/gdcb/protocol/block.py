"""One task: a method on a block of replicates, round by round, written down as a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gdcb.analysis.regret import regret_splits
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances import Figure, Measure
from gdcb.protocol.bands import FATES, MOST, bands_of, count, fates
from gdcb.protocol.ground import Shared, neutral_of, shared_by
from gdcb.protocol.importance import reweighted
from gdcb.protocol.methods import Setup, build, settings_for
from gdcb.protocol.pooled import pooled_history
from gdcb.protocol.preferences import without_rival
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.task import GROUND, Task
from gdcb.records import Executed, History
from gdcb.round import RoundState, delta_of
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, World, simulate
from gdcb.streams import Streams

ROUNDS = 32  # that are counted at once


def run_task(task: Task) -> Record | Ground:
    """Run one method on one block, or work out what the block's methods share."""
    shared = shared_by(task)
    if task.method == GROUND:
        return shared.ground
    setup = build(shared.study, task.method, settings_for(shared.study))
    return run_setup(setup, shared, task)


def run_setup(setup: Setup, shared: Shared, task: Task) -> Record:
    """Run a method that was put together, on what its block shares."""
    units = shared.study.domain.units
    watch = Watch(setup.instance, shared, task.episodes, task.replicates)
    # Whoever asks draws rivals behind the nights, from the same streams: nights are drawn anew.
    world = setup.world(shared.study.domain.world if setup.asks else shared.plays)
    if setup.asks:
        neutral = neutral_of(shared.instance)
        plain = replace(shared.instance, scaler=neutral, gate=setup.instance.chain)
        watch = Watch(plain, shared, task.episodes, task.replicates)
        seen: Any = without_rival(plain, watch)
    else:
        watch.world = world
        seen = watch
    simulate(
        setup.instance,
        setup.bandit,
        world,
        rounds=task.episodes,
        replicates=task.replicates,
        units=units,
        seed=task.seed,
        watch=seen,
        history=_past(setup, shared, task, world),
        teaches=setup.method.teaches,
        first_block=task.block,
        learns_last=False,  # nobody reads what the last round taught
    )
    key = _judged_as(setup, shared)
    watch.record.certificates = None if key is None else shared.judged[key]
    return watch.record


def _past(setup: Setup, shared: Shared, task: Task, world: World) -> History | None:
    """Return the history as the method sees it: all of them start from the same rows.

    Where a history is certified, learners that the context misleads get its rows as the certificate
    leaves them, and rivals that read the context as they are.
    """
    if not setup.method.is_warm:
        return None
    ask, key = shared.study.certified, _judged_as(setup, shared)
    if ask is not None and key is not None:
        if key not in shared.certified:
            judged = np.full((task.replicates, setup.instance.space.n), -1)
            given = (setup.instance, setup.bandit, shared.world.state, shared.group)
            shared.certified[key] = ask(*given, judged)
            shared.judged[key] = judged
        return shared.certified[key]
    if setup.asks:
        group, streams = shared.group, Streams(task.seed, shared.study.domain.units, task.block)
        return shared.study.past(setup.instance, world, shared.world.state, group, streams)
    history = shared.history
    start = shared.study.starts.get(setup.method.key)
    if start is not None and start.change is not None:
        history = start.change(setup.instance.scaler, history)
    if setup.is_pooled:
        history = pooled_history(history, shared.study.domain.units)
    if setup.method.is_reweighted:
        history = reweighted(setup.instance, history, shared.study)
    if not setup.method.is_gated:  # there is no gate to learn; what ran is known all the same
        trail = history.verdict.trail[:, :1]
        statuses = history.verdict.statuses[:, :0]
        verdict = replace(history.verdict, trail=trail, statuses=statuses)
        log = replace(history.log, is_override=np.zeros_like(history.log.is_override))
        history = replace(history, log=log, verdict=verdict, kernels=None)
    return history


def _judged_as(setup: Setup, shared: Shared) -> tuple[str, bool] | None:
    """Return what a method's certificates are kept under; None: its history is not certified."""
    if not setup.method.is_warm or shared.study.certified is None:
        return None
    if not setup.method.is_ours and setup.bandit.reads:
        return None
    return setup.method.family, setup.method.is_gated


class Watch:
    """Writes a method's rounds down."""

    def __init__(self, instance: Instance, shared: Shared, episodes: int, replicates: int) -> None:
        self.instance, self.shared = instance, shared
        self.world: Any = shared.world
        features, schema = shared.study.features, shared.instance.context
        self.bands = bands_of(schema, features, shared.reference)
        self.is_ordered = not instance.actions[0].levels
        shape = (episodes, replicates)
        self.record = Record(
            parts=np.empty((*shape, 5 if hasattr(shared.study.domain.world, "reference") else 4)),
            parts_paper=np.full((*shape, 3), np.nan),
            reward=np.empty(shape),
            advantage=np.empty(shape),
            overridden=np.empty(shape),
            success=np.empty(shape),
            error=np.full(shape, np.nan),
            recommended=np.zeros((replicates, shared.edges.size - 1)),
            executed=np.zeros((replicates, shared.edges.size - 1)),
            overrides=np.zeros((replicates, len(self.bands.names), MOST, len(FATES) + 1)),
        )
        self.measures = shared.study.read
        self._sums = np.zeros((2, replicates, len(self.measures)))  # values, and how many
        self._versions: Array | None = None
        self._unseen: list[tuple[Array, ...]] = []

    def __call__(self, turn: Turn) -> None:
        """Write one round down."""
        record, t, shared = self.record, turn.t, self.shared
        truth = shared.truth(turn, self.instance, self.world)
        main, paper = regret_splits(self.instance, self.world, turn, truth)
        columns = [main.total, main.calibration, main.bandit, main.gate, turn.reward]
        columns.append(truth.top - main.total - shared.incumbent[t])
        columns += [1.0 - turn.executed.is_own, self._success(turn)]
        if main.inherited is not None:
            columns.append(main.inherited)
        if paper is not None:
            columns += [paper.bandit, paper.calibration, paper.gate]
        shape = (len(columns), record.reward.shape[1], -1)
        means = np.stack(columns).reshape(shape).mean(axis=2)  # over a replicate's units
        record.parts[t, :, :4] = means[:4].T
        record.parts[t, :, 4:] = means[8 : 4 + record.parts.shape[2]].T
        record.reward[t], record.advantage[t], record.overridden[t], record.success[t] = means[4:8]
        if paper is not None:
            record.parts_paper[t] = means[-3:].T
        self._count(turn)
        self._measure(turn)
        record.error[t] = self._error(turn) if t == 0 else self._error_or(turn, record.error[t - 1])

    def _measure(self, turn: Turn) -> None:
        """Add up what people of the field read, where it applies; the last round has the means."""
        shared, (_, replicates) = self.shared, self.record.reward.shape
        is_met, action = shared.study.domain.is_endogenous, turn.executed.action
        rows = turn.rows if is_met else shared.world.nights[turn.t]
        for i, measure in enumerate(self.measures):
            if isinstance(measure, Measure):
                value = measure.of(shared.world.state, action, rows)
            else:
                value = measure.of(self.instance, turn)
            value = value.reshape(replicates, -1)
            applies = np.isfinite(value)
            self._sums[0, :, i] += np.where(applies, value, 0.0).sum(axis=1)
            self._sums[1, :, i] += applies.sum(axis=1)
        if self.measures and turn.t + 1 == self.record.reward.shape[0]:
            total, count = self._sums
            found = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
            is_root = np.array([isinstance(m, Figure) and m.is_root for m in self.measures])
            self.record.measures = np.where(is_root, np.sqrt(np.maximum(found, 0.0)), found)

    def _success(self, turn: Turn) -> Array:
        """Return whether the class that pays came (N,); NaN where outcomes are no classes."""
        is_class = self.shared.instance.reward.target == "class"
        return turn.outcome[:, 0] if is_class else np.full(turn.rows.n, np.nan)

    def _count(self, turn: Turn) -> None:
        """Count actions and what became of proposals, many rounds at a time: that is quicker."""
        record, ran = self.record, turn.executed
        self._unseen.append(
            (
                turn.rows.group,
                turn.rows.x,
                turn.decision.action,
                ran.action,
                ran.is_null,
                ran.is_own,
            )
        )
        if len(self._unseen) < ROUNDS and turn.t + 1 < record.reward.shape[0]:
            return
        columns = [np.concatenate(column) for column in zip(*self._unseen, strict=True)]
        self._unseen.clear()
        group, x, proposed, action, is_null, is_own = columns
        fate, log = fates(proposed, Executed(action, is_null, is_own, ~is_own), self.is_ordered)
        assert record.overrides is not None
        count(record.overrides, group, self.bands.of(x), fate, log)
        instance, edges = self.shared.instance, self.shared.edges
        n = edges.size - 1
        plain = x[:, : instance.context.width]
        for counts, actions in ((record.recommended, proposed), (record.executed, action)):
            relative = instance.composition.relative(actions, plain)[:, 0]
            runs = np.isfinite(relative)
            bins = np.clip(np.searchsorted(edges, relative[runs], side="right") - 1, 0, n - 1)
            place = group[runs] * n + bins
            counts += np.bincount(place, minlength=counts.size).reshape(counts.shape)

    def _error_or(self, turn: Turn, before: Array) -> Array:
        """Return the error anew where a scaler was published, else what it was."""
        if self._versions is None or turn.state is None:
            return before
        version = self.instance.scaler.version(turn.state.scaler, np.arange(before.size))
        changed = np.flatnonzero(version != self._versions)
        if changed.size == 0:
            return before
        self._versions[changed] = version[changed]
        error = before.copy()
        error[changed] = self._error_of(turn.state, changed)
        return error

    def _error(self, turn: Turn) -> Array:
        """Return ‖δ̂ − δ°‖ over the reference contexts, a replicate: NaN without a scaler."""
        scaler, replicates = self.instance.scaler, self.shared.delta.shape[0]
        if isinstance(scaler, ConstantScaler) or scaler.per != "group" or turn.state is None:
            return np.full(replicates, np.nan)
        group = np.arange(replicates)
        self._versions = scaler.version(turn.state.scaler, group).copy()
        return self._error_of(turn.state, group)

    def _error_of(self, state: RoundState, group: Array) -> Array:
        """Return the error of some replicates' δ̂ in force."""
        scaler: Any = self.instance.scaler
        x, truth = self.shared.reference, self.shared.delta[group]
        shape = (*truth.shape[:2], -1)
        if hasattr(scaler, "predict_each") and not state.limits.is_set.any():
            delta = scaler.predict_each(state.scaler, group, x)
        else:
            owner, rows = np.repeat(group, x.shape[0]), np.tile(x, (group.size, 1))
            delta = delta_of(self.instance, state, owner, rows)
        if truth.ndim < 4:  # one column of δ is compared
            delta = delta[..., 0]
        gap = (delta.reshape(shape) - truth.reshape(shape)) ** 2
        return np.asarray(np.sqrt(gap.mean(axis=(1, 2))))
