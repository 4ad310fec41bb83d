import unicodedata
from collections import Counter

import pytest

from regard.data.builtin import _reviews_english as english
from regard.data.builtin import _reviews_korean as korean
from regard.data.builtin import reviews
from regard.data.builtin._splits import split_of
from regard.data.text.sentence_splitter import Splitter


@pytest.fixture(scope="module", params=["en", "ko"])
def generated(request):
    return {split: reviews.generate(split, 400, language=request.param, seed=1) for split in ("train", "valid", "test")}


def evidence(review):
    return review.text[slice(*review.sentences[review.evidence_sentence])]


def test_splits_share_no_text_and_no_evidence_sentence(generated):
    for text_of in (lambda review: review.text, evidence):
        texts = [{text_of(review) for review in split} for split in generated.values()]
        assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert all(split_of(evidence(review)) == name for name, split in generated.items() for review in split)


def test_labels_are_balanced_and_texts_different(generated):
    assert Counter(review.label for review in generated["train"]) == {"positive": 200, "negative": 200}
    assert len({review.text for review in generated["train"]}) == 400


def test_sentence_spans_equal_those_of_the_splitter(generated):
    for review in generated["train"]:
        assert tuple(Splitter().split(review.text)) == review.sentences
        assert reviews.MIN_SENTENCES <= len(review.sentences) <= reviews.MAX_SENTENCES
        assert unicodedata.is_normalized("NFC", review.text) and "*" not in review.text


def test_evidence_words_are_in_the_evidence_sentence(generated):
    for review in generated["train"]:
        start, stop = review.sentences[review.evidence_sentence]
        assert review.evidence_words and all(start <= a < b <= stop for a, b in review.evidence_words)
        assert all(not review.text[a:b].isspace() for a, b in review.evidence_words)


def test_the_label_follows_from_the_evidence_words():
    for review in reviews.generate("train", 300, language="en", seed=3):
        *negations, word = [review.text[a:b] for a, b in review.evidence_words]
        expected = english.GOOD if review.label == "positive" else english.BAD
        assert (word in expected) != bool(negations)
    good = {korean.past(verb, register) for verb in korean.GOOD for register in ("plain", "polite")}
    for review in reviews.generate("train", 300, language="ko", seed=3):
        words = [review.text[a:b] for a, b in review.evidence_words]
        if len(words) == 1:
            assert (words[0] in good) == (review.label == "positive")


def test_the_same_words_occur_without_being_evidence():
    elsewhere = Counter()
    for review in reviews.generate("train", 300, language="en", seed=1):
        rest = review.text.replace(evidence(review), "")
        elsewhere[review.label] += any(f" {word}." in rest for word in english.GOOD)
    assert min(elsewhere.values()) > 30  # counting words is not enough


def test_reviews_depend_on_the_seed():
    first, same, different = (reviews.generate("test", 20, language="ko", seed=seed) for seed in (1, 1, 2))
    assert first == same != different


def test_korean_words_are_conjugated():
    assert korean.past(korean.GOOD[0], "plain") == "훌륭했다"
    assert {korean.past(verb, "polite") for verb in korean.BAD} >= {"지루했어요", "형편없었어요", "지겨웠어요"}
    assert korean.denied(korean.GOOD[2], "plain") == ("재미있지", "않았다")
