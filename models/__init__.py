"""Floor 2: encoders, heads, training, estimators, saving."""
