"""The context of a post: twelve features of its text, two attributes, two costs."""

from __future__ import annotations

from gdcb.context import Number, Schema
from gdcb.instances.moderation import features

CATEGORIES = ("allow", "warn", "remove")
ALLOW, WARN, REMOVE = range(3)
SCHEMA = Schema(
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
# What severity is read from, and what rivals read: the text and its attributes, not the costs.
FEATURES = (*features.NAMES, "reach", "reports")
TEXT = len(features.NAMES)
REACH, REPORTS, VIOLATION_COST, APPEAL_COST = range(TEXT, TEXT + 4)
# What only the world and the moderator see: the post, its severity, the house's reading, t.
POST, SEVERITY, READING, ROUND = range(4)
