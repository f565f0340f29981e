"""Adapters for three public logs; the data sets themselves are not part of this repository."""
