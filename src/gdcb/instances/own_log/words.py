"""What the page says of a world modelled on a log: the tuple, what is real and what is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdcb.history import ReadReport
from gdcb.history.batch import Batch
from gdcb.history.model_world import ModelWorld
from gdcb.instance import Instance
from gdcb.instances.own_log.start import can_certify

_SHOWN = 5  # sentences on rows that were rejected
MODELLED = (
    "The response is a model, fitted on your log: what is compared here are methods in a world "
    "that the log makes plausible, not what would have happened."
)


def specification(
    world: ModelWorld, batch: Batch, report: ReadReport, left_out: Mapping[str, str]
) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words."""
    instance, response = world.instance, world.response
    arms = ", ".join(instance.space.names[:8]) + (" …" if instance.space.n > 8 else "")
    form = "not at all"
    if response.form.degree:
        shape = {1: "a line", 2: "a parabola"}[response.form.degree]
        form = "a level a category" if response.features.is_category else f"{shape} in the action"
        form += ", which context moves" if response.form.interactions else ", the same everywhere"
    read = f"{report.read:,} rows read, {report.valid:,} valid"
    if batch.n < report.valid:
        read += f", of which a sample of {batch.n:,} is used"
    rejected = "; ".join(report.sentences()[:_SHOWN])
    odd = " ".join(([f"Rejected: {rejected}."] if rejected else []) + report.leaks)
    return (
        ("𝒳", "context", ", ".join(instance.context.columns)),
        ("𝒜", "nominal arms", f"{instance.space.n}: {arms}"),
        ("δ_θ", "scaler", type(instance.scaler).__name__),
        ("Φ", "composition", type(instance.composition).__name__),
        ("e", "action", ", ".join(column.name for column in instance.actions)),
        ("g", "gate", instance.chain.path),
        (
            "𝒴, φ",
            "outcome, reward",
            f"{instance.reward.outcome[0]}, {type(instance.reward).__name__}",
        ),
        ("R", "response", f"a model of the log: {form}; form and penalty chosen on two folds"),
        ("units", "replicate", f"{world.units} of the log"),
        ("history", "log", read),
        ("", "methods left out", "; ".join(_reasons(left_out))),
        *([("", "what is odd about the log", odd)] if odd else []),
    )


def _reasons(left_out: Mapping[str, str]) -> list[str]:
    """Return every reason once, with the methods that it keeps out."""
    by_reason: dict[str, list[str]] = {}
    for key, why in left_out.items():
        by_reason.setdefault(why, []).append(key)
    return [f"{', '.join(keys)}: {why}" for why, keys in by_reason.items()]


def about(
    instance: Instance,
    world: ModelWorld,
    said: tuple[str, ...],
    batch: Batch,
    unit: str,
) -> dict[str, Any]:
    """Return what is real and what is made."""
    response = world.response
    share = 100 * response.explained
    without = share - 100 * response.by_action
    what = "deviance" if response.is_class else "variance"
    foresees = (
        "the response: a model of the outcomes, cross-fitted. On rows that it was not fitted on "
        f"it explains {share:.1f} % of the {what}, and without the action {without:.1f} %"
    )
    if response.by_action <= 0:
        foresees += (
            "; beyond context the action explains nothing there, so that methods can hardly differ"
        )
    source = "recommended" if batch.recommended is not None else "executed"
    return {
        "title": instance.title or instance.name,
        "unit": f"units of reward a {unit}" if world.units > 1 else "units of reward",
        "action": _action_words(instance),
        "real": [
            f"the contexts: rows of the log, drawn anew; units a replicate: {world.units}",
            (
                "the history that warm starts have: rows of the half on which the replicate's "
                f"world was not fitted, at most {world.rows:,} a replicate"
            ),
            _starts(instance),
            f"the incumbent: what was {source} in that very row",
        ],
        "made": [
            foresees,
            (
                "every replicate draws its own half of the log and its own coefficients, given "
                "that half, so that intervals hold what the log leaves open about the response; "
                "not what another family of models would say"
            ),
            (
                "beyond the actions that the log has seen, an action is worth at most what the "
                "nearest seen one is"
            ),
            (
                "the model is of the family that B2g learns, which is at home here"
                if response.is_class
                else "the model is of the family that B2s learns, which is at home here"
            ),
            *said,
            "whether the log may be believed is not asked here: gdcb check certifies it",
            "the priors of all rivals are wide and untuned; the file's own learner is as it stands",
        ],
        "response": "model",
    }


def _starts(instance: Instance) -> str:
    """Say who starts from the history as it is, and who as its certificate says."""
    if not can_certify(instance):
        return "all warm starts learn these rows as they are: nothing certifies such a history"
    return (
        "GDCB's own learner, and rivals that read no context, start from these rows as the "
        "certificate of each replicate's history says: adjusted, weighted, or left out; rivals "
        "that read the context get them as they are"
    )


def _action_words(instance: Instance) -> str:
    name = instance.actions[0].name
    names = instance.context.names
    base = [names[at] for at in getattr(instance.composition, "base", ()) if isinstance(at, int)]
    return f"{name} over {' × '.join(base)}" if base else name
