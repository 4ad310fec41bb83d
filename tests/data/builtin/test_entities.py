import unicodedata
from collections import Counter
from itertools import combinations

import pytest

from regard.data.builtin import entities
from regard.data.builtin._splits import split_of
from regard.data.text import tag_schemes, tagged_files


@pytest.fixture(scope="module", params=["en", "ko"])
def sentences(request):
    return {
        split: entities.generate(split, 600 if split == "train" else 300, language=request.param, seed=1)
        for split in entities.SPLITS
    }


def test_splits_are_disjoint(sentences):
    texts = [{sentence.text for sentence in split} for split in sentences.values()]
    assert [len(part) for part in texts] == [600, 300, 300, 300]
    assert not any(first & second for first, second in combinations(texts, 2))
    hashed = {name: split for name, split in sentences.items() if name != entities.TEMPLATES}
    assert all(split_of(sentence.text) == name for name, split in hashed.items() for sentence in split)


def names_in(sentences, kind):
    spans = [(s, a, b) for s in sentences for a, b, entity_type in tagged_files.entity_spans(s) if entity_type == kind]
    return {word for s, a, b in spans for word in s.text[a:b].split()}


def test_half_of_the_names_are_new_in_held_out_splits(sentences):
    for kind in ("person", "place"):
        training_names = names_in(sentences["train"], kind)
        for split in ("valid", "test", entities.TEMPLATES):
            names = names_in(sentences[split], kind)
            assert 0.1 < len(names - training_names) / len(names) < 0.9


def test_templates_are_new_in_their_split():
    for language in ("en", "ko"):
        assert not set(entities.ALL_TEMPLATES[language, False]) & set(entities.ALL_TEMPLATES[language, True])
        assert len(entities.ALL_TEMPLATES[language, False]) >= 50


def test_sentences_are_well_formed(sentences):
    for sentence in sentences["train"] + sentences[entities.TEMPLATES]:
        assert not set("<>{}[]:") & set(sentence.text)
        assert unicodedata.is_normalized("NFC", sentence.text)
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
