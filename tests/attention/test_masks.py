"""Masks compared with plain predicates on positions; their combination, drawings and errors."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.masks import Mask
from regard.core.errors import ShapeError
from regard.core.state_tree import Shared, concat_states

sizes = st.integers(0, 9)


def table(mask, t, s):
    """Return a mask as a tensor (b h t s), also if it allows everything."""
    allowed = mask.dense(t, s)
    return torch.ones(1, 1, t, s, dtype=torch.bool) if allowed is None else allowed


def by_hand(allows, t, s):
    """Return the table (t s) of a predicate on (query position, key position); queries are the last t of s."""
    cells = [[bool(allows(s - t + i, j)) for j in range(s)] for i in range(t)]
    return torch.tensor(cells, dtype=torch.bool).view(t, s)


@given(sizes, sizes)
def test_causal_is_aligned_at_the_bottom_right(t, s):
    assert table(Mask.causal(), t, s).expand(1, 1, t, s)[0, 0].equal(by_hand(lambda i, j: j <= i, t, s))


@given(sizes, sizes, st.none() | st.integers(0, 5), st.none() | st.integers(0, 5))
def test_window(t, s, back, ahead):
    def allows(i, j):
        return (back is None or j >= i - back) and (ahead is None or j <= i + ahead)

    assert table(Mask.local(back, ahead), t, s).expand(1, 1, t, s)[0, 0].equal(by_hand(allows, t, s))


@given(sizes, sizes, st.integers(1, 5), st.integers(0, 5))
def test_block(t, s, query, memory):
    def allows(i, j):
        start = i // query * query
        return start - memory <= j < start + query

    assert table(Mask.block(query, memory), t, s).expand(1, 1, t, s)[0, 0].equal(by_hand(allows, t, s))


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_image_with_causal_order(height, width, query, memory):
    def allows(i, j):
        (row, column), (key_row, key_column) = divmod(i, width), divmod(j, width)
        top, left = row // query[0] * query[0], column // query[1] * query[1]
        in_rows = top - memory[0] <= key_row < top + query[0]
        in_columns = left - memory[1] <= key_column < left + query[1] + memory[1]
        return in_rows and in_columns and j <= i

    size = height * width
    mask = Mask.image(height, width, query=query, memory=memory) & Mask.causal()
    assert table(mask, size, size)[0, 0].equal(by_hand(allows, size, size))
    assert table(mask, 1, size)[0, 0].equal(by_hand(allows, 1, size))  # the last pixel, all others cached


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.none() | st.integers(6, 8))
def test_lengths(lengths, size):
    keys = Mask.lengths(torch.tensor(lengths), size).keys
    assert keys.shape == (len(lengths), max(lengths) if size is None else size)
    assert keys.sum(dim=1).tolist() == lengths
    assert all(row.tolist() == sorted(row.tolist(), reverse=True) for row in keys)


def test_lengths_of_no_rows():
    assert Mask.lengths(torch.zeros(0, dtype=torch.long)).keys.shape == (0, 0)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_and_means_both(t, s, seed):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.rand(2, 3, t, s, generator=generator) < 0.7
    keys = torch.rand(2, s, generator=generator) < 0.7
    masks = [Mask.causal(), Mask.local(2, 1), Mask.block(2, 1), Mask.explicit(pairs), Mask.present(keys), Mask()]
    for a, b in itertools.product(masks, repeat=2):
        both = table(a & b, t, s).expand(2, 3, t, s)
        assert both.equal(table(a, t, s).expand(2, 3, t, s) & table(b, t, s).expand(2, 3, t, s))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=2), st.integers(1, 6))
def test_padding_on_the_left(starts, s):
    mask = Mask.left_padded(torch.tensor(starts))
    assert table(mask, 2, s).equal(torch.tensor([[[[j >= start for j in range(s)]]] for start in starts]))
    both = mask & Mask.left_padded(torch.tensor([1, 3]))
    assert both.start.tolist() == [max(starts[0], 1), max(starts[1], 3)]
    assert (mask & Mask()).start.equal(mask.start) and not (Mask.causal() & mask).only_causal
    assert mask.submask(0, 1, keys=1).start is mask.start


def test_masks_are_concatenated_along_the_batch():
    short, long = Mask.lengths(torch.tensor([1, 2])), Mask.lengths(torch.tensor([3]))
    right, left = (concat_states(wrap(short), wrap(long)) for wrap in (Shared, tuple_of))
    assert right.value.keys.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert left[0].keys.tolist() == [[False, True, False], [False, True, True], [True, True, True]]
    starting = concat_states(
        Mask.causal() & Mask.left_padded(torch.tensor([1])), Mask.causal() & Mask.left_padded(torch.tensor([2]))
    )
    assert starting.is_causal and starting.start.tolist() == [1, 2]
    pairs = Mask.explicit(torch.ones(1, 1, 2, 2) > 0)
    assert concat_states(pairs, pairs).pairs.shape == (2, 1, 2, 2)
    assert concat_states(Mask.local(1), Mask.local(1)) == Mask.local(1)


def tuple_of(mask):
    return (mask,)


def test_different_masks_cannot_be_joined():
    with pytest.raises(ValueError, match=r"^two masks cannot be joined: one has is_causal, the other nothing$"):
        concat_states(Mask.causal(), Mask())
    with pytest.raises(ValueError, match=r"one has keys, the other start"):
        concat_states(Mask.lengths(torch.tensor([1])), Mask.left_padded(torch.tensor([1])))


def test_windows_combine_to_the_narrower():
    assert (Mask.local(5, 1) & Mask.local(2, None)).window == (2, 1)
    assert (Mask.local(None, 3) & Mask.local(None, None)).window == (None, 3)


def test_explicit_takes_two_to_four_axes():
    pairs = torch.rand(2, 3, 4, 5) < 0.5
    assert Mask.explicit(pairs[0, 0]).pairs.shape == (1, 1, 4, 5)
    assert Mask.explicit(pairs[:, 0]).pairs.equal(pairs[:, :1])
    assert Mask.explicit(pairs).pairs.equal(pairs)


@given(st.integers(1, 7), st.integers(1, 7), st.data())
def test_submask_equals_a_slice_of_the_dense_mask(t, s, data):
    low = data.draw(st.integers(0, t - 1))
    high = data.draw(st.integers(low + 1, t))
    num_keys = data.draw(st.integers(0, s))
    pairs = torch.rand(2, 1, t, s) < 0.6
    mask = Mask.causal() & Mask.explicit(pairs) & Mask.lengths(torch.tensor([s, s // 2]), s) & Mask.block(2, 1)
    expected = mask.dense(t, s).expand(2, 1, t, s)[:, :, low:high, :num_keys]
    part = mask.submask(low, high, keys=num_keys).dense(high - low, num_keys, query_offset=s - t + low)
    assert part.expand(2, 1, high - low, num_keys).equal(expected)


def test_a_mask_that_allows_everything_is_none():
    assert Mask().dense(3, 3) is None
    assert Mask.causal().dense(1, 7) is None
    assert Mask.local(back=6).dense(7, 7) is None
    assert Mask.local().dense(7, 7) is None
    assert Mask.causal().dense(0, 5) is None


def test_only_causal():
    assert Mask.causal().only_causal
    for mask in (Mask(), Mask.local(1), Mask.lengths(torch.tensor([1])), Mask.explicit(torch.ones(1, 1) > 0)):
        assert not mask.only_causal
        assert not (Mask.causal() & mask).only_causal or mask == Mask()


def test_printing_draws_the_mask():
    assert str(Mask.explicit(torch.tensor([[True, False], [False, True]]))) == "■ ·\n· ■"
    assert str(Mask.present(torch.tensor([[False, True]]))) == "· ■\n· ■"
    assert str(Mask.causal()).splitlines()[0] == "■ · · · · · · ·"
    image = Mask.image(2, 2, query=(1, 2), memory=(0, 0))
    assert str(image) == "■ ■ · ·\n■ ■ · ·\n· · ■ ■\n· · ■ ■"
    column = Mask.explicit(torch.tensor([[True], [False]])) & Mask.present(torch.tensor([[True, True, False]]))
    assert str(column) == "■ ■ ·\n· · ·"


def test_a_large_mask_is_truncated_when_printed():
    assert len(str(Mask.lengths(torch.tensor([5000]))).splitlines()) == 64


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Mask.local(back=-1), "Mask.local: back=-1 is negative"),
        (lambda: Mask.local(ahead=-2), "ahead=-2 is negative; give a number of positions, or None"),
        (lambda: Mask.block(0, 2), "Mask.block: query=0, memory=2; query must be at least 1"),
        (lambda: Mask.block(2, -1), "memory=-1"),
        (lambda: Mask.image(4, 4, query=(2, 0), memory=(0, 0)), "Mask.image: 4x4, query=(2, 0), memory=(0, 0)"),
        (
            lambda: Mask.lengths(torch.ones(2, 2, dtype=torch.long)),
            "needs an integer tensor (b), one length per row; got int64 (2, 2)",
        ),
        (lambda: Mask.lengths(torch.ones(2)), "got float32 (2,)"),
        (lambda: Mask.lengths(torch.tensor([2, -1])), "Mask.lengths: length -1 is negative; give 0 for a row without"),
        (lambda: Mask.lengths(torch.tensor([2, -1]), 3), "Mask.lengths: length -1 is negative"),
        (lambda: Mask.lengths(torch.tensor([2]), -3), "Mask.lengths: size=-3 is negative; give the padded length"),
        (lambda: Mask.lengths(torch.ones(2, device="meta").long()), "the lengths have no values here; give the padded"),
        (
            lambda: Mask.present(torch.ones(2, 3)),
            "Mask.present: needs a bool tensor (b s), True = present; got float32",
        ),
        (
            lambda: Mask.left_padded(torch.ones(2)),
            "Mask.left_padded: needs an integer tensor (b), one start per row; got float32 (2,)",
        ),
        (lambda: Mask.left_padded(torch.tensor([1, 2])).check_batch(3, 1), "it has 2 rows but the batch 3"),
        (lambda: Mask.explicit(torch.zeros(2, 3)), "True = may attend; got float32 (2, 3)"),
        (lambda: Mask.explicit(torch.ones(3) > 0), "got bool (3,)"),
        (lambda: Mask.block(2, 1) & Mask.block(3, 1), "cannot combine Blocks(query=2, memory=1) with Blocks(query=3"),
        (
            lambda: Mask.image(2, 2, query=(1, 1), memory=(0, 0)) & Mask.image(3, 2, query=(1, 1), memory=(0, 0)),
            "give one of them as Mask.explicit",
        ),
        (
            lambda: Mask.lengths(torch.tensor([2])) & Mask.lengths(torch.tensor([3])),
            "cannot combine masks whose keys are (1, 2) and (1, 3)",
        ),
        (
            lambda: Mask.lengths(torch.tensor([2, 4])).dense(3, 5),
            "it is for 4 keys but there are 5; build it for 5",
        ),
        (lambda: Mask.explicit(torch.ones(2, 3) > 0).dense(3, 3), "it is 2 x 3, but there are 3 queries and 3 keys"),
        (
            lambda: Mask.image(2, 2, query=(1, 1), memory=(0, 0)).dense(1, 5),
            "an image of 2 x 2 has fewer than 5 positions",
        ),
        (
            lambda: Mask.lengths(torch.tensor([2, 4])).check_batch(3, 1),
            "it has 2 rows but the batch 3; build it for 3 rows",
        ),
        (lambda: Mask.explicit(torch.ones(1, 2, 3, 3) > 0).check_batch(1, 4), "it has 2 heads but the attention 4"),
    ],
)
def test_errors_name_the_value_and_the_remedy(make, text):
    with pytest.raises(ShapeError) as error:
        make()
    assert text in str(error.value)
    assert "\n" not in str(error.value)
