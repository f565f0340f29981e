"""The methods that are compared: baselines B1 to B5, GDCB in its forms, ablations A1 to A4.

All run behind the same gate, with the same features, history and random numbers; a key with `w`
starts warm, one with `u` runs ungated as in the paper. B4 starts warm: it has the history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.gates import Chain
from gdcb.instance import Instance
from gdcb.instances import STUDIES, Study
from gdcb.protocol import families, pooled
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.preferences import Preferences, taste_of, with_rival
from gdcb.refold import TEACHES
from gdcb.simulate import World

LABELS = {
    "B1": "Beta Thompson",
    "B2": "LinTS, weights per arm",
    "B2s": "LinTS, shared weights",
    "B2g": "logistic Thompson",
    "B3": "HierTS",
    "B4": "GDCB",
    "B4avg": "GDCB, forms averaged",
    "B4fac": "GDCB, factored arms",
    "B4flat": "GDCB, independent arms",
    "B4ope": "GDCB, importance-weighted start",
    "B5": "RLHF alone",
    "A1": "no scaler",
    "A2": "no gate",
    "A3": "no warm-up",
    "A3s": "only the scaler warm",
    "A3a": "only the arms warm",
    "A4": "flat arms",
    "A5m": "modes not seeded",
    "A5c": "covariances not seeded",
    "A5p": "P₀ not seeded",
    "K1": "fixed gain",
    "K2": "oracle gain",
    "K3": "interacting multiple model",
    "K4": "innovation-adaptive covariance",
}
# Ablations that are another key's run, by the paper's name for them.
SAME = {"A2": "B4u", "A4": "B4flat"}
SCALED = ("B4", "B4avg", "B4fac", "B4flat")  # the families with a scaler
_HOW = "run python -m gdcb.protocol.tuning"
STARTS = ("A5m", "A5c", "A5p")  # where a history seeds three things at once
REFERENCES = ("K1", "K2", "K3", "K4")  # of a domain's own
RIVALS = ("B1", "B2", "B2s", "B2g", "B3", "B5")
DEFAULT = (
    *("B1", "B2", "B2w", "B2s", "B2sw", "B2g", "B2gw", "B3", "B3w"),
    *("B4", "B4fac", "B4flat", "B4ope", "B5", "B5w"),
    *("B1u", "B2u", "B2su", "B2gu", "B3u", "B4u", "B5u"),
    *("A1", "A2", "A3", "A3s", "A3a", "A4"),
)


@dataclass(frozen=True)
class Method:
    """A key, taken apart.

    Parameters
    ----------
    key, family : as asked for; and whose settings and learner it has
    is_warm, is_gated : whether it has the history, and stands behind the gate
    teaches : which loops learn from the history
    is_reweighted : whether the history's rows are weighted by importance
    """

    key: str
    family: str
    is_warm: bool
    is_gated: bool = True
    teaches: tuple[str, ...] = TEACHES
    is_reweighted: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is GDCB, or GDCB with something left out."""
        return self.family in (*SCALED, "A1")

    @property
    def label(self) -> str:
        """A short title."""
        if self.key in LABELS:
            return LABELS[self.key] + (", cold" if self.key in ("B2", "B2s", "B2g", "B3") else "")
        base = LABELS[self.key.rstrip("uw")]
        return base + (", warm" if self.key.endswith("w") else ", ungated")


def parse(key: str) -> Method:
    """Return what a key means.

    >>> method = parse("B2gw")
    >>> method.family, method.is_warm, method.is_gated, method.label
    ('B2g', True, True, 'logistic Thompson, warm')
    """
    asked = SAME.get(key, key)
    if asked in SCALED:
        return Method(key, asked, True)
    if asked == "B4ope":
        return Method(key, "B4", True, is_reweighted=True)
    if asked == "A1":
        return Method(key, "A1", True)
    if asked == "A3":
        return Method(key, "B4", False)
    if asked in ("A3s", "A3a"):
        return Method(key, "B4", True, teaches=("scaler",) if asked == "A3s" else ("arms",))
    base = asked[:-1] if asked[-1:] in ("u", "w") else asked
    if asked in STARTS:
        return Method(key, "B4", True)
    if base in REFERENCES and asked[-1] != "w":
        return Method(key, base, False, is_gated=asked == base)
    if base == "B4" and asked == "B4u":
        return Method(key, "B4", True, is_gated=False)
    if base in RIVALS and asked != "B1w":
        return Method(key, base, asked.endswith("w"), is_gated=not asked.endswith("u"))
    known = ", ".join((*DEFAULT, "B4avg", *STARTS, *REFERENCES))
    raise InvalidInput(f"no method '{key}'; there are {known}")


