"""What pages show, as frozen records: no clock, no database, nothing to look up while drawing.

Times are microseconds since the epoch, UTC; what is not known is None.
"""
