"""Rank 5: looking inside. An example becomes an Inspection (maps, tokens, numbers), which becomes a page or a figure."""
