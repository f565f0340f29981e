"""Between rounds: put a refitted scaler in force, rebuild what the arms learned, start warm."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb import contrast, credit
from gdcb import round as turn
from gdcb.arrays import Array, distinct, is_all
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import History, Log, copy, replace_rows

TEACHES = ("scaler", "arms")
_AT_ONCE = 2**16  # rows that are rebuilt together


def publish(
    instance: Instance, state: turn.RoundState, owners: Array, group: Array, log: Log | None = None
) -> Array:
    """Put refitted scalers in force; return the groups whose δ changed: refold them.

    Where a warm start limited δ to what ran, the limits of these owners now follow what has run
    since.

    With the finished rows, a scaler of outcomes is fitted afresh on what is trusted of them now.
    """
    if log is not None and "refit" in instance.scaler.supports:
        trusted = contrast.trust(instance, state.contrast, log)
        credit.refit_scaler(instance, state.scaler, owners, log, trusted)
    changed = instance.scaler.publish(state.scaler, owners)
    state.limits.widen(changed)
    return np.unique(group[changed] if instance.scaler.per == "unit" else changed)


def refold(
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    log: Log,
    group: Array,
    groups: Array,
) -> None:
    """Rebuild the arm statistics of `groups` from executed actions under the δ in force.

    Groups know nothing of each other, and go some at a time: their rows then stay in a cache.
    """
    is_asked = np.isin(np.arange(int(group.max()) + 1), groups)
    n_rows = int(np.count_nonzero(is_asked[log.group]))
    for some in np.array_split(groups, max(1, min(groups.size, n_rows // _AT_ONCE))):
        _refold(instance, bandit, state, log, group, some)


def _refold(
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    log: Log,
    group: Array,
    groups: Array,
) -> None:
    fresh, bands = turn.init(instance, bandit, group).bandit, instance.cells.n
    can_refit = "refit" in bandit.supports
    is_asked = np.isin(np.arange(int(group.max()) + 1), groups)
    of_them = is_asked[log.group]
    some = log if is_all(of_them) else log.take(np.flatnonzero(of_them))
    state.contrast.sums[is_asked[state.contrast.group]] = 0.0
    state.contrast.totals[groups] = 0.0
    if some.unit.size:
        delta, in_force = _scale(instance, state, some)
        seen, located = credit.evidence(instance, some, delta, in_force)
        # A refit starts from what was known: it is near, and of cells with rows nothing stays.
        if can_refit:
            known = distinct(seen.cell)
            pools = distinct(group[known // bands] * bands + known % bands)
            replace_rows(fresh, state.bandit, {"cell": known, "pool": pools})
        adjusted = credit.adjust(instance, state.adjustment, some, seen, is_batch=True)
        # A learner that believes all rows says what they explain; the rest is compared.
        first = fresh
        if contrast.needs_means(instance, bandit):
            if not can_refit:  # else the second fit replaces the first
                first = turn.init(instance, bandit, group).bandit
            credit.teach(bandit, first, adjusted, roughly=True)
        looked = contrast.look(instance, bandit, first, some, adjusted, located)
        contrast.learn(state.contrast, looked)
        trusted = contrast.weigh(instance, state.contrast, some, seen)
        adjusted = credit.adjust(instance, state.adjustment, some, trusted, is_batch=True)
        credit.refit_model(instance, state.adjustment, groups, some, trusted)
        credit.teach(bandit, fresh, adjusted)
    units = np.flatnonzero(is_asked[group])
    cells = (units[:, None] * bands + np.arange(bands)).ravel()
    pools = (groups[:, None] * bands + np.arange(bands)).ravel()
    replace_rows(state.bandit, fresh, {"cell": cells, "pool": pools})


def _scale(instance: Instance, state: turn.RoundState, log: Log) -> tuple[Array, Array]:
    """Evaluate the δ in force at finished rows, as `turn.scale`; of what ran alone where it can be.

    Categories say by themselves which arm ran. Where a scaler has a δ of every arm and nobody
    compares arms, that arm's is all that is read: (N, 1, q).
    """
    scaler: Any = instance.scaler
    is_plain = is_all(instance.space.is_exact) and not instance.chain.has_person
    is_plain &= not state.limits.is_set.any()
    if not hasattr(scaler, "predict_at") or not is_plain or instance.rules.credit != "executed":
        return turn.scale(instance, state, log)
    nothing = np.zeros((log.unit.size, 1, 1))
    ran = instance.composition.locate(instance.space, log.action[:, None], nothing, log.x)
    owner = log.unit if scaler.per == "unit" else log.group
    delta = scaler.predict_at(state.scaler, owner, log.x, np.maximum(ran.arm[:, 0], 0))
    return delta[:, None], scaler.version(state.scaler, owner)


def warm_up(
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    history: History,
    group: Array,
    teaches: tuple[str, ...] = TEACHES,
) -> None:
    """Start both loops from finished rows of another policy behind the same gates.

    The gates' kernels learn its verdicts; the scaler is fitted on its outcomes or labels and
    published where it may be; arms are then credited with what ran under that δ. `teaches` leaves
    out one of the two loops.
    """
    check_teaches(teaches)
    _check_history(instance, history, group)
    if instance.rules.select == "gate":
        if history.kernels is None:
            instance.chain.learn(state.kernels, history.rows, history.verdict)
        else:
            if len(history.kernels) != len(state.kernels):
                raise InvalidInput(
                    f"history: expected the kernels of {len(state.kernels)} gates, "
                    f"got {len(history.kernels)}"
                )
            state.kernels = copy(history.kernels)
    if "scaler" in teaches:
        if history.limits is not None:
            state.limits = copy(history.limits)
        _teach_scaler(instance, state, history, group)
    if "arms" in teaches:
        refold(instance, bandit, state, history.log, group, distinct(history.log.group))


def _teach_scaler(
    instance: Instance, state: turn.RoundState, history: History, group: Array
) -> None:
    """Fit the scaler on the history's labels or outcomes, whichever it learns from."""
    scaler, log = instance.scaler, history.of("scaler")
    if scaler.learns_from == "label" and history.label is not None:
        seen = np.flatnonzero(np.isfinite(history.label).any(axis=1))
        log = log.take(seen)
        credit.learn_labels(instance, state.scaler, log, history.label[seen])
    elif "refit" in scaler.supports:
        credit.watch_scaler(instance, state.scaler, log)
    else:
        return
    owners = distinct(log.unit if scaler.per == "unit" else log.group)
    publish(instance, state, owners, group, log)


