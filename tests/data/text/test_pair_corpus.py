import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.data_specs import SpecialTokens
from regard.data.text import pair_corpus
from regard.data.text import tokenizer as tokenizers
from regard.data.text.pair_files import Pairs

rows = st.lists(st.lists(st.integers(4, 9), max_size=6), min_size=1, max_size=12)


@given(rows)
def test_rows_are_unchanged(token_rows):
    corpus = pair_corpus.to_ragged(token_rows)
    assert [corpus.row(i).tolist() for i in range(corpus.num_rows)] == token_rows
    assert corpus.lengths().tolist() == [len(row) for row in token_rows]


@given(rows, st.data())
def test_padded_rows_have_prefix_and_suffix(token_rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(token_rows) - 1), min_size=1))
    padded = pair_corpus.to_ragged(token_rows).padded(np.array(chosen), prefix=(2,), suffix=(3,))
    for index, row, length in zip(chosen, padded.tokens.tolist(), padded.lengths.tolist(), strict=True):
        assert row[:length] == [2, *token_rows[index], 3] and not any(row[length:])
    assert padded.tokens.shape[1] == padded.lengths.max()


@pytest.fixture
def tokenizer():
    return tokenizers.train(["a b c d e f"], level="word", size=20)


def test_pairs_with_an_empty_side_are_removed_and_counted(tokenizer):
    corpus = pair_corpus.encode_in_memory([("a", "b"), (" ", "c"), ("d", ""), ("e", "f")], tokenizer, tokenizer)
    assert corpus.num_pairs == 2 and corpus.blank == 2


def test_chunks_are_joined(tokenizer, monkeypatch):
    pairs = [("a b", "c"), ("d", "e f"), ("", "x"), ("a", "b"), ("c d e", "f")]
    unchunked = pair_corpus.encode_in_memory(pairs, tokenizer, tokenizer)
    monkeypatch.setattr(pair_corpus, "CHUNK_PAIRS", 2)
    chunked = pair_corpus.encode_in_memory(pairs, tokenizer, tokenizer)
    for first, second in zip(unchunked[:2], chunked[:2], strict=True):
        assert first.tokens.tolist() == second.tokens.tolist() and first.edges.tolist() == second.edges.tolist()
    assert unchunked.blank == chunked.blank == 1


def test_lengths_count_one_special_token_per_side(tokenizer):
    corpus = pair_corpus.encode_in_memory([("a b", "c")], tokenizer, tokenizer)
    batch = corpus.batch(np.array([0]), SpecialTokens())
    source, target = corpus.lengths()
    assert source.tolist() == batch.source.lengths.tolist() and target.tolist() == (batch.target.lengths - 1).tolist()


def test_long_pairs_are_counted_in_chunks(tokenizer, monkeypatch):
    monkeypatch.setattr(pair_corpus, "LENGTH_CHUNK_PAIRS", 2)
    corpus = pair_corpus.encode_in_memory(
        [("a", "b"), ("a b c", "d"), ("a", "b c d"), ("a b", "c"), ("a", "b c d e")], tokenizer, tokenizer
    )
    assert [corpus.num_longer_than(limit) for limit in (1, 2, 3, 4, 5)] == [5, 4, 3, 1, 0]


def test_no_pairs_are_an_empty_corpus(tokenizer):
    assert pair_corpus.encode_in_memory([], tokenizer, tokenizer).num_pairs == 0


def test_a_large_corpus_is_sampled_for_its_vocabulary(monkeypatch):
    monkeypatch.setattr(pair_corpus, "VOCAB_SAMPLE_BYTES", 100)
    rows = [(f"s{i}", f"t{i}") for i in range(6)]
    for size, expected in ((50, [0, 1, 2, 3, 4, 5]), (150, [0, 2, 4]), (250, [0, 3])):
        texts = pair_corpus.PairTexts(Pairs("some", lambda: iter(rows), bytes=size), (0, 1))
        assert list(texts) == list(texts) == [text for i in expected for text in rows[i]]
        assert list(pair_corpus.PairTexts(texts.pairs, (1,))) == [rows[i][1] for i in expected]
