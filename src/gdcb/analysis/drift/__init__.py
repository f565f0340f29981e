"""After launch: online monitors of gates, rewards and contexts, and what an alarm calls for."""

from gdcb.analysis.drift.betting import Alarm, Monitors, MonitorState
from gdcb.analysis.drift.limits import mean_limits
from gdcb.analysis.drift.seen import Seen, seen_in_events, seen_in_history
from gdcb.analysis.drift.watch import Reaction, Watch
from gdcb.analysis.drift.watchlist import Reference, WatchList

__all__ = [
    "Alarm",
    "MonitorState",
    "Monitors",
    "Reaction",
    "Reference",
    "Seen",
    "Watch",
    "WatchList",
    "mean_limits",
    "seen_in_events",
    "seen_in_history",
]
