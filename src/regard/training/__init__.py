"""Rank 5: training runs that survive. Knows tasks and models only by their contracts."""
