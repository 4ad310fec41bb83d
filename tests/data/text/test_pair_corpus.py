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
def test_rows_come_back(some):
    made = pair_corpus.to_ragged(some)
    assert [made.row(i).tolist() for i in range(made.num_rows)] == some
    assert made.lengths().tolist() == [len(row) for row in some]


@given(rows, st.data())
def test_padded_rows_are_framed(some, data):
    chosen = data.draw(st.lists(st.integers(0, len(some) - 1), min_size=1))
    found = pair_corpus.to_ragged(some).padded(np.array(chosen), prefix=(2,), suffix=(3,))
    for number, row, length in zip(chosen, found.tokens.tolist(), found.lengths.tolist(), strict=True):
        assert row[:length] == [2, *some[number], 3] and not any(row[length:])
    assert found.tokens.shape[1] == found.lengths.max()


@pytest.fixture
def tokenizer():
    return tokenizers.train(["a b c d e f"], level="word", size=20)


def test_pairs_with_an_empty_side_are_left_out_and_counted(tokenizer):
    made = pair_corpus.encode_in_memory([("a", "b"), (" ", "c"), ("d", ""), ("e", "f")], tokenizer, tokenizer)
    assert made.num_pairs == 2 and made.blank == 2


def test_chunks_are_joined(tokenizer, monkeypatch):
    pairs = [("a b", "c"), ("d", "e f"), ("", "x"), ("a", "b"), ("c d e", "f")]
    whole = pair_corpus.encode_in_memory(pairs, tokenizer, tokenizer)
    monkeypatch.setattr(pair_corpus, "CHUNK", 2)
    parts = pair_corpus.encode_in_memory(pairs, tokenizer, tokenizer)
    for one, other in zip(whole[:2], parts[:2], strict=True):
        assert one.tokens.tolist() == other.tokens.tolist() and one.edges.tolist() == other.edges.tolist()
    assert whole.blank == parts.blank == 1


def test_lengths_count_one_mark_a_side(tokenizer):
    made = pair_corpus.encode_in_memory([("a b", "c")], tokenizer, tokenizer)
    batch = made.batch(np.array([0]), SpecialTokens())
    source, target = made.lengths()
    assert source.tolist() == batch.source.lengths.tolist() and target.tolist() == (batch.target.lengths - 1).tolist()


def test_long_pairs_are_counted_part_by_part(tokenizer, monkeypatch):
    monkeypatch.setattr(pair_corpus, "PART", 2)
    made = pair_corpus.encode_in_memory(
        [("a", "b"), ("a b c", "d"), ("a", "b c d"), ("a b", "c"), ("a", "b c d e")], tokenizer, tokenizer
    )
    assert [made.num_longer_than(limit) for limit in (1, 2, 3, 4, 5)] == [5, 4, 3, 1, 0]


def test_no_pairs_are_an_empty_corpus(tokenizer):
    assert pair_corpus.encode_in_memory([], tokenizer, tokenizer).num_pairs == 0


def test_a_large_corpus_is_sampled_for_its_vocabulary(monkeypatch):
    monkeypatch.setattr(pair_corpus, "SAMPLE", 100)
    rows = [(f"s{i}", f"t{i}") for i in range(6)]
    for size, kept in ((50, [0, 1, 2, 3, 4, 5]), (150, [0, 2, 4]), (250, [0, 3])):
        texts = pair_corpus.PairTexts(Pairs("some", lambda: iter(rows), bytes=size), (0, 1))
        assert list(texts) == list(texts) == [text for i in kept for text in rows[i]]
        assert list(pair_corpus.PairTexts(texts.pairs, (1,))) == [rows[i][1] for i in kept]
