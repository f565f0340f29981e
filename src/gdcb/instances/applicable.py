"""Which methods do not apply to an instance, by what it declares, and what others are called."""

from __future__ import annotations

from gdcb.instance import Instance
from gdcb.scalers import ConstantScaler


def inapplicable(instance: Instance, units: int) -> dict[str, str]:
    """Say which methods do not apply to an instance with so many units a replicate, and why."""
    found: dict[str, str] = {}

    def leave(why: str, *keys: str) -> None:
        found.update({key: why for key in keys if key not in found})

    space, joins = instance.space, instance.composition.joins
    is_category = bool(space.is_exact.any())
    if instance.reward.target != "class":
        leave("outcomes are no classes", "B2g", "B2gw", "B2gu")
        leave("outcomes are no classes, which levels of factors are learned of", "B4fac")
    if space.levels.shape[1] == 1:
        leave("arms have one factor: its levels are the arms, as in B4flat", "B4fac")
    if units < 2:
        leave("there is one unit, and nothing to share", "B3", "B3w", "B3u")
    if units < 2 and is_category:
        leave("arms share nothing, and there is one unit: it is B2", "B2s", "B2sw", "B2su")
    if not is_category and joins not in ("product", "sum"):
        leave(
            "its actions are no arms moved by a scaler, and have no coordinates to compare",
            *("B5", "B5w", "B5u", "B4ope"),
        )
    if isinstance(instance.scaler, ConstantScaler):
        leave("there is no scaler", "A1", "A3s", "A3a")
    elif instance.scaler.learns_from == "nothing":
        leave("the scaler does not learn", "A3s", "A3a")
    if not instance.chain.gates:
        ungated = ("B1u", "B2u", "B2su", "B2gu", "B3u", "B4u", "B5u")
        leave("there is no gate", "A2", *ungated)
    return found


def labels(instance: Instance) -> dict[str, str]:
    """Return what methods are called here, by key, where they are not what their key says."""
    found: dict[str, str] = {}
    if instance.reward.target != "class":
        found |= {"B1": "Gaussian Thompson", "B1u": "Gaussian Thompson, ungated"}
    if instance.space.is_exact.any():
        ends = {"": ", cold", "w": ", warm", "u": ", ungated"}
        for end, said in ends.items():
            found[f"B2s{end}"] = f"LinTS, weights per arm that units share{said}"
            found[f"B2g{end}"] = f"logistic Thompson, weights per arm{said}"
    return found
