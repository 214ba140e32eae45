"""The one place that imports DGL, with PyTorch chosen silently and the kernels off that crash on some CPUs."""

from __future__ import annotations

import os

os.environ.setdefault("DGLBACKEND", "pytorch")  # else DGL prints a notice and writes into the home directory

import dgl

dgl.use_libxsmm(False)

__all__ = ["dgl"]
