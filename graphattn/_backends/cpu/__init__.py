"""Backend ``fused``: compiled kernels for the CPU."""

import os

IMPORT_PID = os.getpid()
"""PID at import. A forked child still sees its parent's, which tells us that PyTorch's thread pool is gone."""
