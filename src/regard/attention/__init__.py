"""Rank 1: attention. Scores, masks, normalizers, position biases, `Weigh`, `Attend` and recording of attention maps."""
