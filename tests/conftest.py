"""What every test process starts with."""

from __future__ import annotations

import signal

# A job that runs in the background ignores Ctrl-C, and so does all that it starts. Tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
