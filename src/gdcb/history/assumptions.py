"""What a certificate rests on: every assumption, whether it was tested, and what was found."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from gdcb.history import sentences as say
from gdcb.history.certificate import Certificate
from gdcb.history.dependence import HARMLESS, Dependence
from gdcb.history.evidence import Evidence
from gdcb.pages.numbers import share
from gdcb.pages.words import capital


def assumptions_of(
    certificate: Certificate,
    found: Evidence,
    sensitivity: dict[str, Any] | None,
    has_time_column: bool = True,
) -> list[dict[str, Any]]:
    """Return {name, tested, state, result} of every assumption of a certificate, as plain data.

    An assumption counts as tested only where a departure from it could have been found. `state`
    says in words whether it was, whether the finding speaks against it, and what hinders the test
    from telling.
    """
    plan, treatment = certificate.plan, certificate.treatment
    told, rows, age = say.assumptions, certificate.dependence, certificate.maturity
    names = {key: capital(told.AT_LENGTH.get(key, key)) for key in told.ALL}
    strength = "" if sensitivity is None else sensitivity["arms"]["says"]
    is_class = plan.instance.reward.target == "class"
    out = [
        _one(names[told.OUTSIDE], False, told.hidden_cause(strength)),
        _one(names[told.INDEPENDENT], rows.is_tested, rows.says, _dependent(rows, found.threshold)),
        _one(names[told.CARRY_OVER], False, told.no_carry_over()),
        _one(
            capital(told.AT_LENGTH[plan.form]),
            False,
            told.form(is_class, plan.reads_context, *plan.left_out, plan.is_judged),
        ),
    ]
    contrast = found.contrast
    if contrast is not None:
        is_private = contrast.is_private(found.threshold)
        sizes = (contrast.difference, contrast.low, contrast.high)
        limit = certificate.margin * float(np.sqrt(found.bias.noise[0]))
        is_small = -limit <= contrast.low and contrast.high <= limit
        state = "" if is_small else told.TOO_FEW
        if is_private or is_private is None:
            state = told.FAILS if is_private else told.DOUBTED
        result = told.reviewers(*sizes, is_private)
        out.append(_one("Overrides used nothing outside the log", True, result, state))
    elif plan.instance.chain.has_person:
        out.append(_one("Overrides used nothing outside the log", False, told.not_logged()))
    law = found.law
    is_certain = not (rows.is_found or found.possible)
    changed = told.unchanged(
        len(law.changes),
        say.chance(law.p),
        is_certain,
        law.untested,
        bool(found.immature),
        told.of_change(plan.form, age.is_known),
    )
    name = "What an action earns in a given context did not change"
    state = ""
    if law.changes:
        state = told.FAILS if is_certain else told.DOUBTED
    elif not law.untested and _least_step(found) > certificate.margin:
        state = told.TOO_FEW
    if not has_time_column:
        out.append(_one("Rows are in the order of time", False, told.no_time_column()))
        state = state or told.IN_ORDER
    out.append(_one(name, not law.untested, changed, state))
    if found.gates:
        rates, n_gates = "People let as much pass as ever", len(found.gates)
        gates = found.gates.values()
        believed = sum(len(gate.changes) for gate in gates if gate.is_certain)
        possible = sum(len(gate.changes) for gate in gates if not gate.is_certain)
        is_tested = not any(gate.untested for gate in gates)
        result = told.gates_unchanged(believed, possible, n_gates, is_tested)
        state = told.FAILS if believed else told.DOUBTED if possible else ""
        out.append(_one(rates, is_tested or bool(state), result, state))
    is_tested = age.p is not None or age.source == "outcome times"
    had_time = f"{age.says} {told.late_change()}" if found.immature else age.says
    state = told.DOUBTED if found.immature else told.PARTLY if age.lacks else ""
    out.append(_one("Outcomes had time to come in", is_tested, had_time, state))
    if found.missing > 0:
        p = found.missing_p
        is_selective = p is not None and p <= found.threshold
        chance = "" if p is None else say.chance(p)
        result = told.missing(share(found.missing), chance, is_selective)
        state = told.FAILS if is_selective else ""
        out.append(_one("As many outcomes are missing for every arm", p is not None, result, state))
    if "reweight" in treatment.verdicts:
        result = told.probabilities(treatment.is_logged)
        out.append(_one("The probabilities of what was executed are right", False, result))
    return out


def _dependent(rows: Dependence, threshold: float) -> str:
    """Return in which way rows may depend on each other: by a test, or as swings may look."""
    told = say.assumptions
    if not rows.is_found:
        return ""
    is_shown = rows.p is not None and rows.p <= threshold and rows.inflation >= HARMLESS
    return told.FAILS if is_shown else told.DOUBTED


def _least_step(found: Evidence) -> float:
    """Return the least step in the middle of the log that is found at even odds, in SDs."""
    z = float(ndtri(1.0 - found.threshold / 2.0))
    return 2.0 * z / float(np.sqrt(max(found.sums.n.sum(), 1.0)))


def _one(name: str, tested: bool, result: str, state: str = "") -> dict[str, Any]:
    told = say.assumptions
    if not tested:
        state = told.NOT_TESTED
    elif state == told.TOO_FEW:
        result = f"A departure as small as the margin would not be seen. {result}"
    return {"name": name, "tested": tested, "state": state or told.TESTED, "result": result}
