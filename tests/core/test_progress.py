"""Progress: told to whoever watches, and to nobody otherwise."""

from __future__ import annotations

from regard.core import progress


def test_a_watcher_is_told_after_each_item():
    told = []
    with progress.progress_callback(told.append):
        assert list(progress.track("abcd", 4)) == list("abcd")
        assert list(progress.track([[1, 2, 3], [4]], 4, len)) == [[1, 2, 3], [4]]
        assert list(progress.track([1], 0)) == [1]
    assert told == [0.25, 0.5, 0.75, 1.0, 0.75, 1.0, 1.0]


def test_nobody_need_watch():
    told = []
    with progress.progress_callback(told.append):
        pass
    assert list(progress.track("ab", 2)) == ["a", "b"] and not told
