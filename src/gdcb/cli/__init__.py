"""The command line: one file a command."""

from gdcb.cli.app import app

__all__ = ["app"]
