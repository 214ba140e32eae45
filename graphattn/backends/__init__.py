"""Backends of attend."""
