"""Backend ``triton``: fused attention on a GPU, one launch for all heads of a layer that have ranges of keys."""
