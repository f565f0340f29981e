"""The published equations of glucose and insulin after a meal, for many patients at once.

The model is UVA/Padova's of type 1 diabetes (Dalla Man, Rizza and Cobelli 2007; Kovatchev et al.
2009) as simglucose writes it down. Its thirteen states are glucose in the stomach (solid,
liquid) and in the gut, mg; glucose in plasma and in tissue, mg/kg; insulin in plasma, pmol/kg; its
action on glucose use; two delays of its action on the liver, pmol/L; insulin in the liver and in
two depots under the skin, pmol/kg; glucose under the skin, mg/kg.
"""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.dosing.patients import N_STATES, UNIT, Patients

(SOLID, LIQUID, GUT, PLASMA, TISSUE, INSULIN, USE, DELAY, LIVER_SIGNAL) = range(9)
LIVER_INSULIN, DEPOT, SECOND_DEPOT, SKIN = range(9, N_STATES)
HELD = (PLASMA, TISSUE, INSULIN, LIVER_INSULIN, DEPOT, SECOND_DEPOT, SKIN)  # stop below 0


class Flow:
    """dx/dt of n patients under a meal and an infusion that are constant for a while.

    Parameters
    ----------
    patients : whose parameters
    """

    def __init__(self, patients: Patients) -> None:
        p = self._p = patients
        self._per_unit = UNIT / p.BW
        self._appears = p.f * p.kabs / p.BW
        self._half = 0.5 * (p.kmax - p.kmin)
        self._out = p.m2 + p.m4
        self._liver_out = p.m1 + p.m30
        self._depot_out = p.ka1 + p.kd
        self._aa = 2.5 / (1.0 - p.b)
        self._cc = 2.5 / p.d
        self._is_held = np.zeros((N_STATES, 1), dtype=bool)
        self._is_held[list(HELD)] = True
        self.hold(np.zeros(p.BW.size), np.zeros(p.BW.size), np.zeros(p.BW.size))

    def hold(self, eaten: Array, infused: Array, meal: Array) -> None:
        """Set what flows in: carbohydrate g/min, insulin U/min, and the meal so far, mg.

        `meal` is D̄, what lay in the stomach when the meal began and what was eaten since; without
        one the stomach empties at its fastest.
        """
        self._eaten = 1000.0 * eaten
        self._infused = infused * self._per_unit
        self._has_meal = meal > 0.0
        size = np.where(self._has_meal, meal, 1.0)
        self._aa_now, self._cc_now = self._aa / size, self._cc / size
        self._b_now, self._d_now = self._p.b * size, self._p.d * size

    def __call__(self, x: Array) -> Array:
        """Return dx/dt: (13, n) of x (13, n)."""
        p, out = self._p, np.empty_like(x)
        stomach = x[SOLID] + x[LIQUID]
        empties = p.kmin + self._half * (
            np.tanh(self._aa_now * (stomach - self._b_now))
            - np.tanh(self._cc_now * (stomach - self._d_now))
            + 2.0
        )
        empties = np.where(self._has_meal, empties, p.kmax)
        ground, leaves = p.kmax * x[SOLID], empties * x[LIQUID]
        out[SOLID] = self._eaten - ground
        out[LIQUID] = ground - leaves
        out[GUT] = leaves - p.kabs * x[GUT]
        made = np.maximum(p.kp1 - p.kp2 * x[PLASMA] - p.kp3 * x[LIVER_SIGNAL], 0.0)
        lost = p.ke1 * np.maximum(x[PLASMA] - p.ke2, 0.0)
        exchange = p.k1 * x[PLASMA] - p.k2 * x[TISSUE]
        out[PLASMA] = made + self._appears * x[GUT] - p.Fsnc - lost - exchange
        used = (p.Vm0 + p.Vmx * x[USE]) * x[TISSUE] / (p.Km0 + x[TISSUE])
        out[TISSUE] = exchange - used
        out[INSULIN] = (
            p.m1 * x[LIVER_INSULIN]
            + p.ka1 * x[DEPOT]
            + p.ka2 * x[SECOND_DEPOT]
            - self._out * x[INSULIN]
        )
        level = x[INSULIN] / p.Vi
        out[USE] = p.p2u * (level - p.Ib - x[USE])
        out[DELAY] = p.ki * (level - x[DELAY])
        out[LIVER_SIGNAL] = p.ki * (x[DELAY] - x[LIVER_SIGNAL])
        out[LIVER_INSULIN] = p.m2 * x[INSULIN] - self._liver_out * x[LIVER_INSULIN]
        out[DEPOT] = self._infused - self._depot_out * x[DEPOT]
        out[SECOND_DEPOT] = p.kd * x[DEPOT] - p.ka2 * x[SECOND_DEPOT]
        out[SKIN] = p.ksc * (x[PLASMA] - x[SKIN])
        if x.min() < 0.0:
            out[self._is_held & (x < 0.0)] = 0.0
        return out
