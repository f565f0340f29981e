"""Ask a log of past prices what a scaler, and a warm start, could hope for.

Guests pay more on busy nights, and the operator knew: busy nights had higher prices.
"""

import numpy as np

from gdcb import analysis

NIGHTS, PRICES = 3000, np.array([0.7, 0.85, 1.0, 1.15, 1.3])
rng = np.random.default_rng(3)
busy = rng.uniform(-1, 1, NIGHTS)
arm = np.clip(np.round(2 + busy + 0.8 * rng.normal(size=NIGHTS)), 0, 4).astype(int)
price = PRICES[arm]
booked = (rng.uniform(size=NIGHTS) < 1 / (1 + np.exp(8 * price / np.exp(0.6 * busy) - 8))) * 1.0
x = busy[:, None]

# Does context move the difference of two prices, against the noise of one reward?
ratio = analysis.variance_ratio(x, price, booked * price, PRICES)
print(ratio.advice)
print(f"the paper's ratio, at neutral δ: {ratio.paper:.2g}")

# A mean without context takes busy nights for good prices: by how much, and what is left of it?
bias = analysis.context_bias(x, arm, booked, reference=x, n_arms=PRICES.size, link="logistic")
for k, value in enumerate(PRICES):
    print(
        f"{value:4}: booked {booked[arm == k].mean():.2f}, off by {bias.bias[0, k]:+.2f} "
        f"({bias.low[0, k]:+.2f} to {bias.high[0, k]:+.2f}); "
        f"{bias.n[0, k]:.0f} rows count as {bias.n_eff[0, k]:.0f}"
    )

# How far can the log tell arm values and scaler apart?
cross = analysis.Design(arm, x, PRICES.size, slope=price).cross(n_bootstrap=200, seed=1)
print(
    f"ρ² {cross.rho2:.2f} ({cross.low:.2f} to {cross.high:.2f}), {cross.noise:.3f} by chance: both "
    f"take at most {cross.inflation:.2f} times the rows of the slower one"
)
