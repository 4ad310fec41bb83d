"""Rank 5: inspection. An input becomes an Inspection (maps, tokens, values), and that a page or a figure."""
