"""A replicate's history as its own certificate leaves it: what context-free learners start from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.delta_limits import DeltaLimits
from gdcb.history import certify
from gdcb.history.batch import Batch
from gdcb.history.model_world import Drawn, ModelWorld
from gdcb.history.warm import for_scaler, treated
from gdcb.instance import Instance
from gdcb.records import History, Log, Rows, Verdict


def can_certify(instance: Instance) -> bool:
    """Whether a certificate can say what a history is worth to this instance."""
    return instance.reward.target in ("class", "reward") and instance.rules.credit == "executed"


def certified_past(
    world: ModelWorld,
    instance: Instance,
    bandit: Bandit,
    state: Drawn,
    group: Array,
    judged: Array | None = None,
) -> History | None:
    """Return the replicates' histories, each treated as the certificate of its own rows says.

    Outcomes are adjusted and rows weighed or left out for the arms; the scaler learns them as they
    came; the gates learn what came after their last change. A replicate whose history is refused
    has no row, and starts cold. None: all of them do. `judged` (replicates, arms), where given, is
    filled with what became of each arm (`Certificate.fates`).
    """
    logs, plain, seen, verdicts = [], [], [], []
    labels: list[Array] = []
    scaler = instance.scaler
    n_owners = group.size if scaler.per == "unit" else len(state.replicates)
    limits = DeltaLimits.none(n_owners, scaler.n_arms, scaler.n_columns)
    chain = instance.chain
    kernels = chain.init_kernels(group.size, len(state.replicates), len(instance.actions))
    first = 0
    for r, one in enumerate(state.replicates):
        at, first = first, first + one.units.size
        if one.kept.size == 0:
            continue
        batch = replace(world.batch.take(one.kept), unit=world.place(one))
        certificate = certify(batch, instance, bandit, full=False)
        if judged is not None:
            judged[r] = certificate.fates
        if certificate.is_refused:
            continue
        history = treated(certificate, batch, group, at)
        if batch.recommended is not None:
            segment = certificate.plan.segment(batch.time)
            since = np.flatnonzero(segment >= certificate.gate_first)
            chain.learn(kernels, history.rows.take(since), history.verdict.take(since))
        owner = history.log.unit if scaler.per == "unit" else history.log.group
        limits.set(np.unique(owner), certificate.plan.limits)
        logs.append(history.log)
        plain.append(_seen(for_scaler(certificate, batch, history.log), batch))
        seen.append(history.rows)
        verdicts.append(history.verdict)
        if history.label is not None:
            labels.append(history.label)
    if not logs:
        return None
    return History(
        Log.concatenate(logs),
        Rows.concatenate(seen),
        Verdict.concatenate(verdicts),
        kernels,
        Log.concatenate(plain),
        np.concatenate(labels) if labels else None,
        limits,
    )


def _seen(log: Log, batch: Batch) -> Log:
    """Return rows of which those without an outcome, where nothing ran, say nothing."""
    is_known = np.isfinite(log.y) & np.isfinite(batch.outcome[:, 0])
    return replace(log, y=np.where(is_known, log.y, 0.0), weight=np.where(is_known, log.weight, 0))
