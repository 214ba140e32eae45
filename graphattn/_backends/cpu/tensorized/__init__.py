"""Tensorized attention (MTSA): plans, kernels and the exact fallback."""
