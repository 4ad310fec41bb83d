import pytest

from regard.core.errors import DataError
from regard.data.text import tokenizer
from regard.data.text.tokenizer import TokenizerPair
from regard.tasks.translation import task

WORDS = tokenizer.train(["one two three four five"], level="word", size=20)


def test_texts_end_with_the_mark_and_long_ones_are_refused():
    rows = task.encode(["one", "one two"], WORDS, eos=3, max_length=3)
    assert rows.lengths.tolist() == [2, 3] and rows.tokens[0, 1] == 3
    message = r"^'one two three' has 4 tokens with the end mark; the model was trained for at most 3: split the text$"
    with pytest.raises(DataError, match=message):
        task.encode(["one two three"], WORDS, eos=3, max_length=3)


def test_examples_fit_and_are_taken_in_at_a_glance():
    pairs = [("one", "x"), ("", "x"), ("one two three four", "x"), ("one two three four five one two", "x")]
    assert task.example_sources(pairs, WORDS, max_length=6) == ["one two three four", "one"]


def test_validation_data_of_which_nothing_fits_is_refused_before_training():
    both = TokenizerPair(WORDS, WORDS)
    task.check_length_limit([("one two three four", "one"), ("one", "two")], both, max_length=3)
    with pytest.raises(DataError, match=r"^no pair of the validation data has fewer than 2 tokens on each side; raise"):
        task.check_length_limit([("one two three", "one"), ("one", " ")], both, max_length=2)
