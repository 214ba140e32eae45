"""Kernels for any edges."""
