"""Rank 0: what every other package may lean on. Knows nothing of attention."""
