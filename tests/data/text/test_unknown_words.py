"""Words of an input that the training data did not contain, and predictions that name them."""

import pytest

from regard.core.prediction import Prediction
from regard.data.text import document_corpus
from regard.data.text import tokenizer as tokenizers
from regard.data.text.sentence_splitter import Splitter
from regard.data.text.tokenizer import TokenSpan
from regard.data.text.unknown_words import find_unknown_words, find_unknown_words_of_sentences

TEXTS = ["the child reads a book", "the dog sleeps in the garden", "a child and a dog", "quiz and jazz"] * 5


@pytest.mark.parametrize("level", ["bpe", "word"])
def test_new_words_are_named_and_training_words_are_not(level):
    tokenizer = tokenizers.train(TEXTS, level=level, size=80)
    assert all(find_unknown_words(text, tokenizer) == () for text in TEXTS)
    assert find_unknown_words("the zzz qqq sleeps", tokenizer) == ("zzz", "qqq")
    assert find_unknown_words("나는 the child", tokenizer) == ("나는",)


def test_the_cost_grows_with_the_length_of_the_text_and_not_with_its_square(monkeypatch):
    tokenizer = tokenizers.train(TEXTS, level="word", size=80)
    assert find_unknown_words("zzz the " * 20_000, tokenizer) == ("zzz",)
    visited = []
    monkeypatch.setattr(TokenSpan, "token", property(lambda piece: visited.append(piece) or piece[0]))
    assert find_unknown_words("zzz the " * 200, tokenizer) == ("zzz",)
    assert len(visited) == 400


def test_characters_are_unknown_only_if_they_are_new():
    tokenizer = tokenizers.train(TEXTS, level="char", size=80)
    assert find_unknown_words("the sdog", tokenizer) == ()
    assert find_unknown_words("the 🎬 and 나", tokenizer) == ("🎬", "나")


def test_a_prediction_names_unknown_tokens_in_a_remark_and_in_json():
    prediction = Prediction("x", data={"entities": []}, remarks=("first",))
    assert prediction.with_unknown_tokens(()) is prediction
    assert prediction.with_unknown_tokens(("zzz", "qqq")).to_json() == {
        "text": "x",
        "probability": None,
        "score": None,
        "ranking_score": None,
        "entities": [],
        "unknown_tokens": ["zzz", "qqq"],
        "remarks": ["first", "not in the vocabulary, or spelled out in characters: zzz, qqq"],
    }


@pytest.mark.parametrize("level", ["bpe", "word", "char"])
def test_unknown_words_of_sentences_are_those_of_the_text(level):
    tokenizer = tokenizers.train(TEXTS, level=level, size=80)
    text = "The zzz qqq sleeps. The child and 나는 zzz. A dog. " + " ".join(f"W{i}é." for i in range(30))
    (sentences,) = document_corpus.encode_sentences([text], tokenizer, splitter=Splitter())
    assert len(sentences) > 3
    assert find_unknown_words_of_sentences(text, tokenizer, sentences) == find_unknown_words(text, tokenizer)
