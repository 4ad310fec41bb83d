"""Plain text as the data of a task: tokenizers, token streams and examples."""

import pytest

from regard.core.errors import CheckpointError, DataError
from regard.data.text import token_stream
from regard.data.text.plain_text import PlainTextSource
from regard.tasks._shared import text_corpus
from regard.tasks._shared.text_corpus import Corpus, TextPrefix, build_tokenizer, example_prompts


@pytest.fixture
def source(tmp_path):
    (tmp_path / "train.txt").write_text("the cat sat on the mat\n" * 20)
    (tmp_path / "valid.txt").write_text("a cat")
    (tmp_path / "test.txt").write_text(" ")
    return PlainTextSource((str(tmp_path),), "")


def train_tokenizer(source, level="char"):
    return build_tokenizer(source, level, 300, lowercase=False, min_frequency=1)


@pytest.mark.parametrize("level", ["char", "word", "bpe", "unigram", "bytes"])
def test_every_level_decodes_what_it_encodes(source, level):
    tokenizer = train_tokenizer(source, level)
    assert tokenizer.decode(tokenizer.encode(["the mat sat"])) == ["the mat sat"]


def test_streams_are_read_once_and_large_ones_are_mapped(source, tmp_path, monkeypatch):
    tokenizer = train_tokenizer(source)
    in_memory = Corpus(source, tokenizer, max_memory_mb=1)
    assert in_memory.stream("valid") is in_memory.stream("valid")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    mapped = Corpus(source, tokenizer, max_memory_mb=0).stream("train")
    assert mapped.tokens.tolist() == in_memory.stream("train").tokens.tolist()
    assert list((tmp_path / "cache" / "corpora").iterdir())


def test_missing_and_empty_splits_are_errors(source):
    corpus = Corpus(source, train_tokenizer(source), max_memory_mb=1)
    with pytest.raises(DataError, match="the text has no split 'valld'; did you mean 'valid'"):
        corpus.stream("valld")
    with pytest.raises(DataError, match=r"there is no text in the split 'test'"):
        corpus.stream("test")


def test_a_text_shorter_than_the_context_is_an_error(source):
    message = r"the training text has 460 tokens, fewer than data.context=500; give more text or a smaller context"
    with pytest.raises(DataError, match=message):
        Corpus(source, train_tokenizer(source), max_memory_mb=1).training_stream(500)


def test_a_vocabulary_is_built_from_the_start_of_a_long_text(monkeypatch):
    monkeypatch.setattr(token_stream, "PIECE_CHARS", 8)
    pieces = list(TextPrefix(["ab cd ef gh", "ij kl", "mn"], 14))
    assert "".join(pieces) == "ab cd ef ghij " and max(map(len, pieces)) <= 8


def test_examples_are_the_first_words_of_lines():
    assert example_prompts(["short\na b c d e f", "g h i j"], count=2, num_words=3) == ["a b c", "g h i"]


def test_if_all_lines_are_short_examples_are_the_longest():
    lines = ["a b", "a b c d\nx\na b c", "e f g h i"]
    assert example_prompts(lines, count=2, num_words=9) == ["e f g h i", "a b c d"]
    assert example_prompts([*lines, "1 2 3 4 5 6 7 8 9 10"], count=2, num_words=9) == ["1 2 3 4 5 6 7 8 9", "e f g h i"]
    assert example_prompts(["a b"], num_words=9) == []


def test_examples_are_stored_and_a_damaged_file_is_an_error(source, tmp_path):
    assert text_corpus.read_examples(tmp_path) == []
    text_corpus.save(tmp_path, train_tokenizer(source), ["고양이"])
    assert text_corpus.read_examples(tmp_path) == ["고양이"]
    (tmp_path / text_corpus.EXAMPLES).write_text("{")
    with pytest.raises(CheckpointError, match=r"examples.json: damaged .*; delete it, the run works without it"):
        text_corpus.read_examples(tmp_path)
