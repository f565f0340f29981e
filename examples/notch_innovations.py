"""Bookings are tracked by a filter with fixed defaults; a weekly line hides in its innovations.

The line is neither noise nor motion of the level. It is found at a stated false-alarm rate, taken
out before Q and R are fitted, and taken off the bookings of the next quarter.
"""

import numpy as np

from gdcb.kalman.autocovariance import autocovariance_fit
from gdcb.kalman.filter import Model, kalman_filter
from gdcb.kalman.line_response import measurement_lines
from gdcb.kalman.riccati import gain, riccati
from gdcb.kalman.spectrum import find_lines, line_profile, notch

rng = np.random.default_rng(7)
days, after, q, r = 730, 91, 0.3, 2.0
level = np.cumsum(np.sqrt(q) * rng.normal(size=days + after))
week = 1.8 * np.cos(2 * np.pi * np.arange(days + after) / 7 + 0.5)
bookings = level + week + np.sqrt(r) * rng.normal(size=days + after)

# History under fixed defaults (Q₀, R₀): too stiff a filter.
one = np.eye(1)
defaults = Model(one, one, 0.05 * one, r * one)
k0 = gain(one, riccati(one, one, 0.05 * one, r * one), r * one)
history = bookings[:days, None, None]
past = kalman_filter(history, defaults, np.zeros(1), one, gains=k0)

lines = find_lines(past.innovation[:, :, 0], periods=(7.0, 30.44))
print(f"{lines.n_lines} line: period {lines.period[0]:g} days, p = {lines.p_value[0]:.1g}")

fits = {
    "with the line": autocovariance_fit(past.innovation, one, one, k0),
    "notched": autocovariance_fit(notch(past.innovation[:, :, 0], lines)[..., None], one, one, k0),
}
print(f"truth: Q = {q:g}, R = {r:g}")
for name, fit in fits.items():
    print(f"{name}: Q = {fit.process.item():.2f}, R = {fit.noise.item():.2f}")

# In the innovations a line is what the filter left of it; in the bookings it is larger or smaller.
weekly = measurement_lines(lines, one, one, k0)
seen_in = f"{lines.amplitude[0, 0]:.2f} in the innovations, {weekly.amplitude[0, 0]:.2f} in"
print(f"amplitude {seen_in} the bookings, where the truth is 1.80")

profile = line_profile(weekly, np.arange(days + after))[:, 0]
fitted = {name: Model(one, one, fit.process, fit.noise) for name, fit in fits.items()}
for name, model, taken in (
    ("as before", defaults, 0.0 * profile),
    ("fit with the line", fitted["with the line"], 0.0 * profile),
    ("notched fit, line left in", fitted["notched"], 0.0 * profile),
    ("notched fit, line taken off", fitted["notched"], profile),
):
    seen = (bookings - taken)[:, None, None]
    tracked = kalman_filter(seen, model, np.zeros(1), one).mean[days:, 0, 0]
    print(f"{name}: RMSE {np.sqrt(np.mean((tracked - level[days:]) ** 2)):.2f} in the next quarter")
