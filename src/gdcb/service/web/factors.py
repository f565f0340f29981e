"""What the scaler made of a context, in words: δ, its factors, and what each field does."""

from __future__ import annotations

from collections.abc import Iterator

from gdcb.instance import Instance
from gdcb.service.pages.views.review import Factor
from gdcb.service.showing import Used


def rows(instance: Instance, used: Used) -> Iterator[Factor]:
    """Yield δ as it was recorded, and the factors that it is the product of, by name."""
    joins = instance.composition.joins
    since = f"; {used.why_not}" if used.why_not else ""
    for j, delta in enumerate(used.delta.tolist()):
        name = "δ" if used.delta.size == 1 else f"δ of {_column(instance, j)}"
        does = joined(joins, delta)
        words = f"the arm {does}" if does else "as recorded"
        yield Factor(name, None, _short(delta), f"{words}{since}")
    for name, delta in used.named.items():
        yield Factor(name, None, _short(delta), joined(joins, delta))


def effects(instance: Instance, used: Used) -> Iterator[Factor]:
    """Yield the fields that δ hangs on, and what each does to it against its typical value."""
    joins = instance.composition.joins
    for name, value, effect in used.effects:
        said = ("yes" if value else "no") if isinstance(value, bool) else value
        words = "as is typical"
        if effect is not None:
            parts = (joined(joins, one) for one in effect.tolist())
            words = ", ".join(parts)
        yield Factor(name, said, None, words)


def joined(joins: str, delta: float) -> str:
    """Write what a δ does to the arm: it multiplies it, or is added.

    >>> joined("product", 1.25), joined("sum", -0.5), joined("other", 1.0)
    ('×1.25', '−0.5', '')
    """
    if joins == "product":
        return f"×{delta:.4g}"
    return f"{delta:+.4g}".replace("-", "−") if joins == "sum" else ""


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _column(instance: Instance, j: int) -> str:
    """Return the name of a column of δ: that of the action's where it scales or shifts one."""
    is_named = instance.composition.joins in ("product", "sum") and j < len(instance.actions)
    return instance.actions[j].name if is_named else f"column {j + 1}"
