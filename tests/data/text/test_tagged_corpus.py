import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data.builtin import entities
from regard.data.text import tag_schemes, tagged_corpus, tagged_files, word_units
from regard.data.text import tokenizer as tokenizers
from regard.data.text.tagged_corpus import SentenceEncoder

ENGLISH = entities.generate("train", 200, language="en", seed=1)
KOREAN = entities.generate("train", 200, language="ko", seed=1)
TAGS = tuple(tag_schemes.tag_vocabulary(entities.ENTITY_TYPES, "bio"))


def encoder(sentences=ENGLISH, *, cutting="given", natural="words", scheme="bio", longest=50, level=None):
    texts = [s.text[a:b] for s in sentences for a, b in s.units]
    tokenizer = (
        tagged_corpus.train_word_tokenizer(texts, size=5000, lowercase=True, minimum=1)
        if level is None
        else tokenizers.train([s.text for s in sentences], level=level, size=400)
    )
    names = tuple(tag_schemes.tag_vocabulary(entities.ENTITY_TYPES, scheme))
    alphabet = tagged_corpus.collect_alphabet(sentences) if natural == "words" else ""
    return SentenceEncoder(tokenizer, cutting, natural, alphabet, names, scheme, longest)


def test_a_word_is_one_token_whatever_it_is_made_of():
    made = tagged_corpus.train_word_tokenizer(["@paul", "it's", "New York", "Ö"], size=100, lowercase=True, minimum=1)
    assert made.encode(["@PAUL", "it's", "new york", "unseen"]) == [[t] for t in made.encode(["@paul"])[0]] + [
        *made.encode(["it's", "New York"]),
        [1],
    ]


@pytest.mark.parametrize("scheme", ["bio", "iobes"])
def test_units_tokens_letters_and_tags_belong_together(scheme):
    made = encoder(scheme=scheme)
    for sentence in ENGLISH[:50]:
        (part,) = made.encode(sentence)
        assert len(part.first_tokens) == len(part.characters) == len(part.tags) == len(sentence.units)
        names = [made.tags[tag] for tag in part.tags]
        assert tag_schemes.tags_to_entities(names, scheme) == tag_schemes.tags_to_entities(sentence.tags, "bio")


@pytest.mark.parametrize("level", ["bpe", "char"])
def test_a_unit_may_be_several_tokens(level):
    made = encoder(level=level)
    (part,) = made.encode(ENGLISH[0])
    assert len(part.tokens) > len(part.first_tokens) and part.first_tokens == sorted(set(part.first_tokens))
    batch = tagged_corpus.collate([part])
    assert batch.sentences.counts.tolist() == [len(part.first_tokens)]


def test_a_long_sentence_is_read_in_parts_that_are_valid_each():
    made = encoder(longest=3)
    for sentence in ENGLISH[:50]:
        parts = made.encode(sentence)
        assert sum(len(part.first_tokens) for part in parts) == len(sentence.units)
        assert all(len(part.tokens) <= 3 for part in parts)
        assert all(tag_schemes.find_tag_error([made.tags[tag] for tag in part.tags], "bio") is None for part in parts)


def test_parts_have_the_tags_of_their_units_and_an_entity_may_lie_in_two():
    made = encoder(longest=2)
    text, kind = "one two three four five six", entities.ENTITY_TYPES[0]
    tags = ("O", f"B-{kind}", f"I-{kind}", f"I-{kind}", "O", f"B-{kind}")
    parts = made.encode(made.split_units(text)._replace(tags=tags))
    begins, goes_on = f"B-{kind}", f"I-{kind}"
    assert [part.sentence.tags for part in parts] == [("O", begins), (begins, goes_on), ("O", begins)]


def test_the_entities_of_a_long_text_are_found_once(monkeypatch):
    made, calls = encoder(longest=3), []
    monkeypatch.setattr(
        tag_schemes, "entities", lambda *given, own=tag_schemes.tags_to_entities: calls.append(1) or own(*given)
    )
    assert len(made.encode(made.split_units("word " * 300))) == 100 and len(calls) == 1


def test_nothing_gives_no_parts():
    made = encoder()
    assert made.encode(made.split_units("  ")) == []


@given(some.sampled_from(KOREAN))
def test_entities_survive_other_units_where_these_are_finer(sentence):
    fine = tagged_corpus.align_entities(sentence, tuple(word_units.character_spans(sentence.text)))
    assert tagged_files.entity_spans(fine) == tagged_files.entity_spans(sentence)
    coarse = tagged_corpus.align_entities(sentence, tuple(word_units.word_spans(sentence.text)))
    assert tag_schemes.find_tag_error(coarse.tags, "bio") is None
    for (a, b, kind), (c, d, other) in zip(
        tagged_files.entity_spans(sentence), tagged_files.entity_spans(coarse), strict=False
    ):
        assert kind == other and c <= a and d >= b  # a particle belongs to the word


def test_tokens_as_units():
    made = encoder(KOREAN, cutting="tokens", natural="characters", level="bpe")
    (part,) = made.encode(KOREAN[1])
    assert len(part.tokens) == len(part.first_tokens) and tag_schemes.find_tag_error(part.sentence.tags, "bio") is None


def test_batches_are_padded():
    made = encoder()
    parts = [made.encode(sentence)[0] for sentence in ENGLISH[:5]]
    batch = tagged_corpus.collate(parts)
    b, u, c = batch.sentences.characters.shape
    assert (b, u) == batch.tags.shape and c <= tagged_corpus.MAX_UNIT_CHARS
    for row, part in enumerate(parts):
        assert batch.tags[row, : len(part.tags)].tolist() == part.tags
        assert batch.sentences.characters[row, len(part.tags) :].eq(0).all()


def test_decomposed_text_is_the_same_to_the_model():
    made = encoder(KOREAN, natural="characters")
    text = KOREAN[0].text
    raw = unicodedata.normalize("NFD", text)
    (one,), (other,) = made.encode(made.split_units(text)), made.encode(made.split_units(raw))
    assert one.tokens == other.tokens and other.sentence.units[-1][1] == len(raw)


def test_what_data_is_tagged_by():
    assert tagged_corpus.detect_unit(ENGLISH) == "words" and tagged_corpus.detect_unit(KOREAN) == "characters"


def test_a_type_of_entity_that_is_never_trained_is_named():
    strange = ENGLISH[0]._replace(text="in Oz", units=((0, 2), (3, 5)), tags=("O", "B-world"), place="valid.conll:7")
    known = {kind for sentence in ENGLISH for *_, kind in tagged_files.entity_spans(sentence)}
    assert tagged_corpus.unseen_type_warnings({"train": ENGLISH, "valid": ENGLISH[:2]}, known) == []
    (line,) = tagged_corpus.unseen_type_warnings({"train": ENGLISH, "valid": [strange, strange]}, known)
    assert line.startswith("valid.conll:7: type 'world' is not in the training data: it is never found and counts as")
    assert line.endswith("missed; known: person, place, time")
