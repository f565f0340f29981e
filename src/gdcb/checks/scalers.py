"""What every scaler promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_described,
    require_finite,
    require_frozen,
    require_refusal,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.ground import Ground
from gdcb.errors import InvalidInput
from gdcb.records import copy, from_bytes, grow, to_bytes

OWNERS = np.arange(4)


@dataclass(slots=True)
class Lesson:
    """Rows for `observe`, in its order."""

    owner: Array
    x: Array
    action: Array
    label: Array
    weight: Array

    def take(self, index: Array) -> Lesson:
        """Return some rows."""
        columns = (self.owner, self.x, self.action, self.label, self.weight)
        return Lesson(*(column[index] for column in columns))

    def parts(self) -> tuple[Array, ...]:
        """Return what `observe` is given behind the state."""
        return self.owner, self.x, self.action, self.label, self.weight


@dataclass(frozen=True, eq=False)
class ScalerCase:
    """A scaler, and the contexts it is tried on."""

    scaler: Any
    ground: Ground

    @property
    def learns_from(self) -> str:
        """What its rows bring."""
        return str(getattr(self.scaler, "learns_from", ""))

    @property
    def n(self) -> int:
        """Rows that make a fit: an outcome says less of δ than a label does."""
        return 600 if self.learns_from == "outcome" else 60

    def signal(self, x: Array) -> Array:
        """Return the truth behind the labels (N,): it rises with the first column in use."""
        features = getattr(self.scaler, "features", ()) or (0,)
        first = features[0] if isinstance(features[0], int) else 0
        column = x[:, first]
        middle, size = column.mean(), column.std() or 1.0
        return np.asarray(0.5 * (column - middle) / size)

    def lesson(self, n: int, seed: int = 3) -> Lesson:
        """Return n rows over all owners, whose labels or outcomes follow the signal."""
        rng = np.random.default_rng(seed)
        x = self.ground.contexts(n, seed)
        signal = self.signal(x)
        action = np.exp(0.5 * rng.normal(size=(n, 1)))
        if self.learns_from == "outcome":
            chance = 1.0 / (1.0 + np.exp(-6.0 + 6.0 * action[:, 0] / np.exp(signal)))
            label = (rng.random((n, 1)) < chance[:, None]).astype(float)
        else:
            noise = 0.1 * rng.normal(size=(n, self.scaler.n_labels))
            label = signal[:, None] + noise
        return Lesson(np.arange(n) % OWNERS.size, x, action, label, 0.5 + rng.random(n))

    def state(self, lesson: Lesson | None = None, n_owners: int = OWNERS.size) -> Any:
        """Return the state before any data, or after some rows."""
        state = self.scaler.init(n_owners)
        if lesson is not None:
            self.scaler.observe(state, *lesson.parts())
        return state

    def taught(self) -> Any:
        """Return a state that saw `n` rows."""
        return copy(self._taught)

    @cached_property
    def _taught(self) -> Any:
        return self.state(self.lesson(self.n))

    def delta(self, state: Any, owner: Array = OWNERS) -> Array:
        """Return the δ in force of each owner at the same three contexts: (owners, 3, K, q)."""
        x = self.ground.contexts(3, seed=5)
        many = np.tile(x, (owner.size, 1))
        delta = self.scaler.predict(state, np.repeat(owner, 3), many)
        return np.asarray(delta.reshape(owner.size, 3, *delta.shape[1:]))

    def fitted(self, state: Any) -> Array:
        """Return δ after publishing a copy of a state to all owners."""
        after = copy(state)
        self.scaler.publish(after, OWNERS.copy())
        return self.delta(after)

    def published(self, n: int = 0) -> Any:
        """Return a state that was taught and published."""
        state = self.state(self.lesson(n)) if n else self.taught()
        self.scaler.publish(state, OWNERS.copy())
        return state


def case_of(scaler: Any, ground: Ground) -> ScalerCase:
    """Return the scaler on its ground."""
    return ScalerCase(scaler, ground)


# What it is


def settings_are_frozen(case: ScalerCase) -> None:
    """Its settings cannot be set, and are plain data."""
    require_frozen(case.scaler)
    require_described(case.scaler)


def declares_what_it_is(case: ScalerCase) -> None:
    """Its owners, the axes of δ, its sign, what it learns from and what it supports are declared.

    Labels are one an arm and column of δ, or none where it learns from outcomes or nothing.
    """
    scaler = case.scaler
    require(scaler.per in ("unit", "group"), f"per: got {scaler.per!r}")
    for name in ("n_arms", "n_columns"):
        value = getattr(scaler, name)
        require(isinstance(value, int) and value >= 1, f"{name}: got {value!r}")
    require(isinstance(scaler.is_positive, bool), f"is_positive: got {scaler.is_positive!r}")
    from_what = case.learns_from
    require(from_what in ("label", "outcome", "nothing"), f"learns_from: got {from_what!r}")
    expected = scaler.n_arms * scaler.n_columns if from_what == "label" else 0
    require(scaler.n_labels == expected, f"n_labels: expected {expected}, got {scaler.n_labels}")
    supports = getattr(scaler, "supports", None)
    require(isinstance(supports, frozenset), f"supports: expected a frozenset, got {supports!r}")
    for name in supports or ():
        require(callable(getattr(scaler, name, None)), f"supports '{name}', and lacks it")


# δ


def delta_has_its_shape(case: ScalerCase) -> None:
    """Before and after data δ is finite, (N, n_arms, n_columns), above 0 where it says so."""
    scaler = case.scaler
    x, owner = case.ground.contexts(5, seed=5), np.array([0, 3, 1, 2, 0])
    for name, state in (("before data", case.state()), ("after", case.published())):
        delta = scaler.predict(state, owner, x)
        require_shape(delta, (5, scaler.n_arms, scaler.n_columns), f"δ {name}")
        require_finite(delta, f"δ {name}")
        require(not scaler.is_positive or (delta > 0).all(), f"δ {name} is not above 0")


def delta_is_neutral_before_data(case: ScalerCase) -> None:
    """Before data δ is the same for every context and owner, and where it learns, 1 or 0."""
    delta = case.delta(case.state())
    require_close(delta, np.full(delta.shape, delta.flat[0]), "δ of all contexts before data")
    is_neutral = delta.flat[0] in (0.0, 1.0) or case.learns_from == "nothing"
    require(is_neutral, f"δ before data: expected 1 or 0, got {delta.flat[0]}")


def rows_of_delta_stand_alone(case: ScalerCase) -> None:
    """Rows alone have the δ that they had among all rows, to the bit; asking changes nothing."""
    state, owner = case.published(), np.array([0, 3, 1, 2, 0])
    before = bytes_of(state)
    x = case.ground.contexts(5, seed=5)
    whole = case.scaler.predict(state, owner, x)
    for some in (np.array([3]), np.array([4, 1])):
        alone = case.scaler.predict(state, owner[some], x[some])
        require_same_bytes(alone, whole[some], "δ of some rows alone")
    case.scaler.uncertainty(state, owner, x)
    case.scaler.version(state, owner)
    case.scaler.due(state)
    require(bytes_of(state) == before, "asking changed the state")


def uncertainty_is_not_negative(case: ScalerCase) -> None:
    """Its standard error has the shape of δ and is no less than 0, before data and after."""
    scaler, x, owner = case.scaler, case.ground.contexts(5, seed=5), np.array([0, 3, 1, 2, 0])
    for name, state in (("before data", case.state()), ("after", case.published())):
        error = scaler.uncertainty(state, owner, x)
        require_shape(error, (5, scaler.n_arms, scaler.n_columns), f"uncertainty {name}")
        require((error >= 0).all(), f"uncertainty {name}: expected numbers >= 0, got {error.min()}")


def delta_is_centred_where_declared(case: ScalerCase) -> None:
    """Where a `centre` is declared, δ there is neutral whatever was learned."""
    centre = getattr(case.scaler, "centre", None)
    features = getattr(case.scaler, "features", ())
    if centre is None or len(centre) != len(features):
        return
    x = case.ground.contexts(1, seed=5)
    x[0, list(features)] = centre
    found = case.scaler.predict(case.published(), np.zeros(1, dtype=np.int64), x)
    neutral = case.scaler.predict(case.state(), np.zeros(1, dtype=np.int64), x)
    require_close(found, neutral, "δ at the centre")


# Learning and publishing


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


# Its state


def a_state_survives_its_bytes(case: ScalerCase) -> None:
    """Written down and read again, a state predicts and learns the same, to the last bit."""
    state = case.published()
    again = from_bytes(to_bytes(state), case.state())
    for one in (state, again):
        case.scaler.observe(one, *case.lesson(24, seed=4).parts())
    require_same_bytes(case.delta(again), case.delta(state), "δ after reading")
    require_same_bytes(case.fitted(again), case.fitted(state), "the fit after reading")


def a_copy_is_apart(case: ScalerCase) -> None:
    """Teaching a copy of a state does not teach the state."""
    state = case.published()
    before, other = bytes_of(state), copy(state)
    case.scaler.observe(other, *case.lesson(24, seed=4).parts())
    case.scaler.publish(other, OWNERS.copy())
    require(bytes_of(state) == before, "teaching a copy changed the state that it came from")


def a_state_grows(case: ScalerCase) -> None:
    """With room for more owners, the old ones keep what they learned and new ones nothing."""
    state = case.published()
    large = grow(copy(state), case.state(n_owners=6))
    require_same_bytes(case.delta(large), case.delta(state), "δ of old owners")
    fresh = case.delta(case.state(n_owners=6), np.array([4, 5]))
    require_same_bytes(case.delta(large, np.array([4, 5])), fresh, "δ of new owners")


# What it may support


def merging_halves_is_the_whole(case: ScalerCase) -> None:
    """Two halves learned apart and merged fit as the whole, in any order of rows, to 1e-9."""
    lesson = case.lesson(case.n)
    order = np.random.default_rng(5).permutation(case.n)
    one, two = case.state(lesson.take(order[:24])), case.state(lesson.take(order[24:]))
    before = bytes_of(two)
    case.scaler.merge(one, two)
    require(bytes_of(two) == before, "`merge` changed the state that it took from")
    require_close(case.fitted(one), case.fitted(case.taught()), "two halves and the whole")
    expected = case.fitted(one)
    case.scaler.merge(one, case.state())
    require_close(case.fitted(one), expected, "after merging a state without data")


def a_wrong_merge_is_refused(case: ScalerCase) -> None:
    """States of other owners are refused, and nothing is changed."""
    state = case.taught()
    before, other = bytes_of(state), case.state(n_owners=2)
    act = partial(case.scaler.merge, state, other)
    require_refusal(act, InvalidInput, "a state of 2 owners")
    require(bytes_of(state) == before, "a refused merge changed the state")


def decay_goes_from_all_to_nothing(case: ScalerCase) -> None:
    """Decay by 1 keeps the fit, by 0 returns to neutral, ½ twice is ¼; others keep their bits."""
    expected = case.fitted(case.taught())
    states = [case.taught() for _ in range(4)]
    case.scaler.decay(states[0], 1.0, OWNERS)
    require_close(case.fitted(states[0]), expected, "the fit after decay by 1")
    case.scaler.decay(states[1], 0.0, OWNERS)
    neutral = case.delta(case.state())
    require_close(case.fitted(states[1]), neutral, "the fit after decay by 0")
    case.scaler.decay(states[2], 0.5, OWNERS)
    case.scaler.decay(states[2], 0.5, OWNERS)
    case.scaler.decay(states[3], 0.25, OWNERS[:2])
    found = case.fitted(states[3])
    require_close(found[:2], case.fitted(states[2])[:2], "decay by ½ twice and by ¼ once")
    require_same_bytes(found[2:], expected[2:], "owners that were not decayed")


def a_wrong_decay_is_refused(case: ScalerCase) -> None:
    """Factors outside [0, 1] are refused, and nothing is changed."""
    state = case.taught()
    before = bytes_of(state)
    for factor in (-0.1, 1.1, np.nan):
        act = partial(case.scaler.decay, state, factor, OWNERS)
        require_refusal(act, InvalidInput, f"a factor of {factor}")
        require(bytes_of(state) == before, f"the refused factor {factor} changed the state")


CHECKS = (
    settings_are_frozen,
    declares_what_it_is,
    delta_has_its_shape,
    delta_is_neutral_before_data,
    rows_of_delta_stand_alone,
    uncertainty_is_not_negative,
    delta_is_centred_where_declared,
    delta_waits_for_a_publication,
    a_version_counts_publications,
    what_is_due_becomes_due_by_rows,
    inputs_are_left_alone,
    a_missing_label_teaches_nothing,
    a_row_without_weight_teaches_nothing,
    a_batch_is_a_loop,
    owners_do_not_see_each_other,
    it_learns_the_signal,
    a_refusal_changes_nothing,
    a_state_survives_its_bytes,
    a_copy_is_apart,
    a_state_grows,
)
# What it promises beyond that, by what it supports.
OPTIONAL = {
    "merge": (merging_halves_is_the_whole, a_wrong_merge_is_refused),
    "decay": (decay_goes_from_all_to_nothing, a_wrong_decay_is_refused),
}


def functions_for(scaler: Any) -> list[Callable[[ScalerCase], None]]:
    """Return the promises of this scaler."""
    supports: frozenset[str] = getattr(scaler, "supports", frozenset())
    return [*CHECKS, *(one for name in OPTIONAL if name in supports for one in OPTIONAL[name])]
