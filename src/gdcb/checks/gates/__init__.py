"""What every gate promises, and what is learned of it."""

from __future__ import annotations

from collections.abc import Callable

from gdcb.checks.gates import kernel, learned, passage
from gdcb.checks.gates.case import GateCase, case_of, case_of_kernel

__all__ = ["CHECKS", "KERNELS", "LEARNED", "GateCase", "case_of", "case_of_kernel", "functions_for"]

CHECKS = (
    passage.settings_are_frozen,
    passage.declares_what_it_is,
    passage.it_says_what_it_cannot_judge,
    passage.a_status_says_what_left,
    passage.proposals_are_left_alone,
    passage.nothing_in_is_nothing_out,
    passage.draws_are_made_for_every_row,
    passage.rows_stand_alone,
    passage.the_operator_is_the_average,
    passage.what_passed_passes_again,
    passage.far_numbers_are_judged_too,
    passage.moved_says_how_far,
    passage.a_reason_is_a_sentence,
    kernel.what_leaves_was_within_reach,
    kernel.contraction_bounds_what_proposals_change,
)
# Where something is learned of it.
LEARNED = (
    learned.a_belief_has_the_owners_first,
    learned.learning_leaves_inputs_alone,
    learned.owners_do_not_see_each_other,
    learned.a_belief_survives_its_bytes,
    learned.it_learns_what_a_person_does,
    learned.it_learns_what_a_person_puts_in,
    learned.it_learns_what_a_person_approves,
    learned.an_expired_hold_is_a_veto,
)
# What is promised of a kernel by itself: the person whom it is about is tried with it.
KERNELS = (passage.it_says_what_it_cannot_judge, *LEARNED)


def functions_for(case: GateCase) -> list[Callable[[GateCase], None]]:
    """Return the promises of this gate."""
    try:
        is_learned = case.gate.init_kernel(3, len(case.columns)) is not None
    except Exception:  # its own fault: the checks will say so
        is_learned = True
    return [*CHECKS, *(LEARNED if is_learned else ())]
