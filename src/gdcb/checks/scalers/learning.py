"""What a scaler promises of learning and publishing."""

from __future__ import annotations

import numpy as np

from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.scalers.case import OWNERS, ScalerCase
from gdcb.errors import InvalidInput


def delta_waits_for_a_publication(case: ScalerCase) -> None:
    """Rows change neither δ nor its version; a publication does, and for its owners only."""
    state = case.state()
    before, zero = case.delta(state), case.scaler.version(state, OWNERS)
    require((zero == 0).all(), f"version before data: expected 0, got {zero}")
    case.scaler.observe(state, *case.lesson(case.n).parts())
    require_same_bytes(case.delta(state), before, "δ after rows and before a publication")
    require((case.scaler.version(state, OWNERS) == 0).all(), "rows changed the version")
    some = np.array([0, 2])
    changed = np.asarray(case.scaler.publish(state, some.copy()))
    require(changed.dtype.kind in "iu", f"publish: expected owners, got {changed!r}")
    require(np.isin(changed, some).all(), f"publish: {changed} were not all asked for")
    after, others = case.delta(state), np.setdiff1d(OWNERS, changed)
    require_same_bytes(after[others], before[others], "δ of owners that were not published")
    if case.learns_from == "nothing":
        require(changed.size == 0, "it learns from nothing, and published something")
        return
    require(changed.size > 0, f"publish: {case.n} rows, and nobody's δ changed")
    moved = np.abs(after[changed] - before[changed]).reshape(changed.size, -1).max(axis=1)
    require((moved > 0).all(), "publish: it named owners whose δ is the same as before")


def a_version_counts_publications(case: ScalerCase) -> None:
    """Versions grow by 1 for every owner whose δ changed, and for no other."""
    state = case.state()
    expected = np.zeros(OWNERS.size, dtype=np.int64)
    for i in range(3):
        case.scaler.observe(state, *case.lesson(case.n, seed=i).parts())
        changed = case.scaler.publish(state, np.array([0, 1 + i]))
        expected[changed] += 1
        found = case.scaler.version(state, OWNERS)
        require_shape(found, (OWNERS.size,), "version")
        require((found == expected).all(), f"version: expected {expected}, got {found}")
    before = bytes_of(state)
    none = case.scaler.publish(state, np.zeros(0, dtype=np.int64))
    require(np.asarray(none).size == 0, "publishing nobody named somebody")
    require(bytes_of(state) == before, "publishing nobody changed the state")


def what_is_due_becomes_due_by_rows(case: ScalerCase) -> None:
    """Nobody is due before data; rows make owners due, and once published they are not."""
    state = case.state()
    require(np.asarray(case.scaler.due(state)).size == 0, "owners were due before any row")
    most = max(500, 5 * OWNERS.size * int(getattr(case.scaler, "every", 100)))
    for i in range(0, most, 100):
        case.scaler.observe(state, *case.lesson(100, seed=i).parts())
        due = np.asarray(case.scaler.due(state))
        if due.size:
            break
    if case.learns_from == "nothing":
        require(due.size == 0, "it learns from nothing, and was due")
        return
    require(due.size > 0, f"nobody was due after {most} rows")
    require(due.dtype.kind in "iu" and np.isin(due, OWNERS).all(), f"due: no owners: {due}")
    case.scaler.publish(state, due)
    left = np.intersect1d(case.scaler.due(state), due)
    require(left.size == 0, "published owners are due still")


def inputs_are_left_alone(case: ScalerCase) -> None:
    """Nothing that it is given is changed, except the state."""
    state, lesson, owners = case.state(), case.lesson(40), OWNERS.copy()
    x = case.ground.contexts(4, seed=5)
    before = bytes_of(lesson), x.tobytes()
    case.scaler.observe(state, *lesson.parts())
    case.scaler.publish(state, owners)
    case.scaler.predict(state, owners, x)
    case.scaler.uncertainty(state, owners, x)
    require(bytes_of(lesson) == before[0], "`observe` changed the rows it was given")
    require(x.tobytes() == before[1], "a context was changed")
    require_same_bytes(owners, OWNERS, "the owners given to `publish`")


def a_missing_label_teaches_nothing(case: ScalerCase) -> None:
    """Rows without a label (NaN) leave the fit as it was."""
    state, other = case.taught(), case.taught()
    lost = case.lesson(24, seed=4)
    lost.label[:] = np.nan
    case.scaler.observe(other, *lost.parts())
    require_close(case.fitted(other), case.fitted(state), "the fit without and with NaN labels")


def a_row_without_weight_teaches_nothing(case: ScalerCase) -> None:
    """Rows of weight 0 leave the fit as it was."""
    state, other = case.taught(), case.taught()
    light = case.lesson(24, seed=4)
    light.weight[:] = 0.0
    case.scaler.observe(other, *light.parts())
    require_close(case.fitted(other), case.fitted(state), "the fit without and with rows of 0")


def a_batch_is_a_loop(case: ScalerCase) -> None:
    """Rows observed at once teach what they teach one by one, to 1e-9."""
    lesson = case.lesson(40, seed=4)
    state, other = case.taught(), case.taught()
    case.scaler.observe(other, *lesson.parts())
    for i in range(40):
        case.scaler.observe(state, *lesson.take(np.array([i])).parts())
    require_close(case.fitted(state), case.fitted(other), "a batch and a loop")


def owners_do_not_see_each_other(case: ScalerCase) -> None:
    """Owners learn the same bits whichever owners learn and publish beside them."""
    lesson = case.lesson(case.n)
    whole, alone = case.taught(), case.state(lesson.take(lesson.owner == 1))
    case.scaler.publish(whole, OWNERS.copy())
    case.scaler.publish(alone, np.array([1]))
    require_same_bytes(case.delta(alone)[1], case.delta(whole)[1], "δ of an owner that was alone")


def it_learns_the_signal(case: ScalerCase) -> None:
    """After 400 rows an owner, δ follows the signal in labels or outcomes.

    The correlation over 200 contexts exceeds ½; labels have a noise of a fifth of the signal.
    """
    if case.learns_from == "nothing":
        return
    state = case.published(1600)
    x = case.ground.contexts(200, seed=6)
    delta = case.scaler.predict(state, np.zeros(200, dtype=np.int64), x).reshape(200, -1)
    signal = case.signal(x)
    for j in range(delta.shape[1]):
        spread = float(delta[:, j].std())
        require(spread > 0, "δ is the same for all contexts after 400 rows")
        together = float(np.corrcoef(delta[:, j], signal)[0, 1])
        require(together > 0.5, f"δ and the signal correlate by {together:.2f} only")


def a_refusal_changes_nothing(case: ScalerCase) -> None:
    """Labels of the wrong shape are refused or ignored, and leave the state's bytes."""
    state, lesson = case.taught(), case.lesson(24, seed=4)
    before = bytes_of(state)
    wrong = np.zeros((24, case.scaler.n_labels + 2))
    try:
        case.scaler.observe(state, *lesson.parts()[:3], wrong, lesson.weight)
    except InvalidInput:
        pass
    except Exception as error:
        require(False, f"expected InvalidInput, got {type(error).__name__}: {error}")
    require(bytes_of(state) == before, "labels of the wrong shape changed the state")
