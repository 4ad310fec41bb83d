"""Rank 5: training with exact resume. Uses tasks and models only through their interfaces."""
