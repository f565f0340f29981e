"""What every scaler promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gdcb.checks.scalers import delta, learning, state
from gdcb.checks.scalers.case import ScalerCase, case_of

__all__ = ["CHECKS", "OPTIONAL", "ScalerCase", "case_of", "functions_for"]

CHECKS = (
    delta.settings_are_frozen,
    delta.declares_what_it_is,
    delta.delta_has_its_shape,
    delta.delta_is_neutral_before_data,
    delta.rows_of_delta_stand_alone,
    delta.uncertainty_is_not_negative,
    delta.delta_is_centred_where_declared,
    learning.delta_waits_for_a_publication,
    learning.a_version_counts_publications,
    learning.publishing_names_whose_delta_changed,
    learning.what_is_due_becomes_due_by_rows,
    learning.inputs_are_left_alone,
    learning.a_missing_label_teaches_nothing,
    learning.a_row_without_weight_teaches_nothing,
    learning.a_row_of_weight_2_is_two_rows,
    learning.a_batch_is_a_loop,
    learning.owners_do_not_see_each_other,
    learning.it_learns_the_signal,
    learning.delta_is_as_large_as_the_signal,
    learning.a_refusal_changes_nothing,
    state.a_state_survives_its_bytes,
    state.a_copy_is_apart,
    state.a_state_grows,
)
# What it promises beyond that, by what it supports.
OPTIONAL = {
    "merge": (state.merging_halves_is_the_whole, state.a_wrong_merge_is_refused),
    "decay": (state.decay_goes_from_all_to_nothing, state.a_wrong_decay_is_refused),
}


def functions_for(scaler: Any) -> list[Callable[[ScalerCase], None]]:
    """Return the promises of this scaler."""
    supports: frozenset[str] = getattr(scaler, "supports", frozenset())
    return [*CHECKS, *(one for name in OPTIONAL if name in supports for one in OPTIONAL[name])]
