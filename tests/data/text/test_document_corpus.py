from itertools import pairwise

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.examples import Examples
from regard.data.text import document_corpus
from regard.data.text import tokenizer as tokenizers
from regard.data.text.document_corpus import Limits
from regard.data.text.document_files import Document
from regard.data.text.sentence_splitter import Splitter

TEXTS = ["A good film. I liked it!", "Bad. Very bad indeed.", "  ", "One two three four five six seven."]
LABELS = ["pos", "neg", "pos", "neg"]
DOCUMENTS = [Document(text, (label,), f"x:{i}") for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True), 1)]
WIDE = Limits(max_sentence_tokens=50, max_sentences=50, max_tokens=1000)


@pytest.fixture(scope="module")
def tokenizer():
    texts = document_corpus.SentenceTexts(Examples("x", lambda: iter(DOCUMENTS)), Splitter())
    assert list(texts) == list(texts)
    return tokenizers.train(texts, level="word", size=100)


def encode(tokenizer, limits=WIDE, documents=DOCUMENTS, several=False, names=("neg", "pos")):
    return document_corpus.encode(documents, tokenizer, names, splitter=Splitter(), limits=limits, multi_label=several)


def test_documents_are_encoded_sentence_by_sentence(tokenizer):
    found = encode(tokenizer)
    assert found.size == 3 and found.blank == 1 and found.shortened == 0
    batch = found.batch(np.array([1, 0]))
    assert batch.labels.tolist() == [0, 1] and batch.documents.counts.tolist() == [2, 2]
    rows = [row[:n] for row, n in zip(batch.documents.tokens.tolist(), batch.documents.lengths.tolist(), strict=True)]
    assert tokenizer.decode(rows) == ["Bad.", "Very bad indeed.", "A good film.", "I liked it!"]
    assert found.lengths().tolist() == [8, 6, 8]


def test_long_sentences_are_cut_and_nothing_is_lost(tokenizer):
    (cut,) = document_corpus.tokenize_documents(TEXTS[3:], tokenizer, splitter=Splitter(), limits=Limits(3, 50, 1000))
    assert [len(row) for row in cut.rows] == [3, 3, 2] and cut.num_tokens == 8
    assert tokenizer.decode([[t for row in cut.rows for t in row]]) == TEXTS[3:]
    assert cut.spans == [(0, len(TEXTS[3]))] * 3


@pytest.mark.parametrize(("limits", "kept"), [(Limits(3, 2, 1000), [3, 3]), (Limits(3, 50, 4), [3, 1])])
def test_what_is_beyond_the_limits_is_counted(tokenizer, limits, kept):
    found = encode(tokenizer, limits, DOCUMENTS[3:])
    assert found.shortened == 1 and found.sentences.lengths().tolist() == kept


def test_several_labels_are_a_table(tokenizer):
    documents = [Document("a b", ("x", "y"), "1"), Document("c", (), "2")]
    found = encode(tokenizer, documents=documents, several=True, names=("x", "y", "z"))
    assert found.labels.tolist() == [[1, 1, 0], [0, 0, 0]]
    assert document_corpus.label_counts(found.labels) == {0: 1, 1: 1}
    assert document_corpus.label_counts(np.array([0, 1, 1])) == {0: 1, 1: 2}


def test_labels_are_sorted_and_counted():
    assert document_corpus.label_names([Document("", (name,), "") for name in ("10", "9", "-1", "b", "a")]) == [
        *("-1", "9", "10", "a", "b")
    ]
    with pytest.raises(DataError, match="every document has the label 'x'; there is nothing to tell apart"):
        document_corpus.label_names([Document("", ("x",), "")])
    with pytest.raises(DataError, match="no document has a label"):
        document_corpus.label_names([Document("", (), "")])


def test_a_label_unseen_in_training_is_named_with_its_place(tokenizer):
    with pytest.raises(DataError, match=r"file:7: label 'poz' is not in the training data; did you mean 'pos'"):
        encode(tokenizer, documents=[Document("a", ("poz",), "file:7")])


def test_batches_hold_every_document_once_and_like_lengths():
    lengths = np.random.default_rng(0).integers(1, 500, size=1000)
    batches = document_corpus.epoch_batches(lengths, batch_size=16, budget=5000, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert all(len(batch) <= 16 and lengths[batch].max() * len(batch) <= 5000 for batch in batches if len(batch) > 1)
    real = sum(int(lengths[batch].sum()) for batch in batches)
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    assert real / padded > 0.9
    again, other = (
        document_corpus.epoch_batches(lengths, batch_size=16, budget=5000, seed=1, epoch=epoch) for epoch in (0, 1)
    )
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(batches, other, strict=False))


def test_one_document_longer_than_the_budget_is_a_batch_of_its_own():
    batches = document_corpus.epoch_batches(np.array([9000, 3, 4]), batch_size=8, budget=100, seed=1, epoch=0)
    assert sorted(map(len, batches)) == [1, 2]


def test_a_group_is_what_a_batch_has(tokenizer):
    cuts = document_corpus.tokenize_documents(TEXTS[:2], tokenizer, splitter=Splitter(), limits=WIDE)
    grouped, batch = document_corpus.collate_documents(cuts), encode(tokenizer).batch(np.array([0, 1])).documents
    assert all((a == b).all() for a, b in zip(grouped, batch, strict=True))
    assert all(a <= b for a, b in pairwise(cuts[0].spans))
