"""Rank 5: looking inside. An example becomes an Inspection (maps, tokens, numbers), and that a page or a figure."""
