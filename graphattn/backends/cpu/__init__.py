"""Backend ``fused``: compiled kernels for the CPU."""
