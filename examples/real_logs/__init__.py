"""Adapters for two public logs; the data sets themselves are not part of this repository."""
