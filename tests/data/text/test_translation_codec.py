"""Translation without torch: rows, limits and predictions equal those of the task."""

import pytest

from regard.core.errors import DataError
from regard.core.protocols import Hypothesis
from regard.data.text import tokenizer
from regard.data.text.translation_codec import EMPTY_PREDICTION, TranslationCodec

WORDS = tokenizer.train(["a dog and a cat", "the dog"], level="word", size=50)
CODEC = TranslationCodec(WORDS, WORDS, max_length=8)


def test_rows_end_with_eos_and_blank_texts_are_empty():
    rows = CODEC.encode_texts(["a dog", "", "  "])
    assert rows[0][-1] == CODEC.special_tokens.eos and len(rows[0]) == 3
    assert rows[1:] == [[], []]


def test_a_text_that_is_too_long_is_an_error():
    with pytest.raises(DataError, match="'a dog and a cat and a dog' has 9 tokens including EOS; the model was"):
        CODEC.encode_texts(["a dog and a cat and a dog"])


def test_the_token_limit_depends_on_the_source_and_max_length():
    assert CODEC.max_new_tokens([1, 2]) == 7
    assert TranslationCodec(WORDS, WORDS, max_length=100).max_new_tokens([1, 2]) == 14


def test_predictions_are_texts_with_scores():
    row = WORDS.encode(["the dog"])[0]
    (first,), blank = CODEC.decode_hypotheses([[Hypothesis(tuple(row), -2.0, -1.0)], []])
    assert (first.text, first.score, first.ranking_score) == ("the dog", -2.0, -1.0)
    assert blank == [EMPTY_PREDICTION]


@pytest.mark.parametrize(
    ("count", "decoding", "search"),
    [
        (1, {"name": "greedy"}, {"name": "greedy"}),
        (3, {"name": "beam", "beam_width": 5, "nbest": 1}, {"name": "beam", "beam_width": 5, "nbest": 3}),
        (6, {"name": "beam", "beam_width": 5, "nbest": 1}, None),
        (2, {"name": "greedy"}, None),
    ],
)
def test_search_settings_need_a_wide_enough_beam(count, decoding, search):
    assert CODEC.search_settings({"n": count}, decoding) == search
