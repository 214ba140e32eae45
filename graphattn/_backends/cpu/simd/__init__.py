"""Vector registers for Numba."""
