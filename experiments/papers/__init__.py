"""Data sets, settings and runs behind the result tables."""
