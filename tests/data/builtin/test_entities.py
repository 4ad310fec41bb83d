import unicodedata
from collections import Counter

import pytest

from regard.data.builtin import entities
from regard.data.builtin._splits import split_of
from regard.data.text import tag_schemes, tagged_files


@pytest.fixture(scope="module", params=["en", "ko"])
def sentences(request):
    return {
        split: entities.generate(split, 600, language=request.param, seed=1) for split in ("train", "valid", "test")
    }


def test_splits_are_disjoint(sentences):
    texts = [{sentence.text for sentence in split} for split in sentences.values()]
    assert [len(part) for part in texts] == [600] * 3
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert all(split_of(sentence.text) == name for name, split in sentences.items() for sentence in split)


def test_sentences_are_well_formed(sentences):
    for sentence in sentences["train"]:
        assert not set("<>{}[]:") & set(sentence.text)
        assert unicodedata.is_normalized("NFC", sentence.text) and sentence.text[-1] in ".?"
        assert len(sentence.units) == len(sentence.tags) and tag_schemes.find_tag_error(sentence.tags, "bio") is None


def test_every_type_occurs(sentences):
    kinds = Counter(kind for sentence in sentences["train"] for *_, kind in tagged_files.entity_spans(sentence))
    assert set(kinds) == set(entities.ENTITY_TYPES) and min(kinds.values()) > 100


def meanings(sentences, word):
    types = set()
    for sentence in sentences:
        inside = {kind for a, b, kind in tagged_files.entity_spans(sentence) if word in sentence.text[a:b]}
        if word in sentence.text:
            types |= inside or {""}
    return types


def test_words_are_ambiguous():
    english = entities.generate("train", 3000, language="en", seed=1)
    assert {"person", "time"} <= meanings(english, "May") and {"person", "place"} <= meanings(english, "Paris")
    korean = entities.generate("train", 3000, language="ko", seed=1)
    assert meanings(korean, "파리") == {"place", ""} and meanings(korean, "아름") == {"person", ""}


def test_particles_follow_the_syllable_before_them():
    for sentence in entities.generate("train", 1000, language="ko", seed=2):
        for invalid in ("민수은", "서울는", "파리을", "런던가", "부산로 ", "뉴욕로 "):
            assert invalid not in sentence.text


def test_sentences_depend_on_the_seed():
    first, same, different = (entities.generate("test", 20, language="ko", seed=seed) for seed in (1, 1, 2))
    assert first == same != different
