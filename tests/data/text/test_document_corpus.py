from collections import Counter
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
NO_LIMITS = Limits(max_sentence_tokens=50, max_sentences=50, max_tokens=1000)


@pytest.fixture(scope="module")
def tokenizer():
    texts = document_corpus.SentenceTexts(Examples("x", lambda: iter(DOCUMENTS)), Splitter())
    assert list(texts) == list(texts)
    return tokenizers.train(texts, level="word", size=100)


def encode(tokenizer, limits=NO_LIMITS, documents=DOCUMENTS, multi_label=False, names=("neg", "pos")):
    return document_corpus.encode(
        documents, tokenizer, names, splitter=Splitter(), limits=limits, multi_label=multi_label
    )


def test_documents_are_encoded_sentence_by_sentence(tokenizer):
    encoded = encode(tokenizer)
    assert encoded.size == 3 and encoded.blank == 1 and encoded.shortened == 0
    batch = encoded.batch(np.array([1, 0]))
    assert batch.labels.tolist() == [0, 1] and batch.documents.counts.tolist() == [2, 2]
    rows = [row[:n] for row, n in zip(batch.documents.tokens.tolist(), batch.documents.lengths.tolist(), strict=True)]
    assert tokenizer.decode(rows) == ["Bad.", "Very bad indeed.", "A good film.", "I liked it!"]
    assert encoded.lengths().tolist() == [8, 6, 8]


def test_long_sentences_are_split_without_loss(tokenizer):
    (cut,) = document_corpus.tokenize_documents(TEXTS[3:], tokenizer, splitter=Splitter(), limits=Limits(3, 50, 1000))
    assert [len(row) for row in cut.rows] == [3, 3, 2] and cut.num_tokens == 8
    assert tokenizer.decode([[t for row in cut.rows for t in row]]) == TEXTS[3:]
    assert cut.spans == [(0, len(TEXTS[3]))] * 3


@pytest.mark.parametrize(("limits", "lengths"), [(Limits(3, 2, 1000), [3, 3]), (Limits(3, 50, 4), [3, 1])])
def test_truncated_documents_are_counted(tokenizer, limits, lengths):
    encoded = encode(tokenizer, limits, DOCUMENTS[3:])
    assert encoded.shortened == 1 and encoded.sentences.lengths().tolist() == lengths


def test_multiple_labels_are_multi_hot(tokenizer):
    documents = [Document("a b", ("x", "y"), "1"), Document("c", (), "2")]
    encoded = encode(tokenizer, documents=documents, multi_label=True, names=("x", "y", "z"))
    assert encoded.labels.tolist() == [[1, 1, 0], [0, 0, 0]]
    assert document_corpus.label_counts(encoded.labels) == {0: 1, 1: 1}
    assert document_corpus.label_counts(np.array([0, 1, 1])) == {0: 1, 1: 2}


def test_label_names_are_sorted():
    names = ("10", "9.5", "-1", "b", "a", "①", "²")
    assert document_corpus.label_names([Document("", (name,), "") for name in names]) == [
        *("-1", "9.5", "10", "a", "b", "²", "①")
    ]
    with pytest.raises(
        DataError, match="every document has the label 'x'; classification needs at least two different labels"
    ):
        document_corpus.label_names([Document("", ("x",), "")])
    with pytest.raises(DataError, match="no document has a label"):
        document_corpus.label_names([Document("", (), "")])


def test_labels_of_held_out_documents_are_labels_unless_they_are_in_a_file_of_their_own():
    """A label with few documents may have all of them in a split that was cut off."""

    def rows(*labels, is_held_out=False):
        found = [Document("a", (label,), "file:7") for label in labels]
        return Examples("file", lambda: iter(found), is_held_out=is_held_out)

    cut_off = {"train": rows("a", "b"), "valid": rows("c", is_held_out=True), "test": rows("a")}
    assert document_corpus.training_labels(cut_off) == ["a", "b", "c"]
    (warning,) = document_corpus.missing_label_warnings(Counter({0: 1, 1: 1}), ["a", "b", "c"])
    assert warning.startswith("no training document has the label 'c': all documents of it are held out")
    assert document_corpus.missing_label_warnings(Counter({0: 1, 1: 1}), ["a", "b"]) == []
    with pytest.raises(DataError, match="file:7: label 'c' is not in the training data"):
        document_corpus.training_labels({**cut_off, "valid": rows("c")})


def test_an_unknown_label_is_an_error_with_its_location(tokenizer):
    with pytest.raises(DataError, match=r"file:7: label 'poz' is not in the training data; did you mean 'pos'"):
        encode(tokenizer, documents=[Document("a", ("poz",), "file:7")])


def test_batches_have_every_document_once_and_similar_lengths():
    lengths = np.random.default_rng(0).integers(1, 500, size=1000)
    batches = document_corpus.epoch_batches(lengths, batch_size=16, budget=5000, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert all(len(batch) <= 16 and lengths[batch].max() * len(batch) <= 5000 for batch in batches if len(batch) > 1)
    real = sum(int(lengths[batch].sum()) for batch in batches)
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    assert real / padded > 0.9
    again, next_epoch = (
        document_corpus.epoch_batches(lengths, batch_size=16, budget=5000, seed=1, epoch=epoch) for epoch in (0, 1)
    )
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(batches, next_epoch, strict=False))


def test_one_document_longer_than_the_budget_is_a_batch_of_its_own():
    batches = document_corpus.epoch_batches(np.array([9000, 3, 4]), batch_size=8, budget=100, seed=1, epoch=0)
    assert sorted(map(len, batches)) == [1, 2]


def test_collated_documents_equal_a_batch(tokenizer):
    cuts = document_corpus.tokenize_documents(TEXTS[:2], tokenizer, splitter=Splitter(), limits=NO_LIMITS)
    grouped, batch = document_corpus.collate_documents(cuts), encode(tokenizer).batch(np.array([0, 1])).documents
    assert all((a == b).all() for a, b in zip(grouped, batch, strict=True))
    assert all(a <= b for a, b in pairwise(cuts[0].spans))
