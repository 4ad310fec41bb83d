from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.core.errors import DataError
from regard.data.text import tag_schemes
from regard.data.text.tag_schemes import Entity

SCHEMES = ("bio", "iob1", "iobes")


@some.composite
def entities(draw):
    found, place = [], 0
    for kind in draw(some.lists(some.sampled_from(["person", "place"]), max_size=5)):
        first = place + draw(some.integers(0, 2))
        place = first + draw(some.integers(1, 3))
        found.append(Entity(first, place, kind))
    return found, place + draw(some.integers(0, 2))


@given(entities(), some.sampled_from(SCHEMES), some.sampled_from(SCHEMES))
def test_entities_survive_every_scheme_and_conversion(given, one, two):
    found, length = given
    tags = tag_schemes.entities_to_tags(found, length, one)
    assert tag_schemes.find_tag_error(tags, one) is None
    assert tag_schemes.tags_to_entities(tags, one) == found
    assert tag_schemes.tags_to_entities(tag_schemes.convert(tags, one, two), two) == found


@given(entities(), some.sampled_from(SCHEMES))
def test_rules_allow_what_is_written(given, scheme):
    found, length = given
    tags = tag_schemes.entities_to_tags(found, length, scheme)
    names = tag_schemes.tag_vocabulary(["person", "place"], scheme)
    rules = tag_schemes.tag_transitions(names, scheme)
    numbers = [names.index(tag) for tag in tags]
    if numbers:
        assert rules.first[numbers[0]] and rules.last[numbers[-1]]
        assert all(rules.follows[a][b] for a, b in pairwise(numbers))


@given(some.lists(some.integers(0, 4), min_size=1, max_size=6), some.sampled_from(SCHEMES))
def test_rules_and_broken_are_of_one_mind(numbers, scheme):
    names = tag_schemes.tag_vocabulary(["a"], scheme)
    numbers = [number % len(names) for number in numbers]
    rules = tag_schemes.tag_transitions(names, scheme)
    pairs = pairwise(numbers)
    kept = rules.first[numbers[0]] and rules.last[numbers[-1]] and all(rules.follows[a][b] for a, b in pairs)
    assert kept == (tag_schemes.find_tag_error([names[number] for number in numbers], scheme) is None)


def test_other_letters_and_bare_tags_are_understood():
    assert tag_schemes.tags_to_entities(["B-a", "M-a", "L-a", "U-b"], "iobes") == [Entity(0, 3, "a"), Entity(3, 4, "b")]
    assert tag_schemes.tags_to_entities(["B_PS", "I", "O", "B_LC"], "bio") == [Entity(0, 2, "PS"), Entity(3, 4, "LC")]


def test_schemes_are_told_apart():
    assert tag_schemes.detect_scheme([["B-a", "I-a", "O"]]) == "bio"
    assert tag_schemes.detect_scheme([["I-a", "I-a", "O"], ["I-a", "B-a"]]) == "iob1"
    assert tag_schemes.detect_scheme([["B-a", "E-a"], ["S-b", "O"]]) == "iobes"
    assert tag_schemes.detect_scheme([["O"]]) == "bio"
    with pytest.raises(DataError, match="the tags keep to no scheme: 1 of 3 sentences break IOB2, which fits best"):
        tag_schemes.detect_scheme([["B-a", "O"], ["B-a", "I-a"], ["S-a"]])


@pytest.mark.parametrize(
    ("tags", "scheme", "unit", "problem"),
    [
        (["O", "I-a"], "bio", 1, "'I-a' goes on with an entity that has not begun"),
        (["B-b", "I-a"], "bio", 1, "'I-a' goes on with an entity that has not begun"),
        (["I"], "bio", 0, "'I' goes on with an entity that has not begun"),
        (["O", "S-a"], "bio", 1, "'S-a' is not a tag of IOB2"),
        (["O", "B-a"], "iob1", 1, "'B-a' begins an entity where IOB1 has I"),
        (["B-a", "O"], "iobes", 1, "'B-a' has no end: 'O' follows"),
        (["O", "B-a"], "iobes", 1, "'B-a' has no end: the sentence ends"),
        (["E-a"], "iobes", 0, "'E-a' goes on with an entity that has not begun"),
    ],
)
def test_the_first_broken_tag_is_named(tags, scheme, unit, problem):
    found = tag_schemes.find_tag_error(tags, scheme)
    assert found.unit == unit and found.problem.startswith(problem)


@pytest.mark.parametrize("tag", ["X-a", "B-", "Ba", "", "person"])
def test_what_is_no_tag_is_an_error(tag):
    with pytest.raises(DataError, match=f"{tag!r} is no tag; expected O, or B- and I- with a type"):
        tag_schemes.parse(tag)


def test_entities_that_overlap_are_an_error():
    with pytest.raises(DataError, match="two entities overlap"):
        tag_schemes.entities_to_tags([Entity(0, 2, "a"), Entity(1, 3, "b")], 3, "bio")
