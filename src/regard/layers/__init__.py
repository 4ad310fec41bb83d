"""Rank 2: trainable parts around the mechanisms."""
