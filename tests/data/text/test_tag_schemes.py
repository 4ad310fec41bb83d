from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DataError
from regard.data.text import tag_schemes
from regard.data.text.tag_schemes import Entity

SCHEMES = ("bio", "iob1", "iobes")


@st.composite
def sentences(draw):
    entities, stop = [], 0
    for entity_type in draw(st.lists(st.sampled_from(["person", "place"]), max_size=5)):
        start = stop + draw(st.integers(0, 2))
        stop = start + draw(st.integers(1, 3))
        entities.append(Entity(start, stop, entity_type))
    return entities, stop + draw(st.integers(0, 2))


@given(sentences(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_entities_survive_every_scheme_and_conversion(sentence, source, target):
    entities, length = sentence
    tags = tag_schemes.entities_to_tags(entities, length, source)
    assert tag_schemes.find_tag_error(tags, source) is None
    assert tag_schemes.tags_to_entities(tags, source) == entities
    assert tag_schemes.tags_to_entities(tag_schemes.convert(tags, source, target), target) == entities


@given(sentences(), st.sampled_from(SCHEMES))
def test_transitions_allow_valid_tags(sentence, scheme):
    entities, length = sentence
    tags = tag_schemes.entities_to_tags(entities, length, scheme)
    names = tag_schemes.tag_vocabulary(["person", "place"], scheme)
    transitions = tag_schemes.tag_transitions(names, scheme)
    ids = [names.index(tag) for tag in tags]
    if ids:
        assert transitions.first[ids[0]] and transitions.last[ids[-1]]
        assert all(transitions.follows[a][b] for a, b in pairwise(ids))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.sampled_from(SCHEMES))
def test_transitions_agree_with_find_tag_error(ids, scheme):
    names = tag_schemes.tag_vocabulary(["a"], scheme)
    ids = [tag_id % len(names) for tag_id in ids]
    transitions = tag_schemes.tag_transitions(names, scheme)
    pairs = pairwise(ids)
    valid = transitions.first[ids[0]] and transitions.last[ids[-1]] and all(transitions.follows[a][b] for a, b in pairs)
    assert valid == (tag_schemes.find_tag_error([names[tag_id] for tag_id in ids], scheme) is None)


def test_other_prefixes_and_bare_tags_are_parsed():
    assert tag_schemes.tags_to_entities(["B-a", "M-a", "L-a", "U-b"], "iobes") == [Entity(0, 3, "a"), Entity(3, 4, "b")]
    assert tag_schemes.tags_to_entities(["B_PS", "I", "O", "B_LC"], "bio") == [Entity(0, 2, "PS"), Entity(3, 4, "LC")]


def test_the_scheme_is_detected():
    assert tag_schemes.detect_scheme([["B-a", "I-a", "O"]]) == "bio"
    assert tag_schemes.detect_scheme([["I-a", "I-a", "O"], ["I-a", "B-a"]]) == "iob1"
    assert tag_schemes.detect_scheme([["B-a", "E-a"], ["S-b", "O"]]) == "iobes"
    assert tag_schemes.detect_scheme([["O"]]) == "bio"
    with pytest.raises(DataError, match="the tags follow no scheme: 1 of 3 sentences violate IOB2, which fits best"):
        tag_schemes.detect_scheme([["B-a", "O"], ["B-a", "I-a"], ["S-a"]])


@pytest.mark.parametrize(
    ("tags", "scheme", "unit", "problem"),
    [
        (["O", "I-a"], "bio", 1, "'I-a' continues an entity that has not started"),
        (["B-b", "I-a"], "bio", 1, "'I-a' continues an entity that has not started"),
        (["I"], "bio", 0, "'I' continues an entity that has not started"),
        (["O", "S-a"], "bio", 1, "'S-a' is not a tag of IOB2"),
        (["O", "B-a"], "iob1", 1, "'B-a' starts an entity where IOB1 has I"),
        (["B-a", "O"], "iobes", 1, "'B-a' has no end: 'O' follows"),
        (["O", "B-a"], "iobes", 1, "'B-a' has no end: the sentence ends"),
        (["E-a"], "iobes", 0, "'E-a' continues an entity that has not started"),
    ],
)
def test_the_first_invalid_tag_is_reported(tags, scheme, unit, problem):
    error = tag_schemes.find_tag_error(tags, scheme)
    assert error.unit == unit and error.problem.startswith(problem)


@pytest.mark.parametrize("tag", ["X-a", "B-", "Ba", "", "person"])
def test_an_invalid_tag_is_an_error(tag):
    with pytest.raises(DataError, match=f"{tag!r} is not a tag; expected O, or B- and I- with a type"):
        tag_schemes.parse(tag)


def test_entities_that_overlap_are_an_error():
    with pytest.raises(DataError, match="two entities overlap"):
        tag_schemes.entities_to_tags([Entity(0, 2, "a"), Entity(1, 3, "b")], 3, "bio")
