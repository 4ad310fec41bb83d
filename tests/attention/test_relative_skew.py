"""Skewing equals a gather, for tables smaller and larger than the sequence, with and without a cache."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.relative_skew import distance_scores, skew


@given(st.integers(1, 2), *(st.integers(0, 6),) * 2, st.integers(-9, 9), st.tuples(*(st.integers(0, 8),) * 2))
def test_skewing_equals_a_gather(b, t, s, query_offset, sides):
    reach, ahead = sides
    table, q = torch.randn(2, reach + ahead + 1, 3), torch.randn(b, 2, t, 3)
    naive = torch.zeros(b, 2, t, s)
    for i in range(t):
        for j in range(s):
            distance = max(-ahead, min(reach, query_offset + i - j))  # positive: the key is before the query
            naive[:, :, i, j] = (q[:, :, i] * table[:, reach - distance]).sum(dim=-1)
    scores = distance_scores(q, table, t, s, query_offset=query_offset, max_ahead=ahead)
    assert scores.shape == (b, 2, t, max(0, t + s - 1))
    torch.testing.assert_close(skew(scores, s), naive)


def test_skewing_is_a_view():
    scores = torch.randn(2, 3, 4, 4 + 5 - 1)
    assert skew(scores, 5).data_ptr() == scores[..., 3:].data_ptr()
