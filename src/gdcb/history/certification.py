"""Certify a log: fix the plan on a pilot, sum everything up, judge, and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gdcb.bandits import Bandit
from gdcb.engine import Engine
from gdcb.errors import InvalidInput
from gdcb.history import sentences as say
from gdcb.history.batch import Batch
from gdcb.history.certificate import VERDICTS, Certificate
from gdcb.history.figures import figures
from gdcb.history.maturity import maturity_of
from gdcb.history.plan import Plan, has_dates, plan_of
from gdcb.history.statistics import Statistics
from gdcb.history.verdict import judge
from gdcb.instance import Instance
from gdcb.parts import check_number, check_text

MOST = 200_000  # rows of the pilot
LEVEL, MARGIN = 0.05, 0.1
LEAST_LEVEL = 0.001  # p-values that are resampled would take too long below it
_PLACES = 16  # of a log in many parts from which the pilot is taken

Progress = Callable[[int, int], None]


class Source(Protocol):
    """A log, as `open_log` gives it."""

    @property
    def units(self) -> tuple[str, ...]:
        """Names of its units."""

    def batches(self) -> Iterable[Batch]:
        """Yield its rows, in order; each call reads anew."""

    def parts(self) -> list[Any]:
        """Return pieces that hold the same rows, each with a `tally` once it was read."""

    def settle(self, tallies: list[Any]) -> Any:
        """Take what was found in all parts, in their order; refuse a log that is another one."""


def certify(
    log: Source | Batch,
    instance: Instance,
    bandit: Bandit,
    *,
    level: float = LEVEL,
    margin: float = MARGIN,
    override: str | None = None,
    matures_after: float | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
    full: bool = True,
) -> Certificate:
    """Say whether both loops may start warm from a log, arm by arm, and why.

    Parameters
    ----------
    log : what `open_log` gives, or rows
    instance, bandit : what is to be started warm
    level : one error rate for all tests together, 0.001 to 0.5
    margin : bias that is let pass, in standard deviations of an arm's outcome
    override : a person's reason to use the history although the verdict refuses some of it; it is
        written into the certificate
    matures_after : how long outcomes take to come in, in seconds; younger rows are set aside. None:
        as the log's declaration says, else as the log shows
    progress : hears of finished parts of the log, and of how many there are
    engine : where parts are summed up; None: here
    full : also report what decides nothing (variance ratio, sensitivity, transport), which takes
        most of the time in a short log
    """
    check_number("level", level, LEAST_LEVEL, 0.5)
    check_number("margin", margin, 0.0, open_low=True)
    if override is not None:
        check_text("override", override)
    if instance.reward.target not in ("class", "reward"):
        raise InvalidInput(f"history: cannot certify a reward of target {instance.reward.target}")
    if matures_after is not None:
        check_number("matures_after", matures_after, 0.0, open_low=True)
    instance.check_bandit(bandit)
    if instance.rules.credit != "executed":
        raise InvalidInput(
            "history: rules.credit 'proposed' credits arms that no log names; take 'executed'"
        )
    declared = getattr(log, "matures_after", None) if matures_after is None else matures_after
    plan, statistics = summed(log, instance, bandit, progress, engine, declared, level)
    certificate, found = judge(plan, statistics, level, margin)
    if override is not None:
        certificate = overridden(certificate, override.strip())
    certificate.statistics = statistics
    certificate.figures = figures(certificate, found, statistics, log, full)
    return certificate


def summed(
    log: Source | Batch,
    instance: Instance,
    bandit: Bandit,
    progress: Progress | None = None,
    engine: Engine | None = None,
    matures_after: float | None = None,
    level: float = LEVEL,
) -> tuple[Plan, Statistics]:
    """Fix the plan on a pilot and sum the whole log up, here or on an engine.

    Rows that are too young for their outcomes are set aside before anything is fixed.
    """
    if isinstance(log, Batch):
        units = int(log.unit.max(initial=0)) + 1
        names = instance.reward.outcome
        maturity = maturity_of(log, matures_after, level, has_dates(log.time), names)
        plan = plan_of(instance, bandit, log, units, maturity=maturity)
        statistics = Statistics.zeros(plan)
        statistics.add(plan, log)
        return plan, statistics
    parts, units = log.parts(), max(len(log.units), 1)
    try:
        pilot, is_whole = pilot_of(parts)
    except InvalidInput:
        read = [part.tally for part in parts if part.tally is not None]
        if read:
            log.settle(read)  # it knows why no row is valid
        raise
    if is_whole:
        log.settle([part.tally for part in parts])
    dated, names = has_dates(pilot.time), instance.reward.outcome
    maturity = maturity_of(pilot, matures_after, level, dated, names)
    plan = plan_of(instance, bandit, pilot, units, is_whole, maturity)
    statistics = Statistics.zeros(plan)
    if is_whole:
        statistics.add(plan, plan.read or pilot)
        if progress is not None:
            progress(len(parts), len(parts))
        return plan, statistics
    whole: Any = None
    for done, (some, tally) in enumerate(sums_of_parts(plan, parts, engine), start=1):
        statistics.merge(some)
        if whole is None:
            whole = tally
        else:  # at once: a hundred of them would not fit
            whole.merge(tally)
        if progress is not None:
            progress(done, len(parts))
    log.settle([whole])
    return plan, statistics


@dataclass(frozen=True, slots=True)
class _Task:
    plan: Plan
    part: Any


def _sum_part(task: _Task) -> tuple[Statistics, Any]:
    statistics = Statistics.zeros(task.plan)
    for batch in task.part.batches():
        statistics.add(task.plan, batch)
    return statistics, task.part.tally


def sums_of_parts(
    plan: Plan, parts: list[Any], engine: Engine | None
) -> Iterator[tuple[Statistics, Any]]:
    """Yield the sums of parts in the order of the log, so that they add up to the same bits."""
    if engine is None:
        yield from (_sum_part(_Task(plan, part)) for part in parts)
        return
    light = replace(plan, pilot=plan.pilot.take(slice(0, 1)), read=None)  # workers need no pilot
    waiting: dict[int, tuple[Statistics, Any]] = {}
    due = 0
    with closing(engine.run(_sum_part, (_Task(light, part) for part in parts))) as results:
        for index, result in results:
            waiting[index] = result
            while due in waiting:
                yield waiting.pop(due)
                due += 1


def pilot_of(parts: list[Any], most: int = MOST) -> tuple[Batch, bool]:
    """Return rows spread over a log, and whether they are all of it.

    A log in many parts is read in 16 places; a log in few is read whole and thinned.
    """
    if len(parts) > 2 * _PLACES:
        places = np.unique(np.linspace(0, len(parts) - 1, _PLACES).round().astype(int))
        each = [next(iter(parts[i].batches()), None) for i in places]
        some = [batch for batch in each if batch is not None and batch.n]
        limit = max(1, most // _PLACES)
        some = [batch.take(slice(None, None, -(-batch.n // limit))) for batch in some]
        if not some:
            raise InvalidInput("history: expected at least one valid row, got none")
        return Batch.concatenate(some), False
    kept: list[Batch] = []
    stride, seen, held = 1, 0, 0
    for part in parts:
        for batch in part.batches():
            kept.append(batch.take(slice(-seen % stride, None, stride)))
            seen += batch.n
            held += kept[-1].n
            while held > most:
                stride *= 2
                whole = Batch.concatenate(kept).take(slice(None, None, 2))
                kept, held = [whole], whole.n
    if not seen:
        raise InvalidInput("history: expected at least one valid row, got none")
    return Batch.concatenate(kept), stride == 1


def overridden(certificate: Certificate, reason: str) -> Certificate:
    """Return the certificate with refused arms used all the same, and the reason written into it.

    Arms that were tried at all are used as they are; what was adjusted or weighted stays so.
    """
    without, treatment = certificate.verdict, certificate.treatment
    verdicts = list(treatment.verdicts)
    weight = treatment.weight.copy()
    arms = list(certificate.arms)
    for a, arm in enumerate(arms):
        own = arm.verdict
        if own == "refuse" and arm.rows > 0:
            own, weight[a] = "direct", 1.0
            said = (*arm.reasons, "It is used all the same: a person overrode the certificate.")
            arms[a] = replace(arm, verdict=own, reasons=said, n_eff=arm.rows, weight=1.0)
        verdicts[a] = own
    if tuple(verdicts) == treatment.verdicts:
        raise InvalidInput(
            "override: the certificate refuses no arm that has rows; there is nothing to override"
        )
    used = [verdict for verdict in verdicts if verdict != "refuse"]
    verdict = max(used, key=("direct", "adjust", "reweight").index) if used else "refuse"
    certificate.verdict, certificate.arms = verdict, tuple(arms)
    certificate.treatment = replace(
        treatment, verdicts=tuple(verdicts), weight=weight, shared=max(treatment.shared, 0.0)
    )
    certificate.override = (reason, without)
    judged = {name: verdicts.count(name) for name in VERDICTS}
    said = (say.override_of_verdict(reason, without), say.verdict(verdict), say.arms_judged(judged))
    rest = [
        text for text in certificate.reasons[1:] if not text.startswith(("Of ", "Refused for "))
    ]
    certificate.reasons = (*said, *rest)
    return certificate
