"""Condition classes: tokens, requests by name, and unknown names."""

import pytest

from regard.core.errors import DataError
from regard.tasks.music.conditions import FIRST_CLASS_ID, ConditionClasses, build_classes, piece_classes

CLASSES = build_classes(("composer", "mode"), ["Liszt", "Bach", "", "Bach"])


def test_names_are_tokens():
    assert CLASSES.names == ("composer:Bach", "composer:Liszt", "mode:major", "mode:minor")
    assert CLASSES.size == FIRST_CLASS_ID + 4
    assert CLASSES.encode(["mode:minor", "composer:Bach"]) == [FIRST_CLASS_ID + 3, FIRST_CLASS_ID]
    assert CLASSES.encode([]) == [0]
    assert len(build_classes(("key",), []).names) == 24


def test_classes_are_requested_by_name():
    assert CLASSES.encode_request(["bach", "Minor"]).tokens.tolist() == [[FIRST_CLASS_ID, FIRST_CLASS_ID + 3]]
    assert CLASSES.encode_request([]).tokens.tolist() == [[0]]


def test_unknown_classes_are_refused():
    with pytest.raises(DataError, match=r"^the model does not know the class 'List'; did you mean 'Liszt'\?$"):
        CLASSES.encode_request(["List"])
    with pytest.raises(DataError, match=r"^the model does not know the class 'Bach'; it was trained without data.cond"):
        ConditionClasses(()).encode_request(["Bach"])


def test_classes_of_a_piece():
    names = piece_classes(("composer", "mode"), composer="Bach", key="G minor")
    assert names == ["composer:Bach", "mode:minor"] and piece_classes(("mode",), composer="Bach", key="") == []
    assert CLASSES.encode_known(["composer:Satie", "mode:minor"]) == [FIRST_CLASS_ID + 3]
    assert CLASSES.encode_known(["composer:Satie"]) == [0]
