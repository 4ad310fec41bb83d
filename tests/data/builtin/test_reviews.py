import unicodedata
from collections import Counter

import pytest

from regard.data.builtin import _reviews_english as english
from regard.data.builtin import _reviews_korean as korean
from regard.data.builtin import reviews
from regard.data.builtin._splits import split_of
from regard.data.text.sentence_splitter import Splitter


@pytest.fixture(scope="module", params=["en", "ko"])
def made(request):
    return {split: reviews.generate(split, 400, language=request.param, seed=1) for split in ("train", "valid", "test")}


def deciding(review):
    return review.text[slice(*review.sentences[review.deciding])]


def test_splits_share_no_text_and_no_deciding_sentence(made):
    for part in (lambda review: review.text, deciding):
        texts = [{part(review) for review in split} for split in made.values()]
        assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert all(split_of(deciding(review)) == name for name, split in made.items() for review in split)


def test_labels_are_balanced_and_texts_different(made):
    assert Counter(review.label for review in made["train"]) == {"positive": 200, "negative": 200}
    assert len({review.text for review in made["train"]}) == 400


def test_sentences_are_where_the_splitter_finds_them(made):
    for review in made["train"]:
        assert tuple(Splitter().split(review.text)) == review.sentences
        assert reviews.MIN_SENTENCES <= len(review.sentences) <= reviews.MAX_SENTENCES
        assert unicodedata.is_normalized("NFC", review.text) and "*" not in review.text


def test_deciding_words_stand_in_the_deciding_sentence(made):
    for review in made["train"]:
        start, stop = review.sentences[review.deciding]
        assert review.words and all(start <= a < b <= stop for a, b in review.words)
        assert all(not review.text[a:b].isspace() for a, b in review.words)


def test_the_label_follows_from_the_deciding_words():
    for review in reviews.generate("train", 300, language="en", seed=3):
        *turned, word = [review.text[a:b] for a, b in review.evidence_words]
        assert (
            (word in english.GOOD) != bool(turned)
            if review.label == "positive"
            else (word in english.BAD) != bool(turned)
        )
    good = {korean.past(verb, register) for verb in korean.GOOD for register in ("plain", "polite")}
    for review in reviews.generate("train", 300, language="ko", seed=3):
        words = [review.text[a:b] for a, b in review.evidence_words]
        if len(words) == 1:
            assert (words[0] in good) == (review.label == "positive")


def test_the_same_words_stand_where_they_decide_nothing(made):
    elsewhere = Counter()
    for review in reviews.generate("train", 300, language="en", seed=1):
        others = review.text.replace(deciding(review), "")
        elsewhere[review.label] += any(f" {word}." in others for word in english.GOOD)
    assert min(elsewhere.values()) > 30  # counting words is not enough


def test_the_seed_decides():
    first, again, other = (reviews.generate("test", 20, language="ko", seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_korean_words_are_conjugated():
    assert korean.past(korean.GOOD[0], "plain") == "훌륭했다"
    assert {korean.past(verb, "polite") for verb in korean.BAD} >= {"지루했어요", "형편없었어요", "지겨웠어요"}
    assert korean.denied(korean.GOOD[2], "plain") == ("재미있지", "않았다")
