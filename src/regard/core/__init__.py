"""Rank 0: configuration, files, errors and interfaces that every other package may import. Nothing about attention."""
