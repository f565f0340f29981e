"""Turn a view into a page: templates, always escaped, and the filters that they use."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gdcb.errors import InvalidInput
from gdcb.pages.numbers import common_digits, share
from gdcb.pages.words import capital, some
from gdcb.service.pages import charts, links, wording
from gdcb.service.pages.views.audit import STATUSES
from gdcb.service.pages.views.frame import View
from gdcb.service.pages.views.people import KEY_ROLES, ROLES
from gdcb.service.pages.views.queue import CLAIMED
from gdcb.service.pages.views.review import Preview

STATIC = Path(__file__).with_name("static")

# Words for what became of a decision, or of a proposal at one gate.
STATUS = {
    "passed": "passed",
    "modified": "changed",
    "vetoed": "vetoed",
    "held": "waiting",
    "expired": "expired",
    "approved": "approved",
    "edited": "edited",
    "proposed": "proposed",
    "rejected": "rejected",
}

# What a gate would make of an edit, where no action needs to be told.
_BECAME = {
    "passed": "lets it through",
    "held": "asks the next person",
    "not reached": "is not reached",
}


@cache
def asset(name: str) -> str:
    """Return the address of a file of ours; it changes with the contents, for caches to keep."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


@cache
def environment() -> Environment:
    """Return the templates; a name that a view lacks is an error, not an empty space."""
    found = Environment(
        loader=PackageLoader("gdcb.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        action=wording.action,
        amount=wording.amount,
        attribute=wording.attribute,
        capital=capital,
        cell=wording.cell,
        exact=wording.exact,
        near=wording.near,
        left=wording.left,
        quantity=wording.quantity,
        share=share,
        short=wording.short,
        since=wording.since,
        some=some,
        soon=wording.soon,
        span=wording.span,
        stamp=wording.stamp,
        status=lambda word: STATUS.get(word, word),
        when=wording.when,
        worth=wording.worth,
    )
    found.globals.update(
        CLAIMED=CLAIMED,
        KEY_ROLES=KEY_ROLES,
        ROLES=ROLES,
        STATUSES=STATUSES,
        asset=asset,
        change=wording.change,
        charts=charts,
        digits=common_digits,
        limits=wording.limits,
        links=links,
        preview_lines=preview_lines,
    )
    return found


def page(view: View) -> str:
    """Draw a view as a whole page of HTML."""
    if not view.template:
        raise InvalidInput(f"expected a view with a template, got {type(view).__name__}")
    drawn = environment().get_template(view.template).render(view=view, frame=view.frame)
    # Half a character, which JSON can carry, has no bytes in UTF-8.
    return drawn.encode("utf-8", "replace").decode()


def preview(found: Preview, unit: str = "") -> dict[str, Any]:
    """Return what an edit would do as the document that the script shows, in words.

    Parameters
    ----------
    found : what was computed
    unit : of the expected value
    """
    lines = [{"name": name, "words": words} for name, words in preview_lines(found, unit)]
    return {"problem": found.problem, "lines": lines}


def preview_lines(found: Preview, unit: str = "") -> list[tuple[str, str]]:
    """Return what an edit would do as names and words, in the order to read them."""
    lines = []
    if found.arm:
        steps = (
            ""
            if found.distance is None
            else f", {wording.amount(round(found.distance, 2))} steps away"
        )
        lines.append(("Nearest arm", f"{found.arm}{steps}"))
    n = common_digits([found.worth, found.approved])
    if found.worth is not None:
        lines.append(("As edited", f"expected {wording.worth(found.worth, unit, n)}"))
    if found.approved is not None:
        lines.append(
            ("As it is", f"expected {wording.worth(found.approved, unit, n)}, if approved")
        )
    for gate in found.gates:
        left = ", ".join(wording.quantity(one) for one in gate.left) or "nothing runs"
        became = _BECAME.get(gate.status, f"{STATUS.get(gate.status, gate.status)}: {left}")
        why = f" ({gate.reason})" if gate.reason and gate.status != "passed" else ""
        lines.append((f"Gate {gate.gate}", f"{became}{why}"))
    return lines