def learns_before(instance: Instance, history: History) -> bool:
    """Whether the scaler learns anything from this history."""
    scaler = instance.scaler
    is_labelled = scaler.learns_from == "label" and history.label is not None
    return is_labelled or "refit" in scaler.supports


def check_teaches(teaches: tuple[str, ...]) -> None:
    """Refuse what is not a tuple of loops."""
    given: object = teaches
    if not isinstance(given, tuple) or not set(given) <= set(TEACHES):
        raise InvalidInput(f"teaches: expected some of {', '.join(TEACHES)}, got {teaches!r}")


def _check_history(instance: Instance, history: History, group: Array) -> None:
    """Refuse rows that cannot be, or that are of units that are not there."""
    log, rows = history.log, history.rows
    instance.check_rows(rows, group.size)
    credit.check_log(instance, log)
    seen = history.of("scaler")  # what was adjusted may lie beyond 0 and 1
    if seen is not log:
        credit.check_log(instance, seen)
        if not (np.array_equal(seen.unit, log.unit) and np.array_equal(seen.group, log.group)):
            raise InvalidInput("history: expected the same units and groups in log and plain")
    if history.label is not None and instance.scaler.n_labels:
        credit.check_label(history.label, log.unit.size, instance.scaler.n_labels)
    if instance.reward.target == "class" and not ((seen.y >= 0.0) & (seen.y <= 1.0)).all():
        raise InvalidInput(f"history: expected outcomes in [0, 1], got {seen.y}")
    sizes = (log.unit.size, history.verdict.status.size)
    if sizes != (rows.n, rows.n):
        raise InvalidInput(f"history: expected {rows.n} rows in log and verdict, got {sizes}")
    if not np.array_equal(log.unit, rows.unit) or not np.array_equal(log.group, rows.group):
        raise InvalidInput("history: expected the same units and groups in log and rows")
    if not np.array_equal(group[rows.unit], rows.group):
        raise InvalidInput("history: expected every unit in the group that it has here")


def discount(
    instance: Instance, bandit: Bandit, state: turn.RoundState, factor: float, group: Array
) -> None:
    """Let all that outcomes taught count for `factor`, in place; priors and gates stay.

    Both loops, the contrast of approved and overridden rows, the null action and the outcome model.
    What is in force (δ, the outcome model) stays in force until its next publication.
    """
    scaler: Any = instance.scaler
    learns = scaler.learns_from != "nothing"
    for what, part in (("bandit", bandit), ("scaler", scaler))[: 2 if learns else 1]:
        if "decay" not in part.supports:
            raise InvalidInput(f"{what}: {type(part).__name__} cannot discount what it learned")
    learner: Any = bandit
    learner.decay(state.bandit, factor, np.arange(group.size * instance.cells.n))
    if learns:
        owners = group.size if scaler.per == "unit" else int(group.max()) + 1
        scaler.decay(state.scaler, factor, np.arange(owners))
    known = state.contrast
    state.contrast = contrast.ContrastState.zeros(known.group, known.sums.shape[1])
    cell, arm, kind = (axis.ravel() for axis in np.indices(known.sums.shape[:3]))
    state.contrast.add(cell, arm, kind, factor * known.sums.reshape(-1, 3))
    state.null.count *= factor
    state.null.excess *= factor
    if state.adjustment is not None:
        sums = state.adjustment.sums
        sums.scale(np.arange(sums.count.shape[0]), factor)
