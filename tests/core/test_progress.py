"""Progress is reported to the callback, if there is one."""

from __future__ import annotations

from regard.core import progress


def test_the_callback_is_called_after_each_item():
    fractions = []
    with progress.progress_callback(fractions.append):
        assert list(progress.track("abcd", 4)) == list("abcd")
        assert list(progress.track([[1, 2, 3], [4]], 4, len)) == [[1, 2, 3], [4]]
        assert list(progress.track([1], 0)) == [1]
    assert fractions == [0.25, 0.5, 0.75, 1.0, 0.75, 1.0, 1.0]


def test_no_callback_is_needed():
    fractions = []
    with progress.progress_callback(fractions.append):
        pass
    assert list(progress.track("ab", 2)) == ["a", "b"] and not fractions
