"""How strong a hidden cause would have to be to overturn a slope (Cinelli and Hazlett 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gdcb.parts import check_number


@dataclass(frozen=True, slots=True)
class RobustnessValue:
    """What share of both residual variances a hidden cause must explain to undo a slope.

    Parameters
    ----------
    value : RV, to bring the estimate down by the share `q` of itself
    at_level : RV_α, to bring it within its own error of that
    partial_r2 : t²/(t² + df), the share that it must explain of the action if it explains all
        that is left of the outcome
    says : one sentence
    """

    value: float
    at_level: float
    partial_r2: float
    says: str


def robustness_value(
    t: float, freedom: float, *, q: float = 1.0, alpha: float = 0.05
) -> RobustnessValue:
    """Return how strong a hidden cause must be to undo a slope, from its t and its freedom.

    f = q|t|/√df; RV = ½{√(f⁴ + 4f²) − f²}: a hidden cause that explains less than RV of what is
    left of the action and of the outcome cannot bring the slope down by the share q. RV_α is the
    same with f less |t*|/√(df − 1), t* the critical value with df − 1: it cannot make the slope
    insignificant at α (Cinelli and Hazlett 2020, 4.2; for f·f* > 1 the extreme case of their
    later software, (f² − f*²)/(1 + f²)).

    Parameters
    ----------
    t : slope over its standard error
    freedom : df, residual degrees of freedom
    q : share of the slope that is to be undone
    alpha : level of RV_α

    Notes
    -----
    Assumes: a linear regression with the usual standard error.

    Stops applying: a robust error in t says something else than a share of variances.

    Examples
    --------
    The example of the paper, t = 4.18 with 783 degrees of freedom: 13.9 %, 7.6 % and 2.2 %.

    >>> found = robustness_value(4.18, 783)
    >>> [round(100 * share, 1) for share in (found.value, found.at_level, found.partial_r2)]
    [13.9, 7.6, 2.2]
    """
    from scipy.special import stdtrit

    check_number("t", t)
    check_number("freedom", freedom, 1.0, open_low=True)
    check_number("q", q, 0.0, open_low=True)
    check_number("alpha", alpha, 0.0, 1.0, open_low=True)
    f = q * abs(t) / math.sqrt(freedom)
    critical = abs(float(stdtrit(freedom - 1.0, alpha / 2.0))) / math.sqrt(freedom - 1.0)
    value, at_level = _share(f), _share(max(f - critical, 0.0))
    if critical > 0 and f > max(critical, 1.0 / critical):
        at_level = (f * f - critical * critical) / (1.0 + f * f)
    undone = "the whole effect" if q == 1 else f"{100 * q:g} % of the effect"
    said = (
        f"An unmeasured cause that explains {100 * value:.2g} % of the remaining variation in both "
        f"the action and the outcome would account for {undone}; one that explains "
        f"{100 * at_level:.2g} % would make it insignificant, if the regression is linear and its "
        "rows are independent."
    )
    return RobustnessValue(value, at_level, t * t / (t * t + freedom), said)


def _share(f: float) -> float:
    # Not √(f⁴ + 4f²) − f², which loses its digits where f is large.
    return 2.0 / (1.0 + math.sqrt(1.0 + 4.0 / (f * f))) if f > 0 else 0.0
