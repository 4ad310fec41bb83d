import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.builtin import entities
from regard.data.text import tag_schemes, tagged_corpus, tagged_files, word_units
from regard.data.text import tokenizer as tokenizers
from regard.data.text.tagged_corpus import SentenceEncoder

ENGLISH = entities.generate("train", 200, language="en", seed=1)
KOREAN = entities.generate("train", 200, language="ko", seed=1)
TAGS = tuple(tag_schemes.tag_vocabulary(entities.ENTITY_TYPES, "bio"))


def build_encoder(sentences=ENGLISH, *, unit_mode="given", data_unit="words", scheme="bio", max_tokens=50, level=None):
    texts = [s.text[a:b] for s in sentences for a, b in s.units]
    tokenizer = (
        tagged_corpus.train_word_tokenizer(texts, size=5000, lowercase=True, minimum=1)
        if level is None
        else tokenizers.train([s.text for s in sentences], level=level, size=400)
    )
    names = tuple(tag_schemes.tag_vocabulary(entities.ENTITY_TYPES, scheme))
    alphabet = tagged_corpus.collect_alphabet(sentences) if data_unit == "words" else ""
    return SentenceEncoder(tokenizer, unit_mode, data_unit, alphabet, names, scheme, max_tokens)


def test_a_word_is_one_token_whatever_its_characters():
    tokenizer = tagged_corpus.train_word_tokenizer(
        ["@paul", "it's", "New York", "Ö"], size=100, lowercase=True, minimum=1
    )
    assert tokenizer.encode(["@PAUL", "it's", "new york", "unseen"]) == [
        [t] for t in tokenizer.encode(["@paul"])[0]
    ] + [
        *tokenizer.encode(["it's", "New York"]),
        [1],
    ]


@pytest.mark.parametrize("scheme", ["bio", "iobes"])
def test_units_tokens_characters_and_tags_are_aligned(scheme):
    encoder = build_encoder(scheme=scheme)
    for sentence in ENGLISH[:50]:
        (part,) = encoder.encode(sentence)
        assert len(part.first_tokens) == len(part.characters) == len(part.tags) == len(sentence.units)
        names = [encoder.tags[tag] for tag in part.tags]
        assert tag_schemes.tags_to_entities(names, scheme) == tag_schemes.tags_to_entities(sentence.tags, "bio")


@pytest.mark.parametrize("level", ["bpe", "char"])
def test_a_unit_may_be_several_tokens(level):
    encoder = build_encoder(level=level)
    (part,) = encoder.encode(ENGLISH[0])
    assert len(part.tokens) > len(part.first_tokens) and part.first_tokens == sorted(set(part.first_tokens))
    batch = tagged_corpus.collate([part])
    assert batch.sentences.counts.tolist() == [len(part.first_tokens)]


def test_a_long_sentence_is_split_into_valid_parts():
    encoder = build_encoder(max_tokens=3)
    for sentence in ENGLISH[:50]:
        parts = encoder.encode(sentence)
        assert sum(len(part.first_tokens) for part in parts) == len(sentence.units)
        assert all(len(part.tokens) <= 3 for part in parts)
        assert all(
            tag_schemes.find_tag_error([encoder.tags[tag] for tag in part.tags], "bio") is None for part in parts
        )


def test_parts_have_the_tags_of_their_units_and_may_split_an_entity():
    encoder = build_encoder(max_tokens=2)
    text, entity_type = "one two three four five six", entities.ENTITY_TYPES[0]
    tags = ("O", f"B-{entity_type}", f"I-{entity_type}", f"I-{entity_type}", "O", f"B-{entity_type}")
    parts = encoder.encode(encoder.split_units(text)._replace(tags=tags))
    first, inside = f"B-{entity_type}", f"I-{entity_type}"
    assert [part.sentence.tags for part in parts] == [("O", first), (first, inside), ("O", first)]


def test_the_entities_of_a_long_text_are_parsed_once(monkeypatch):
    encoder, calls = build_encoder(max_tokens=3), []
    parse = tag_schemes.tags_to_entities
    monkeypatch.setattr(tag_schemes, "tags_to_entities", lambda *args: calls.append(1) or parse(*args))
    assert len(encoder.encode(encoder.split_units("word " * 300))) == 100 and len(calls) == 1


def test_a_blank_text_has_no_parts():
    encoder = build_encoder()
    assert encoder.encode(encoder.split_units("  ")) == []


@given(st.sampled_from(KOREAN))
def test_entities_survive_alignment_with_finer_units(sentence):
    fine = tagged_corpus.align_entities(sentence, tuple(word_units.character_spans(sentence.text)))
    assert tagged_files.entity_spans(fine) == tagged_files.entity_spans(sentence)
    coarse = tagged_corpus.align_entities(sentence, tuple(word_units.word_spans(sentence.text)))
    assert tag_schemes.find_tag_error(coarse.tags, "bio") is None
    for (a, b, entity_type), (c, d, second) in zip(
        tagged_files.entity_spans(sentence), tagged_files.entity_spans(coarse), strict=False
    ):
        assert entity_type == second and c <= a and d >= b  # a particle belongs to the word


def test_tokens_as_units():
    encoder = build_encoder(KOREAN, unit_mode="tokens", data_unit="characters", level="bpe")
    (part,) = encoder.encode(KOREAN[1])
    assert len(part.tokens) == len(part.first_tokens) and tag_schemes.find_tag_error(part.sentence.tags, "bio") is None


def test_batches_are_padded():
    encoder = build_encoder()
    parts = [encoder.encode(sentence)[0] for sentence in ENGLISH[:5]]
    batch = tagged_corpus.collate(parts)
    b, u, c = batch.sentences.characters.shape
    assert (b, u) == batch.tags.shape and c <= tagged_corpus.MAX_UNIT_CHARS
    for row, part in enumerate(parts):
        assert batch.tags[row, : len(part.tags)].tolist() == part.tags
        assert batch.sentences.characters[row, len(part.tags) :].eq(0).all()


def test_decomposed_text_has_the_same_tokens():
    encoder = build_encoder(KOREAN, data_unit="characters")
    text = KOREAN[0].text
    raw = unicodedata.normalize("NFD", text)
    (composed,), (decomposed,) = encoder.encode(encoder.split_units(text)), encoder.encode(encoder.split_units(raw))
    assert composed.tokens == decomposed.tokens and decomposed.sentence.units[-1][1] == len(raw)


def test_the_unit_of_tagged_data_is_detected():
    assert tagged_corpus.detect_unit(ENGLISH) == "words" and tagged_corpus.detect_unit(KOREAN) == "characters"


def test_an_entity_type_without_training_examples_is_a_warning():
    unseen = ENGLISH[0]._replace(text="in Oz", units=((0, 2), (3, 5)), tags=("O", "B-world"), origin="valid.conll:7")
    known_types = {entity_type for sentence in ENGLISH for *_, entity_type in tagged_files.entity_spans(sentence)}
    assert tagged_corpus.unseen_type_warnings({"train": ENGLISH, "valid": ENGLISH[:2]}, known_types) == []
    (line,) = tagged_corpus.unseen_type_warnings({"train": ENGLISH, "valid": [unseen, unseen]}, known_types)
    assert line.startswith(
        "valid.conll:7: type 'world' is not in the training data: it is never predicted and counts as"
    )
    assert line.endswith("missed; known: person, place, time")
