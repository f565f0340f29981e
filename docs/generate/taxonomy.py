"""Where algorithms live: composition × scaler × gate, drawn from the registered parts.

Nothing is placed by hand. An instance (one of the seven, or a classical algorithm declared as a
file) stands where its own parts stand; only the order of the axes is a table here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from docs.generate.reductions import REDUCTIONS, Reduction
from gdcb import declaration
from gdcb.bandits import Bandit
from gdcb.declaration import part_named, registered
from gdcb.instance import Instance
from gdcb.instances import catalogue

# Steps of the axes by registered name, the simplest first.
COMPOSITIONS = {
    "identity": "identity",
    "add": "linear",
    "multiply": "multiplicative",
    "credit-offer": "multiplicative",
    "prompt": "compositional",
    "kalman-gain": "compositional",
}
SCALERS = {
    "constant": "none",
    "ridge": "ridge",
    "log-linear": "ridge",
    "covariance": "ridge",
    "gaussian-process": "Gaussian process",
    "neural": "neural",
    "severity": "neural",
    "relevance": "neural",
    "estimator": "any estimator",
}
UNPLACED = "not placed yet"
GATES = ("open", "hard rule", "person")


@dataclass(frozen=True)
class Placement:
    """Where an instance stands.

    Parameters
    ----------
    label : its name in the figure
    about : a sentence on it
    bandit, composition, scaler, gates : registered names of its parts
    gate : step of the third axis: 'open', 'hard rule' or 'person'
    source : the classical algorithm it is, or None for one of the seven domains
    """

    label: str
    about: str
    bandit: str
    composition: str
    scaler: str
    gates: tuple[str, ...]
    gate: str
    source: Reduction | None

    @property
    def cell(self) -> tuple[str, str]:
        """Its column and row."""
        return COMPOSITIONS.get(self.composition, UNPLACED), SCALERS.get(self.scaler, UNPLACED)


def name_of(kind: str, part: Any) -> str:
    """Return the name under which a part's class is registered."""
    for name in registered(kind):
        if part_named(kind, name) is type(part):
            return name
    raise LookupError(f"{type(part).__name__} is not registered as a {kind}")


def gate_of(gates: Sequence[Any]) -> str:
    """Return the step of a chain: a person counts above rules, rules above none."""
    if any(gate.is_person for gate in gates):
        return "person"
    return "hard rule" if gates else "open"


def _placed(
    label: str, about: str, instance: Instance, bandit: Bandit, source: Reduction | None
) -> Placement:
    gates = instance.chain.gates
    return Placement(
        label=label,
        about=about,
        bandit=name_of("bandit", bandit),
        composition=name_of("composition", instance.composition),
        scaler=name_of("scaler", instance.scaler),
        gates=tuple(name_of("gate", gate) for gate in gates),
        gate=gate_of(gates),
        source=source,
    )


@cache
def placements() -> tuple[Placement, ...]:
    """Return the classical algorithms, then the seven domains, each where its parts stand."""
    found = []
    for one in REDUCTIONS:
        built = declaration.parse(one.declared, where=one.label)
        found.append(_placed(one.label, one.about, built.instance, built.bandit, one))
    for name in catalogue.NAMES:
        domain = catalogue.load(name)
        about = domain.about.strip().splitlines()[0]
        found.append(_placed(name, about, domain.instance, domain.bandit, None))
    return tuple(found)


def steps(kind: str, order: dict[str, str]) -> dict[str, list[str]]:
    """Return the steps of an axis that have registered parts, and these parts."""
    found: dict[str, list[str]] = {step: [] for step in (*order.values(), UNPLACED)}
    for name in registered(kind):
        found[order.get(name, UNPLACED)].append(name)
    return {step: names for step, names in found.items() if names}


def gates_by_step() -> dict[str, list[str]]:
    """Return the registered gates under 'hard rule' and 'person', by what they declare."""
    found: dict[str, list[str]] = {step: [] for step in GATES}
    for name in registered("gate"):
        found[gate_of([part_named("gate", name)])].append(name)
    return found


def listing() -> str:
    """Return every placement as a Markdown list: the figure for readers, and for narrow screens."""
    lines = []
    for heading, is_domain in (("Classical algorithms", False), ("The seven domains", True)):
        lines += [f"### {heading}", ""]
        for one in placements():
            if (one.source is None) != is_domain:
                continue
            gates = " → ".join(_page("gate", name) for name in one.gates) or "open gate"
            named = (
                ("bandit", one.bandit),
                ("composition", one.composition),
                ("scaler", one.scaler),
            )
            links = " · ".join(_page(kind, name) for kind, name in named)
            where = ", ".join((*one.cell, one.gate))
            lines += [f"**{one.label}** ({where}): {links} · {gates}.", ""]
            if one.source is not None:
                shown = f" Shown by `{one.source.shown_by}`." if one.source.shown_by else ""
                lines += [f"{one.about}{shown}", "", f'??? example "{one.label} as a file"', ""]
                code = ["```toml", *one.source.declared.splitlines(), "```"]
                lines += [f"    {line}" for line in code] + [""]
    return "\n".join(lines)


def _page(kind: str, name: str) -> str:
    return f"[{name}](parts/{kind}/{name}.md)"
