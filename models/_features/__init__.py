"""Input vectors of tokens, and features of words: characters, entries of a lexicon, hashes for linear models."""
