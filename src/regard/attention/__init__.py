"""Rank 1: the mechanisms. Score, mask, normaliser, position inside the score; weighing, attending, looking."""
