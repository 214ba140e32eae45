"""GraphAttn."""
