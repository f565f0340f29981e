"""What every gate promises, and what is learned of it."""

from __future__ import annotations

from collections.abc import Callable

from gdcb.checks.gates import learned, passage
from gdcb.checks.gates.case import GateCase, case_of, case_of_kernel

__all__ = ["CHECKS", "LEARNED", "GateCase", "case_of", "case_of_kernel", "functions_for"]

CHECKS = (
    passage.settings_are_frozen,
    passage.declares_what_it_is,
    passage.a_status_says_what_left,
    passage.proposals_are_left_alone,
    passage.nothing_in_is_nothing_out,
    passage.draws_are_made_for_every_row,
    passage.rows_stand_alone,
    passage.the_operator_is_the_average,
    passage.what_passed_passes_again,
    passage.moved_says_how_far,
    passage.a_reason_is_a_sentence,
    passage.what_leaves_was_within_reach,
    passage.contraction_bounds_what_proposals_change,
)
# Where something is learned of it.
LEARNED = (
    learned.a_belief_has_the_owners_first,
    learned.learning_leaves_inputs_alone,
    learned.owners_do_not_see_each_other,
    learned.a_belief_survives_its_bytes,
    learned.it_learns_what_a_person_does,
)


def functions_for(case: GateCase) -> list[Callable[[GateCase], None]]:
    """Return the promises of this gate."""
    try:
        is_learned = case.gate.init_kernel(3, len(case.columns)) is not None
    except Exception:  # its own fault: the checks will say so
        is_learned = True
    return [*CHECKS, *(LEARNED if is_learned else ())]
