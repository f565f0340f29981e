"""Another gate, another policy: what a gated log says of them, and where it says nothing."""

from gdcb.analysis.what_if.answer import Answer
from gdcb.analysis.what_if.ask import ask, ask_all
from gdcb.analysis.what_if.asked import Conditions
from gdcb.analysis.what_if.log import GatedLog, gated_log, log_of
from gdcb.analysis.what_if.questions import (
    Propose,
    Question,
    ReplaceGate,
    SecondReviewer,
    WithoutGate,
)

__all__ = [
    "Answer",
    "Conditions",
    "GatedLog",
    "Propose",
    "Question",
    "ReplaceGate",
    "SecondReviewer",
    "WithoutGate",
    "ask",
    "ask_all",
    "gated_log",
    "log_of",
]
