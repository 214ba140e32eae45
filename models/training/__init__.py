"""Training on Lightning: module, loop, checkpoints, metrics and weight averaging."""
