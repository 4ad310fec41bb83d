"""Classes: a token each, asked for by name, and one line for a composer nobody knows."""

import pytest

from regard.core.errors import DataError
from regard.tasks.music.conditions import FIRST, Classes, classes_of

KNOWN = classes_of(("composer", "mode"), ["Liszt", "Bach", "", "Bach"])


def test_names_are_tokens():
    assert KNOWN.names == ("composer:Bach", "composer:Liszt", "mode:major", "mode:minor")
    assert KNOWN.size == FIRST + 4
    assert KNOWN.row(["mode:minor", "composer:Bach"]) == [FIRST + 3, FIRST]
    assert KNOWN.row([]) == [0]
    assert len(classes_of(("key",), []).names) == 24


def test_classes_are_asked_for_by_name():
    assert KNOWN.ask(["bach", "Minor"]).tokens.tolist() == [[FIRST, FIRST + 3]]
    assert KNOWN.ask([]).tokens.tolist() == [[0]]


def test_an_unknown_composer():
    with pytest.raises(DataError, match=r"^the model does not know the class 'List'; did you mean 'Liszt'\?$"):
        KNOWN.ask(["List"])
    with pytest.raises(DataError, match=r"^the model does not know the class 'Bach'; it was trained without data.cond"):
        Classes(()).ask(["Bach"])
