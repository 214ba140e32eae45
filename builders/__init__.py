"""Floor 1: from corpora to sentences to DGL graphs."""
