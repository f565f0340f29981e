"""Logs in: read, validate, certify, start warm."""
