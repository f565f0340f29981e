"""The prior over networks and hours: every constant of the made part of the world."""

from __future__ import annotations

import numpy as np

# Money, in hundreds of euros. An hour in which a limit would be broken is paid with load that is
# cut off unasked: its value to households, and the energy price of contracted interruption.
VOLL = 30.0  # a MWh: 3,000 €, between industry and commerce (£1,400) and households (£10,289)
PRICE = 4.0  # a MWh: 400 €, the highest energy price of the German ordinance on sheddable loads
RATED = 5.02  # MVA of the feeder's first lines: what a whole unit of the margin is worth in load
RESERVE = -25.0  # expected reward where no shed is feasible: a mobile generator for the hour

# Of a network (a replicate): medians and standard deviations of logarithms, or uniform ranges.
VOLL_SD, PRICE_SD = 0.25, 0.2
SWING, SWING_SD = 0.05, 0.2  # scale of the logistic law of the margin within an hour
PEAK, PEAK_SD = 4.05, 0.1  # MW of the feeder in a flagged hour, before heat and noise
COOLING, COOLING_SD = 0.03, 0.25  # MW a °C above `WARM`
VOLTAGE = (0.995, 1.025)  # p.u. at the 110 kV busbar
PANELS = (0.5, 1.8)  # MW of PV
SUMMER, SUMMER_SD = 27.0, 1.5  # °C, the mean temperature of flagged hours
# Of a zone, around its network.
PRICE_OWN, SWING_OWN = 0.25, 0.25  # of logarithms
FLEXIBLE = (0.70, 0.90)  # share of its load that is under contract
# Of an hour.
HOURS = (8, 22)  # flagged ones
LOAD_SD, WARM, WEATHER_SD, SWAY = 0.16, 24.0, 2.5, 2.5
EVENING = 0.3  # how much dearer an interruption is at 19 h than on average
# What nobody controls: noise of the settled reward, and of the offset that planning finds.
NOISE, LABEL_NOISE = 1.5, 0.15
PLANNED = 0.10  # margin that planning aims at when it works out what the shed should have been
FARTHEST = (-0.5, 1.6)  # MW between which its answers lie

# The stylised truth of `well`: a parabola around the need of an hour.
NEED, NEED_SD, NEED_OWN = 0.5, 0.12, 0.12  # MW at an average hour
WIDTH, WIDTH_SD = 0.65, 0.15  # MW off the need at which `STAKE` is lost; sd of its logarithm
STAKE = 5.0
LEVEL = 2.0


def evening(cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """Return cos(2π(h − 19)/24) from the hour's columns: 1 at 19 h, −1 at 7 h."""
    angle = 2.0 * np.pi * 19.0 / 24.0
    return np.asarray(cosine * np.cos(angle) + sine * np.sin(angle))
