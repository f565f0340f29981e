"""The instance as a file: `python -m gdcb.instances.moderation.file` writes `moderation.toml`.

It is written and not kept by hand because the trunk, the head and the appeals of the pilot are
numbers of `map.json`, and must be the same in both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gdcb.context import Number
from gdcb.instances.moderation import learners
from gdcb.instances.moderation.columns import CATEGORIES, LIVE
from gdcb.instances.moderation.domain import KERNEL_EDGES, STAYS_UP, appeal_filter

PATH = Path(__file__).parent / "moderation.toml"
HEAD = """\
# Content moderation, live: allow, warn or remove; a moderator answers, then the appeal filter.
# Features of a text: gdcb.instances.moderation.features.context_of(text, reach=…, reports=…).
"""


def text() -> str:
    """Return the file's text."""
    lines = [HEAD, 'name = "moderation"', 'title = "Content moderation"', ""]
    for name, kind in LIVE.columns.items():
        assert isinstance(kind, Number)
        limits = f'type = "number", low = {kind.low:g}, high = {kind.high:g}'
        lines.append(f"context.{name} = {{ {limits}, about = {json.dumps(kind.about)} }}")
    score, arms = learners.scaler(learners.UNTUNED), learners.learner(learners.UNTUNED)
    filter_ = appeal_filter()
    lines += [
        "",
        *_table("arms", {"part": "list", "names": CATEGORIES}),
        *_table("composition", {"part": "identity", "name": "category"}),
        *_table("cells", {"edges": learners.EDGES}),
        *_table("null", {"mean": STAYS_UP}),
        *_table(
            "reward",
            {
                "part": "moderation",
                "violation_cost": "violation_cost",
                "appeal_cost": "appeal_cost",
            },
        ),
        *_table("[gates]", {"part": "approval", "name": "moderator"}),
        *_table(
            "gates.kernel",
            {"part": "category", "n_categories": len(CATEGORIES), "edges": KERNEL_EDGES},
        ),
        *_table(
            "[gates]",
            {
                "part": "appeal-filter",
                "levels": filter_.levels,
                "columns": filter_.columns,
                "weights": filter_.weights,
                "limit": filter_.limit,
            },
        ),
        *_table("bandit", {"part": "banded-thompson"} | _of(arms, "table sd between noise")),
        *_table(
            "scaler",
            {"part": "severity"} | _of(score, "features link penalty every growth start"),
        ),
        *_table("scaler.trunk", score.trunk.table()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _of(part: Any, names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names.split()}


def _table(name: str, values: dict[str, Any]) -> list[str]:
    """Return the lines of one table; JSON's lists, numbers and strings are TOML's."""
    return [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]


def main() -> None:
    """Write the file."""
    PATH.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
