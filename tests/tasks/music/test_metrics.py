"""Evaluation windows count every token once."""

from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.music.metrics import excerpts


@given(st.integers(1, 300), st.sampled_from([8, 16, 40, 64, 1000]))
def test_windows_count_every_token_once(length, size):
    windows = excerpts(length, size, 8)
    positions = [position for window in windows for position in range(window.score_start, window.end)]
    assert positions == list(range(length))
    for window in windows:
        assert window.start % 8 == 0
        assert window.end - window.start <= max(size, 8)
        assert window.start == 0 or window.score_start - window.start >= size - max(8, size // 2)
