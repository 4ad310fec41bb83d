"""Long work that can be given up."""

from __future__ import annotations

import pytest

from regard.core.cancellation import GivenUp, asking, breathe


def test_work_ends_where_it_breathes_once_it_is_given_up():
    done = []

    def ask():
        if len(done) == 3:
            raise GivenUp("nobody waits")

    def work():
        for part in range(10):
            breathe()
            done.append(part)

    with asking(ask), pytest.raises(GivenUp, match="nobody waits"):
        work()
    assert done == [0, 1, 2]
    breathe()  # and where nobody can say no, nothing happens
