"""What a scaler promises of learning and publishing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_same_bytes,
    require_shape,
    require_twice,
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


def publishing_names_whose_delta_changed(case: ScalerCase) -> None:
    """Whoever's δ or version a publication changes it names, and it names nobody else.

    Over four publications, rows for some owners between them; without new rows nobody is named.
    """
    state = case.state()
    for i, taught in enumerate(((0, 1, 2, 3), (0, 1), (1, 3), ())):
        lesson = case.lesson(case.n, seed=i)
        case.scaler.observe(state, *lesson.take(np.isin(lesson.owner, taught)).parts())
        delta, version = case.delta(state), case.scaler.version(state, OWNERS)
        named = np.asarray(case.scaler.publish(state, OWNERS.copy()))
        moved = (case.delta(state) != delta).reshape(OWNERS.size, -1).any(axis=1)
        grown = case.scaler.version(state, OWNERS) != version
        for what, found in (("δ", moved), ("version", grown)):
            expected = np.flatnonzero(found)
            text = f"publication {i + 1}: the {what} of {expected} changed, and it named {named}"
            require(np.array_equal(np.sort(named), expected), text)


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


def a_row_of_weight_2_is_two_rows(case: ScalerCase) -> None:
    """Rows of twice the weight fit as the same rows do that each come twice.

    To 1e-9 where evidence is sums ('merge'). A scaler that goes from row to row may approximate:
    its δ, after rows before, misses by at most 0.3 of what the second coming changes.
    """
    if case.learns_from == "nothing":
        return
    lesson, found = case.lesson(case.n, seed=4), []
    for rows in (
        lesson,
        lesson.take(np.repeat(np.arange(case.n), 2)),
        replace(lesson, weight=2.0 * lesson.weight),
    ):
        state = case.taught()
        case.scaler.observe(state, *rows.parts())
        found.append(case.fitted(state))
    require_twice(found, "merge" in case.scaler.supports)


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

    The correlation over 200 contexts exceeds ½; labels have a noise of a fifth of the signal. An
    entry of δ that reads no column is the same for all contexts.
    """
    if case.learns_from == "nothing":
        return
    delta, signal = _learned(case)
    for j in range(delta.shape[1]):
        spread = float(np.ptp(delta[:, j]))
        if case.leading[j] is None:
            require(spread == 0, "an entry of δ that reads no column hangs on the context")
            continue
        require(spread > 0, "δ is the same for all contexts after 400 rows")
        together = float(np.corrcoef(delta[:, j], signal[:, j])[0, 1])
        require(together > 0.5, f"δ and the signal correlate by {together:.2f} only")


def delta_is_as_large_as_the_signal(case: ScalerCase) -> None:
    """After 400 rows an owner, δ moves by what the signal moves: its slope is 1, to 30 %.

    Of log δ where δ is always above 0, for labels and outcomes then speak of log δ; else of δ.
    """
    if case.learns_from == "nothing":
        return
    delta, signal = _learned(case)
    if case.scaler.is_positive:
        require((delta > 0).all(), "δ is not above 0")
        delta = np.log(delta)
    for j in range(delta.shape[1]):
        if case.leading[j] is None:
            continue
        slope = float(np.polyfit(signal[:, j], delta[:, j], 1)[0])
        text = f"δ moves by {slope:.2f} where the signal moves by 1"
        require(0.7 <= slope <= 1.3, text)


def _learned(case: ScalerCase) -> tuple[Array, Array]:
    """Return δ (200, K·q) after 400 rows an owner, and the signal (200, K·q) at its contexts."""
    state, x = case.published(1600), case.ground.contexts(200, seed=6)
    delta = case.scaler.predict(state, np.zeros(200, dtype=np.int64), x).reshape(200, -1)
    return delta, case.signal(x)


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
