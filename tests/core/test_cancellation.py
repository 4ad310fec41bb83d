"""Cooperative cancellation of long work."""

from __future__ import annotations

import pytest

from regard.core.cancellation import Cancelled, cancellable, check_cancelled


def test_work_stops_at_the_next_check_after_cancellation():
    done = []

    def check():
        if len(done) == 3:
            raise Cancelled("the client disconnected")

    def work():
        for part in range(10):
            check_cancelled()
            done.append(part)

    with cancellable(check), pytest.raises(Cancelled, match="the client disconnected"):
        work()
    assert done == [0, 1, 2]
    check_cancelled()  # a no-op without a caller
