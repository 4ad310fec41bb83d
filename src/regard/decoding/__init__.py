"""Decoding: the search loop, its constraints and stopping rules, and the strategies."""
