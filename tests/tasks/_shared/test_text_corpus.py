import pytest

from regard.core.errors import CheckpointError, DataError
from regard.data.text import token_stream
from regard.data.text.plain_text import PlainTextSource
from regard.tasks._shared import text_corpus
from regard.tasks._shared.text_corpus import Corpus, TextPrefix, build_tokenizer, example_prompts


@pytest.fixture
def origin(tmp_path):
    (tmp_path / "train.txt").write_text("the cat sat on the mat\n" * 20)
    (tmp_path / "valid.txt").write_text("a cat")
    (tmp_path / "test.txt").write_text(" ")
    return PlainTextSource((str(tmp_path),), "")


def tokenizer(origin, level="char", size=300):
    return build_tokenizer(origin, level, size, lowercase=False, min_frequency=1)


@pytest.mark.parametrize("level", ["char", "word", "bpe", "unigram", "bytes"])
def test_every_level_reads_the_text_back(origin, level):
    made = tokenizer(origin, level)
    assert made.decode(made.encode(["the mat sat"])) == ["the mat sat"]


def test_streams_are_read_once_and_mapped_where_large(origin, tmp_path, monkeypatch):
    made = tokenizer(origin)
    held = Corpus(origin, made, max_memory_mb=1)
    assert held.stream("valid") is held.stream("valid")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    mapped = Corpus(origin, made, max_memory_mb=0).stream("train")
    assert mapped.tokens.tolist() == held.stream("train").tokens.tolist()
    assert list((tmp_path / "cache" / "corpora").iterdir())


def test_what_is_missing_is_named(origin):
    corpus = Corpus(origin, tokenizer(origin), max_memory_mb=1)
    with pytest.raises(DataError, match="the text has no split 'valld'; did you mean 'valid'"):
        corpus.stream("valld")
    with pytest.raises(DataError, match=r"there is no text in the split 'test'"):
        corpus.stream("test")


def test_a_text_shorter_than_the_context_is_one_clear_line(origin):
    words = r"the training text has 460 tokens, fewer than data.context=500; give more text or a smaller context"
    with pytest.raises(DataError, match=words):
        Corpus(origin, tokenizer(origin), max_memory_mb=1).training_stream(500)


def test_a_vocabulary_is_made_from_the_beginning_of_a_long_text(monkeypatch):
    monkeypatch.setattr(token_stream, "PIECE", 8)
    pieces = list(TextPrefix(["ab cd ef gh", "ij kl", "mn"], 14))
    assert "".join(pieces) == "ab cd ef ghij " and max(map(len, pieces)) <= 8


def test_examples_are_the_first_words_of_lines():
    assert example_prompts(["short\na b c d e f", "g h i j"], count=2, num_words=3) == ["a b c", "g h i"]


def test_where_all_lines_are_short_examples_are_the_longest():
    lines = ["a b", "a b c d\nx\na b c", "e f g h i"]
    assert example_prompts(lines, count=2, num_words=9) == ["e f g h i", "a b c d"]
    assert example_prompts([*lines, "1 2 3 4 5 6 7 8 9 10"], count=2, num_words=9) == ["1 2 3 4 5 6 7 8 9", "e f g h i"]
    assert example_prompts(["a b"], num_words=9) == []


def test_examples_are_kept_and_damage_is_named(origin, tmp_path):
    assert text_corpus.read_examples(tmp_path) == []
    text_corpus.save(tmp_path, tokenizer(origin), ["고양이"])
    assert text_corpus.read_examples(tmp_path) == ["고양이"]
    (tmp_path / text_corpus.EXAMPLES).write_text("{")
    with pytest.raises(CheckpointError, match=r"examples.json: damaged .*; delete it, the run works without"):
        text_corpus.read_examples(tmp_path)
