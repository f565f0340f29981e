"""The context of a post: twelve features of its text, two attributes, two costs, and advice."""

from __future__ import annotations

from gdcb.context import Number, Schema
from gdcb.instances.moderation import features

CATEGORIES = ("allow", "warn", "remove")
REMOVE = CATEGORIES.index("remove")
LIVE = Schema(
    {
        **{
            name: Number(0, 1, about)
            for name, about in zip(features.NAMES, features.ABOUT, strict=True)
        },
        "reach": Number(0, 1, "readers reached, as a share of the community"),
        "reports": Number(0, 1, "reports by readers before the decision, 1 at ten"),
        "violation_cost": Number(0, 10, "what a violation costs this community"),
        "appeal_cost": Number(0, 10, "what an appeal costs this community"),
    }
)
# In a simulation one column more, for rivals: severity as the off-the-shelf model reads it. Live
# our scaler starts from that model and learns its own.
SCHEMA = Schema(
    {
        **LIVE.columns,
        "advice": Number(-5, 5, "severity by a frozen model of other platforms' panels"),
    }
)
# What our scaler reads severity from: the text and its attributes, not the costs.
FEATURES = (*features.NAMES, "reach", "reports")
SHOWN = (*FEATURES, "advice")  # what contextual rivals read: the same, and the advice
TEXT = len(features.NAMES)
REACH, REPORTS, VIOLATION_COST, APPEAL_COST, ADVICE = range(TEXT, TEXT + 5)
# What only the world and the moderator see: the post, its severity, the house's reading, t.
POST, SEVERITY, READING, ROUND = range(4)
