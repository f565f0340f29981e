"""What every bandit promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gdcb.checks.bandits import draw, optional, state, update
from gdcb.checks.bandits.case import BanditCase, case_of

__all__ = ["CHECKS", "OPTIONAL", "REWARDS", "BanditCase", "case_of", "functions_for"]

CHECKS = (
    state.settings_are_frozen,
    state.declares_what_it_is,
    state.learns_the_target_it_declares,
    state.a_prior_has_its_axes,
    state.a_state_survives_its_bytes,
    state.a_copy_is_apart,
    state.a_state_grows,
    state.a_refold_starts_afresh,
    draw.a_draw_has_the_rows_first,
    draw.values_and_means_have_their_shape,
    draw.an_arm_located_is_the_arm,
    draw.some_rows_of_a_draw_stand_alone,
    draw.what_does_not_run_disturbs_nothing,
    draw.the_same_key_draws_the_same,
    draw.a_draw_does_not_see_its_neighbours,
    draw.rows_of_a_cell_draw_apart,
    draw.draws_average_to_the_mean,
    draw.what_it_does_not_read_changes_nothing,
    draw.what_it_reads_matters,
    update.inputs_are_left_alone,
    update.a_row_without_weight_teaches_nothing,
    update.a_row_without_an_arm_teaches_no_arm,
    update.a_row_of_weight_2_is_two_rows,
    update.a_batch_is_a_loop,
    update.cells_may_change_places,
    update.an_update_does_not_see_its_neighbours,
    update.a_refusal_changes_nothing,
    update.it_learns_which_arm_is_best,
)
# Where it learns rewards.
REWARDS = (update.a_scale_is_taken_off_the_reward, update.it_ranks_rewards_below_zero)
# What it promises beyond that, by what it supports (all of the names).
OPTIONAL = {
    ("merge",): (
        optional.the_order_of_rows_does_not_matter,
        optional.merging_halves_is_the_whole,
        optional.merging_the_prior_changes_nothing,
        optional.a_wrong_merge_is_refused,
    ),
    ("decay",): (optional.decay_goes_from_all_to_nothing, optional.decay_touches_its_cells_only),
    ("decay", "merge"): (optional.decay_halves_the_evidence,),
    ("marginals",): (optional.marginals_are_the_law_of_the_draws,),
    ("predictive",): (optional.predictive_is_a_density,),
    ("refit",): (optional.a_refit_is_of_its_rows_alone, optional.a_refused_refit_changes_nothing),
}


def functions_for(bandit: Any) -> list[Callable[[BanditCase], None]]:
    """Return the promises of this bandit."""
    supports: frozenset[str] = getattr(bandit, "supports", frozenset())
    more = [one for names, some in OPTIONAL.items() if supports >= set(names) for one in some]
    learns_rewards = getattr(bandit, "target", "") in ("reward", "any")
    return [*CHECKS, *(REWARDS if learns_rewards else ()), *more]