def tuned_settings(name: str, variant: str, file: str = "tuned.json") -> dict[str, Any]:
    """Return the recorded settings of every family, as `make tune` found them."""
    path = files("gdcb.instances") / STUDIES[name] / file
    if not path.is_file():
        raise InvalidInput(f"instance '{name}': there is no {file} yet; {_HOW} {name}")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return dict(found[variant])


def settings_for(study: Study) -> dict[str, Any]:
    """Return the settings of every family: the study's own, or those that `make tune` recorded."""
    if study.settings is not None:
        return dict(study.settings)
    return tuned_settings(study.domain.instance.name, study.variant, study.tuned)


def methods_of(study: Study) -> tuple[str, ...]:
    """Return the keys that are run unless others are asked for."""
    keys = (*DEFAULT, *study.starts, *study.references)
    return tuple(key for key in keys if key not in study.left_out)


def require_applicable(study: Study, keys: Sequence[str]) -> None:
    """Refuse methods that do not exist, or do not apply here, with the reason."""
    for key in keys:
        parse(key)
        is_own = key.rstrip("u") in (*STARTS, *REFERENCES)
        if is_own and key not in (*study.starts, *study.references):
            raise InvalidInput(f"method {key} does not apply here: the domain has none")
        if key in study.left_out:
            raise InvalidInput(f"method {key} does not apply here: {study.left_out[key]}")


@dataclass(frozen=True)
class Setup:
    """A method ready to run.

    Parameters
    ----------
    method : which one
    instance, bandit : what decides
    world : plain world → the world that the method meets
    is_pooled, asks : whether one learner serves a group; whether the operator is asked (B5)
    """

    method: Method
    instance: Instance
    bandit: Bandit
    world: Callable[[World], World]
    is_pooled: bool = False
    asks: bool = False


def build(study: Study, key: str, tuned: Mapping[str, Any]) -> Setup:
    """Put a method together from its family's settings."""
    method = parse(key)
    if key in study.references:
        reference = study.references[key]
        return Setup(method, reference.instance, reference.bandit, reference.world)
    settings = tuned.get(method.family, {})
    plain = study.domain.instance
    if not method.is_gated:
        plain = replace(plain, gate=Chain(()))
    else:
        plain = replace(plain, gate=plain.chain)
    family = method.family
    if family in SCALED:
        with_scaler = replace(plain, scaler=study.scaler(settings), gate=plain.chain)
        if key in study.starts:
            method = replace(method, teaches=study.starts[key].teaches)
        if family in study.rivals:
            bandit = study.rivals[family]
        elif family in ("B4", "B4avg"):
            bandit = study.learner(settings)
        elif family == "B4fac":
            bandit = families.factored(settings)
        else:
            bandit = families.independent(plain, settings)
        return Setup(method, with_scaler, bandit, _same)
    without = replace(plain, scaler=neutral_of(plain), gate=plain.chain)
    units = study.domain.units
    if family in study.rivals:
        return Setup(method, without, study.rivals[family], _same)
    if family == "A1" and study.unscaled is not None and family in tuned:
        return Setup(method, without, study.unscaled(settings), _same)
    if family not in tuned:
        raise InvalidInput(f"method {key}: there are no settings of {family}; {_HOW} {plain.name}")
    if family == "B5":
        taste = taste_of(without)
        return Setup(
            method,
            with_rival(without),
            families.asker(without, settings, study.features),
            lambda world: Preferences(world, without, study.own, taste),
            asks=True,
        )
    if family in ("B2s", "B2g") and settings["is_pooled"]:
        together = pooled.pooled_instance(without, units)
        learner = families.rival(family, plain, settings, study.features + pooled.names(units))
        return Setup(
            method, together, learner, lambda world: pooled.Pooled(world, units), is_pooled=True
        )
    return Setup(method, without, families.rival(family, plain, settings, study.features), _same)


def _same(world: World) -> World:
    return world
