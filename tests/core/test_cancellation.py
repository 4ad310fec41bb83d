"""Long work that can be given up."""

from __future__ import annotations

import pytest

from regard.core.cancellation import Cancelled, cancellable, check_cancelled


def test_work_ends_where_it_breathes_once_it_is_given_up():
    done = []

    def ask():
        if len(done) == 3:
            raise Cancelled("nobody waits")

    def work():
        for part in range(10):
            check_cancelled()
            done.append(part)

    with cancellable(ask), pytest.raises(Cancelled, match="nobody waits"):
        work()
    assert done == [0, 1, 2]
    check_cancelled()  # and where nobody can say no, nothing happens
