"""The thirty virtual patients of simglucose: their parameters, read from the installed package."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

PACKAGE, FILE = "simglucose", "params/vpatient_params.csv"
N_STATES = 13
UNIT = 6000.0  # pmol of insulin a unit


@dataclass(frozen=True)
class Patients:
    """Parameters of n patients, named as in the published model: (n,) each.

    Parameters
    ----------
    BW : body weight, kg
    kabs, kmax, kmin, b, d, f : of the stomach and the gut
    kp1, kp2, kp3, ki : of the liver's glucose production and the insulin that delays it
    Fsnc, Vm0, Vmx, Km0, k1, k2, p2u : of glucose use and its two pools
    ke1, ke2 : of what the kidneys let go
    m1, m2, m4, m30, Ib, Vi : of plasma and liver insulin
    ka1, ka2, kd, u2ss : of insulin under the skin; `u2ss` is the basal rate, pmol/kg/min
    ksc, Vg : of glucose under the skin, and the volume (dL/kg) that makes it a concentration
    """

    BW: Array
    kabs: Array
    kmax: Array
    kmin: Array
    b: Array
    d: Array
    f: Array
    kp1: Array
    kp2: Array
    kp3: Array
    ki: Array
    Fsnc: Array
    Vm0: Array
    Vmx: Array
    Km0: Array
    k1: Array
    k2: Array
    p2u: Array
    ke1: Array
    ke2: Array
    m1: Array
    m2: Array
    m4: Array
    m30: Array
    Ib: Array
    Vi: Array
    ka1: Array
    ka2: Array
    kd: Array
    u2ss: Array
    ksc: Array
    Vg: Array

    @property
    def basal(self) -> Array:
        """Basal insulin that holds the patient where the model starts: U/min."""
        return np.asarray(self.u2ss * self.BW / UNIT)

    def take(self, index: Array) -> Patients:
        """Return the patients at `index`."""
        return Patients(**{one.name: getattr(self, one.name)[index] for one in fields(self)})


@dataclass(frozen=True)
class Cohort:
    """The thirty: names, parameters and the states (13, 30) in which the model starts."""

    names: tuple[str, ...]
    patients: Patients
    start: Array


def folder() -> Path:
    """Return where simglucose lies, without importing it: its own import drags in a toolkit."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidInput(
            "the virtual patients are simglucose's, which is not installed; "
            'pip install "gdcb[domains]"'
        )
    return Path(spec.submodule_search_locations[0])


@cache
def cohort() -> Cohort:
    """Read the thirty patients: 10 adolescents, 10 adults, 10 children, in the file's order."""
    path = folder() / FILE
    if not path.is_file():
        raise InvalidInput(
            f'simglucose is installed without {FILE}; pip install --force-reinstall "gdcb[domains]"'
        )
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = tuple(row["Name"] for row in rows)

    def column(name: str) -> Array:
        try:
            return np.array([float(row[name]) for row in rows])
        except (KeyError, ValueError) as error:
            raise InvalidInput(f"simglucose's {FILE}: expected numbers in {name}") from error

    patients = Patients(**{one.name: column(one.name) for one in fields(Patients)})
    start = np.stack([column(f"x0_{i:2d}") for i in range(1, N_STATES + 1)])
    return Cohort(names, patients, start)
