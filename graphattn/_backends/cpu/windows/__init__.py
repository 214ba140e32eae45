"""Kernels for destinations whose keys are contiguous."""
