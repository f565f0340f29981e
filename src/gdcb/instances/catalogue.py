"""The seven domains by name, and what the protocol runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import Any, cast

from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import History, Rows
from gdcb.scalers import Scaler
from gdcb.simulate import Turn, World
from gdcb.streams import Stream, Streams

# Name, and the module whose `build()` makes it.
NAMES = {
    "str": "str_pricing",
    "dosing": "dosing",
    "credit": "credit",
    "grid": "grid",
    "moderation": "moderation",
    "tools": "tools",
    "kalman": "kalman",
}


@dataclass(frozen=True)
class Domain:
    """A domain that can be simulated.

    Parameters
    ----------
    instance : what it is
    bandit : the learner it recommends
    world : its simulator
    units : units a replicate
    unit : what a unit is called (listing, ward, tenant)
    is_endogenous : whether what runs changes later contexts, so that every method has a trajectory
        of its own
    about : what is real in it and what is made, for people
    """

    instance: Instance
    bandit: Bandit
    world: World
    units: int
    unit: str
    is_endogenous: bool
    about: str


def load(name: str) -> Domain:
    """Return a domain by name."""
    if name not in NAMES:
        raise InvalidInput(f"no instance '{name}'; there are {', '.join(NAMES)}")
    module = import_module(f"gdcb.instances.stylised.{NAMES[name]}")
    return cast(Domain, module.build())


@dataclass(frozen=True)
class Measure:
    """What people of the field read beside regret: time in range, a default rate.

    Parameters
    ----------
    name : in the document, such as 'time_in_range'
    label : for people, with its unit
    of : (state, e (N, D), rows) → (N,) its expected value where e ran; NaN in e: nothing did. A row
        that it does not apply to is NaN, and left out of the mean
    is_share : whether it is shown as a percentage
    """

    name: str
    label: str
    of: Callable[[Any, Array, Rows], Array]
    is_share: bool = True


@dataclass(frozen=True)
class Figure:
    """The same, where what was believed is read as well: a filter's claims about its errors.

    Parameters
    ----------
    name, label, is_share : as of a `Measure`
    of : (instance, turn) → (N,) its value in a round; NaN where it does not apply
    is_root : whether the square root of the mean is shown
    """

    name: str
    label: str
    of: Callable[[Instance, Turn], Array]
    is_share: bool = False
    is_root: bool = False


@dataclass(frozen=True)
class Reference:
    """A method of the domain's own, which is no bandit: a fixed gain, a multiple-model filter.

    Parameters
    ----------
    instance : whose one arm is to do what the method proposes
    bandit : that has nothing to choose
    world : plain world → the world in which the method's proposals stand in the context
    """

    instance: Instance
    bandit: Bandit
    world: Callable[[World], World]


@dataclass(frozen=True)
class Start:
    """The recommended method with part of its history kept from it.

    Parameters
    ----------
    label : for people
    teaches : which loops the history teaches
    change : (scaler, history) → what it is shown
    """

    label: str
    teaches: tuple[str, ...] = ("scaler", "arms")
    change: Callable[[Any, History], History] | None = None


@dataclass(frozen=True)
class Tuning:
    """What a study's priors are tuned with; `make tune` writes what it finds beside the instance.

    Parameters
    ----------
    fitted : (sample, moments, form) → settings of scaler and learner, from what a prior is made
        of (`gdcb.protocol.priors`): `form`, `scaler` and all else that `Study.scaler` and
        `Study.learner` read but the knobs, which the search turns
    forms : how context may enter the response; tuning picks one. Of several the first is 'not
        known', and `B4avg` takes it
    sample_delta : (sample, form) → (n, 1 or K, q) the δ that the scaler would find there; None:
        the scaler is taught the sample's labels or outcomes
    learned : (state, e (N, M, D), rows) → (N, M) what learners learn, exactly: the probability of
        the class that pays, or E[r]/s(x); None: worked out from the world's mean
    knobs : what the recommended learner can turn
    is_centred : whether rivals read context columns less their means
    unscaled : (sample, moments) → settings of `Study.unscaled`; None: the protocol's own A1
    replicates, episodes : of the tuning worlds on which candidates are compared
    """

    fitted: Callable[[Any, Any, str], dict[str, Any]]
    forms: tuple[str, ...] = ("",)
    sample_delta: Callable[[Any, str], Array] | None = None
    learned: Callable[[Any, Array, Rows], Array] | None = None
    knobs: tuple[str, ...] = ("scale", "signal", "width")
    is_centred: bool = True
    unscaled: Callable[[Any, Any], dict[str, Any]] | None = None
    replicates: int = 30
    episodes: int = 100


@dataclass(frozen=True)
class Study:
    """A domain as the protocol runs it: its world with a variant, its past, and its people.

    Parameters
    ----------
    domain : instance, world and units
    variant : which truth holds in the world
    features : context columns that contextual rivals read: those that the scaler reads
    past : (instance, world, state, group, streams) → what happened before the first episode
    incumbent : (stream, state, rows) → (N, D) what was proposed before there was a bandit
    own : rows → (N, D) what the operator would have done
    scaler : settings → the scaler, its prior filled in
    learner : settings → the recommended learner, its prior filled in
    delta : (state, rows) → (groups, N), or (groups, N, K) where every arm has its own, or (groups,
        N, K, q) where all columns are compared: δ°, the best of the scaler's family, on reference
        contexts
    specification : (symbol, word, value) rows: the tuple, filled in
    about : title, unit of the reward, what the action is, what is real and what is made; and
        `oracle_knows`, a sentence, where optimum and floor know what no method sees
    tuning : what `make tune` needs; None: nothing was tuned
    settings : of every family, by its name; None: those that `make tune` recorded
    rivals : learners that come as they are, by family; the others are made from their settings
    labels : what methods are called here, by key, where they are not what their key says
    left_out : why methods do not apply, by key; the protocol runs the others
    unscaled : settings → the learner of A1, which has no scaler; None: a curve over the arms'
        coordinates, or independent arms where they are categories
    edges : of bins of relative actions, for the report; None: those of prices around their base
    certified : (instance, bandit, state, group, judged) → the past as a certificate of it leaves
        its rows, for learners that do not read the context; None there: all of it was refused. It
        writes what became of the arms into `judged` (replicates, arms). None: they start from
        `past` as it is
    measures, figures : what is read beside regret, of what was executed and of whole rounds
    response : 'simulator': the world is made, and its truth known; 'model': it was fitted on a log
    references : methods of the domain's own, by key
    starts : further ablations of the warm start, by key
    tuned : the file beside the instance with the settings that `make tune` recorded
    """

    domain: Domain
    variant: str
    features: tuple[str, ...]
    past: Callable[[Instance, World, Any, Array, Streams], History]
    incumbent: Callable[[Stream, Any, Rows], Array]
    own: Callable[[Rows], Array]
    scaler: Callable[[Mapping[str, Any]], Scaler]
    learner: Callable[[Mapping[str, Any]], Bandit]
    delta: Callable[[Any, Rows], Array]
    specification: tuple[tuple[str, str, str], ...]
    about: Mapping[str, Any]
    tuning: Tuning | None = None
    settings: Mapping[str, Any] | None = None
    rivals: Mapping[str, Bandit] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    unscaled: Callable[[Mapping[str, Any]], Bandit] | None = None
    edges: Array | None = None
    certified: Callable[..., History | None] | None = None
    measures: tuple[Measure, ...] = ()
    figures: tuple[Figure, ...] = ()
    response: str = "simulator"
    references: Mapping[str, Reference] = field(default_factory=dict)
    starts: Mapping[str, Start] = field(default_factory=dict)
    tuned: str = "tuned.json"

    @property
    def read(self) -> tuple[Measure | Figure, ...]:
        """All that is read beside regret, in order."""
        return (*self.measures, *self.figures)


# Instances that the protocol can run, and the module whose `study()` makes them.
STUDIES = {
    "str": "str_pricing",
    "dosing": "dosing",
    "credit": "credit",
    "grid": "grid",
    "moderation": "moderation",
    "tools": "tools",
    "kalman": "kalman",
}
DECLARED = ".toml"  # how the name of an instance ends that is a file of the user's


def readme(name: str) -> str:
    """Return what is real in one of `STUDIES` and what is made, for people: `Domain.about`."""
    return (files("gdcb.instances") / STUDIES[name] / "README.md").read_text(encoding="utf-8")


def study(name: str, variant: str, options: Mapping[str, Any], episodes: int) -> Study:
    """Return an instance as the protocol runs it: one of `STUDIES`, or a file with its log."""
    if name.endswith(DECLARED):
        own = import_module("gdcb.instances.own_log")
        return cast(Study, own.study(name, options))
    if name not in STUDIES:
        raise InvalidInput(f"no instance '{name}'; there are {', '.join(STUDIES)}")
    module = import_module(f"gdcb.instances.{STUDIES[name]}")
    return cast(Study, module.study(variant, options, episodes))
