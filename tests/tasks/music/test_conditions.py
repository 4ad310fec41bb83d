"""Classes: a token each, asked for by name, and one line for a composer nobody knows."""

import pytest

from regard.core.errors import DataError
from regard.tasks.music.conditions import FIRST_CLASS_ID, ConditionClasses, build_classes

KNOWN = build_classes(("composer", "mode"), ["Liszt", "Bach", "", "Bach"])


def test_names_are_tokens():
    assert KNOWN.names == ("composer:Bach", "composer:Liszt", "mode:major", "mode:minor")
    assert KNOWN.size == FIRST_CLASS_ID + 4
    assert KNOWN.encode(["mode:minor", "composer:Bach"]) == [FIRST_CLASS_ID + 3, FIRST_CLASS_ID]
    assert KNOWN.encode([]) == [0]
    assert len(build_classes(("key",), []).names) == 24


def test_classes_are_asked_for_by_name():
    assert KNOWN.encode_request(["bach", "Minor"]).tokens.tolist() == [[FIRST_CLASS_ID, FIRST_CLASS_ID + 3]]
    assert KNOWN.encode_request([]).tokens.tolist() == [[0]]


def test_an_unknown_composer():
    with pytest.raises(DataError, match=r"^the model does not know the class 'List'; did you mean 'Liszt'\?$"):
        KNOWN.encode_request(["List"])
    with pytest.raises(DataError, match=r"^the model does not know the class 'Bach'; it was trained without data.cond"):
        ConditionClasses(()).encode_request(["Bach"])
