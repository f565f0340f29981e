"""What a certificate says in words: from figures to sentences that a regulator could read.

Every function takes plain numbers and names and returns one or two whole sentences. Times are ISO
dates, or the number of a row where the log has no time.
"""

from gdcb.history.sentences.arms import (
    arm_untried,
    bias_too_large,
    bias_unclear,
    bias_within_margin,
    cut_too_much,
    evidence,
    hardly_ever_ran,
    overlap_too_small,
)
from gdcb.history.sentences.findings import duplicates, family, finding, leak
from gdcb.history.sentences.hidden import (
    outcomes_missing,
    overrides_not_logged,
    overrides_private,
    overrides_trusted,
    sensitivity_arms,
    sensitivity_slopes,
    transport,
    variance,
    worst_case,
)
from gdcb.history.sentences.phrases import chance, day, named, short, spanned, when
from gdcb.history.sentences.times import (
    contraction,
    gate_changed,
    gate_stable,
    reward_law_changed,
    reward_law_stable,
)
from gdcb.history.sentences.verdicts import (
    MEANING,
    SHORT,
    VERDICTS,
    adjusted_by_regression,
    arms_judged,
    arms_refused,
    override_of_verdict,
    overrides_weight,
    reweighted,
    rows_since,
    rows_used,
    verdict,
)

__all__ = [
    "MEANING",
    "SHORT",
    "VERDICTS",
    "adjusted_by_regression",
    "arm_untried",
    "arms_judged",
    "arms_refused",
    "bias_too_large",
    "bias_unclear",
    "bias_within_margin",
    "chance",
    "contraction",
    "cut_too_much",
    "day",
    "duplicates",
    "evidence",
    "family",
    "finding",
    "gate_changed",
    "gate_stable",
    "hardly_ever_ran",
    "leak",
    "named",
    "outcomes_missing",
    "overlap_too_small",
    "override_of_verdict",
    "overrides_not_logged",
    "overrides_private",
    "overrides_trusted",
    "overrides_weight",
    "reward_law_changed",
    "reward_law_stable",
    "reweighted",
    "rows_since",
    "rows_used",
    "sensitivity_arms",
    "sensitivity_slopes",
    "short",
    "spanned",
    "transport",
    "variance",
    "verdict",
    "when",
    "worst_case",
]
