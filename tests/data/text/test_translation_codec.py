"""Translation without torch: rows, limits and answers are the task's own."""

import pytest

from regard.core.errors import DataError
from regard.core.protocols import Hypothesis
from regard.data.text import tokenizer
from regard.data.text.translation_codec import EMPTY_PREDICTION, TranslationCodec

WORDS = tokenizer.train(["a dog and a cat", "the dog"], level="word", size=50)
QUICK = TranslationCodec(WORDS, WORDS, max_length=8)


def test_rows_end_with_the_end_mark_and_blank_texts_have_none():
    rows = QUICK.encode_texts(["a dog", "", "  "])
    assert rows[0][-1] == QUICK.special_tokens.eos and len(rows[0]) == 3
    assert rows[1:] == [[], []]


def test_a_text_that_is_too_long_is_named():
    with pytest.raises(DataError, match="'a dog and a cat and a dog' has 9 tokens with the end mark; the model was"):
        QUICK.encode_texts(["a dog and a cat and a dog"])


def test_limits_follow_the_source_up_to_the_longest():
    assert QUICK.max_new_tokens([1, 2]) == 7
    assert TranslationCodec(WORDS, WORDS, max_length=100).max_new_tokens([1, 2]) == 14


def test_answers_are_texts_with_scores():
    row = WORDS.encode(["the dog"])[0]
    (first,), blank = QUICK.decode_hypotheses([[Hypothesis(tuple(row), -2.0, -1.0)], []])
    assert (first.text, first.score, first.rank) == ("the dog", -2.0, -1.0)
    assert blank == [EMPTY_PREDICTION]


@pytest.mark.parametrize(
    ("count", "decoding", "search"),
    [
        (1, {"name": "greedy"}, {"name": "greedy"}),
        (3, {"name": "beam", "width": 5, "nbest": 1}, {"name": "beam", "width": 5, "nbest": 3}),
        (6, {"name": "beam", "width": 5, "nbest": 1}, None),
        (2, {"name": "greedy"}, None),
    ],
)
def test_one_search_must_be_enough(count, decoding, search):
    assert QUICK.search_settings({"nbest": count}, decoding) == search
