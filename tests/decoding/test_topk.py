"""top_k equals torch.topk, with deterministic ties."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.topk import BLOCK_COLUMNS, MAX_ARGMAX_K, top_k


def by_sorting(scores, k):
    values, columns = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], columns[:, :k]


@pytest.mark.parametrize("size", [1, 5, 63, 1000, 8000, 8000 + 17])
@pytest.mark.parametrize("k", [1, 2, 5, MAX_ARGMAX_K, MAX_ARGMAX_K + 1, 40])
def test_equals_torch(size, k):
    scores = torch.randn(7, size)
    values, columns = top_k(scores, k)
    assert torch.equal(values, scores.topk(min(k, size)).values)
    assert torch.equal(scores.gather(1, columns), values)


@given(
    size=st.integers(1, 20 * BLOCK_COLUMNS),
    k=st.integers(1, MAX_ARGMAX_K + 4),
    levels=st.sampled_from([1, 4, 300, 3000]),
    forbidden=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_ties_go_to_the_leftmost(size, k, levels, forbidden, seed):
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(levels, (3, size), generator=random).float()
    scores[torch.rand(scores.shape, generator=random) < forbidden] = -torch.inf
    values, columns = top_k(scores, k)
    expected_values, expected_columns = by_sorting(scores, k)
    assert torch.equal(values, expected_values)
    assert torch.equal(columns, expected_columns)


def test_the_input_is_not_modified():
    scores = torch.randn(3, 8000)
    before = scores.clone()
    top_k(scores, 5)
    assert torch.equal(scores, before)


def test_ties_across_blocks():
    """A block with a larger maximum is selected first; its other entries still rank after equal ones to their left."""
    scores = torch.zeros(1, 20 * BLOCK_COLUMNS)
    scores[0, [3 * BLOCK_COLUMNS, 3 * BLOCK_COLUMNS + 1, 9 * BLOCK_COLUMNS, 9 * BLOCK_COLUMNS + 1]] = torch.tensor(
        [4.0, 3.0, 5.0, 3.0]
    )
    assert top_k(scores, 3)[1].tolist() == [[9 * BLOCK_COLUMNS, 3 * BLOCK_COLUMNS, 3 * BLOCK_COLUMNS + 1]]
