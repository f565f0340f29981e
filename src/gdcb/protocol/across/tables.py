"""The tables over all instances, as rows of words: pages and documentation show the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gdcb.pages.numbers import NONE, Estimate, bracketed, common_digits, percent, plus_minus
from gdcb.protocol.report.document import names_in

THEOREM_NAMES = {"t1": "1 variance", "t2": "2 gate", "t3": "3 regret", "t4": "4 lifting"}


@dataclass(frozen=True, slots=True)
class Words:
    """A table: caption, head and rows; the first `n_words` columns are words, not numbers."""

    caption: str
    head: list[str]
    rows: list[list[str]]
    n_words: int = 1

    def without(self, *names: str) -> Words:
        """Return the table without some columns, none of which is its first."""
        stay = [i for i, name in enumerate(self.head) if name not in names]
        rows = [[row[i] for i in stay] for row in self.rows]
        n_words = sum(i < self.n_words for i in stay)
        return Words(self.caption, [self.head[i] for i in stay], rows, n_words)


def estimate_of(value: Mapping[str, Any] | None) -> Estimate | None:
    """Return an estimate of the plain data."""
    if value is None:
        return None
    return Estimate(value["mean"], value.get("low"), value.get("high"))


def name_of(run: Mapping[str, Any]) -> str:
    """Return instance and variant."""
    return f"{run['instance']} {run['variant']}"


def overview(found: Mapping[str, Any]) -> Words:
    """Return one row an instance and variant: how GDCB stands."""
    rows = []
    for run in found["runs"]:
        ours = next((m for m in run["methods"] if m["key"] == "B4"), None)
        parts = {} if ours is None else ours["parts"]
        largest = max(parts, key=lambda name: parts[name]["mean"]) if parts else NONE
        rows.append(
            [
                name_of(run),
                plus_minus(estimate_of(ours["regret"] if ours else None)),
                plus_minus(estimate_of(ours["excess"] if ours else None)),
                _standing(run["standing"].get("warm")),
                _standing(run["standing"].get("cold")),
                largest,
                percent(estimate_of(ours["override_rate"] if ours else None)).split(" [")[0],
                percent(estimate_of(run["saving_at_50"])),
                bracketed(estimate_of(run["variance_ratio"])),
            ]
        )
    head = ["instance", "regret", "above floor", "B4 / best rival", "A3 / best rival"]
    head += ["largest part", "overridden", "saved at 50", "variance ratio"]
    caption = (
        "GDCB with its history (B4) and without (A3), in each instance and variant. '/ best "
        "rival': regret above the gate floor over that of the best rival with the same start, "
        "which is chosen on the same replicates; below 1 GDCB is first. 'Saved at 50': what the "
        "history saves of the cold start's regret by episode 50."
    )
    return Words(caption, head, rows)


def _standing(value: Mapping[str, Any] | None) -> str:
    if value is None:
        return NONE
    mean, mark, interval = bracketed(estimate_of(value["ratio"])).partition(" [")
    return f"{mean} {value['rival']}{mark}{interval}"


def in_short(found: Mapping[str, Any]) -> Words:
    """Return the overview for a terminal: 80 columns wide at the most, without intervals."""
    rows = []
    for run, full in zip(found["runs"], overview(found).rows, strict=True):
        faced = []
        for start in ("warm", "cold"):
            value = run["standing"].get(start)
            faced.append(
                NONE if value is None else f"{value['ratio']['mean']:.2f} {value['rival']}"
            )
        rows.append([full[0], full[2], *faced, full[5]])
    head = ["instance", "above floor", "B4 / rival", "A3 / rival", "largest part"]
    caption = (
        "Regret above the gate floor; GDCB with its history (B4) and without (A3), each over the "
        "best rival with the same start: below 1 GDCB is first."
    )
    return Words(caption, head, rows)


def methods(run: Mapping[str, Any]) -> Words:
    """Return every method of one run: regret, above the floor, paired difference, parts."""
    listed = sorted(run["methods"], key=lambda m: (m["regret"] or {"mean": 0.0})["mean"])
    columns = [_column([estimate_of(m[name]) for m in listed]) for name in ("regret", "excess")]
    differences = [estimate_of(m["difference"]) for m in listed]
    digits = common_digits(differences)
    shown = [
        NONE if d is None else f"{bracketed(d, digits)} ({m['against']})"
        for d, m in zip(differences, listed, strict=True)
    ]
    columns.append(shown)
    names = names_in({name: None for m in listed for name in m["parts"]})
    columns += [_column([estimate_of(m["parts"].get(part)) for m in listed]) for part in names]
    overridden = [percent(estimate_of(m["override_rate"])).split(" [")[0] for m in listed]
    labels = [m["key"] if m["label"] == m["key"] else f"{m['key']} {m['label']}" for m in listed]
    rows = [list(row) for row in zip(labels, *columns, overridden, strict=True)]
    ratio, floor = estimate_of(run["variance_ratio"]), estimate_of(run["floor"])
    caption = (
        f"{name_of(run)}: {run['title']}, in {run['unit']}. Gate floor {plus_minus(floor)}; "
        f"variance ratio {bracketed(ratio)}. {run['compression'] or ''}"
    ).strip()
    head = ["method", "regret", "above floor", "paired difference (to)", *names, "overridden"]
    return Words(caption, head, rows)


def _column(values: list[Estimate | None]) -> list[str]:
    digits = common_digits(values)
    return [plus_minus(value, digits) for value in values]


def verdicts(found: Mapping[str, Any]) -> Words:
    """Return whether each cell of the paper's Table 3 was borne out: a row a run."""
    rows = []
    for run in found["runs"]:
        said = {cell["theorem"]: cell["verdict"] for cell in run["cells"]}
        if said:
            rows.append([name_of(run), *(said.get(t, NONE) for t in THEOREM_NAMES)])
    caption = (
        "Whether what the paper's Table 3 predicts came out. Theorem 1 holds where the scaler "
        "saves regret (A1 − B4 above 0, after Holm); 2 where a start from the gated history saves "
        "regret by episode 50; 3 where the part that the paper names is the largest of B4's; 4 "
        "where the history for both loops beats that for one or none."
    )
    return Words(caption, ["instance", *THEOREM_NAMES.values()], rows, n_words=5)


def predictions(found: Mapping[str, Any]) -> Words:
    """Return every cell of the paper's Table 3 beside what was measured."""
    rows = []
    for run in found["runs"]:
        for cell in run["cells"]:
            name = THEOREM_NAMES[cell["theorem"]]
            measured = cell["measured"] or NONE
            rows.append([name_of(run), name, cell["verdict"], cell["predicted"], measured])
    caption = "What the paper's Table 3 predicts, and what was measured, with 95 % intervals."
    head = ["instance", "theorem", "verdict", "the paper predicts", "measured"]
    return Words(caption, head, rows, n_words=5)


def reasons(found: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every run in which GDCB is not first, or not for certain."""
    said = []
    for run in found["runs"]:
        for start, words in (("warm", "with history"), ("cold", "without")):
            standing = run["standing"].get(start)
            if standing is None:
                continue
            if not standing["is_first"]:
                said.append(f"{name_of(run)}, {words}: {standing['why']}")
            elif (standing["ratio"]["high"] or 0.0) >= 1.0:
                mean, high = (standing["ratio"][name] for name in ("mean", "high"))
                rival = standing["rival"]
                said.append(
                    f"{name_of(run)}, {words}: first, but not for certain; the interval of its "
                    f"ratio to {rival}, {mean:.2f}, reaches {high:.2f}."
                )
    return said
