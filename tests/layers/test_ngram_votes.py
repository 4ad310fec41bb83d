"""N-gram votes: fitted to labels, out of fold in training, and added to the logits."""

import pytest
import torch

from regard.layers import ngram_votes
from regard.layers.document_batch import SentenceBatch
from regard.layers.ngram_votes import FOLDS, NgramVotes
from regard.layers.readout import make_readout


def corpus(num_documents=60, num_labels=2, seed=0):
    """Documents of two sentences, in which one token depends on the label."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_documents) % num_labels
    tokens = torch.randint(10, 40, (2 * num_documents, 5), generator=random)
    tokens[::2, 2] = 4 + labels
    return SentenceBatch(tokens, torch.full((len(tokens),), 5), torch.full((num_documents,), 2)), labels


def fitted(documents, labels, num_labels=2):
    votes = NgramVotes(5000, num_labels, multi_label=False, pad=0)
    votes.fit([(documents, labels)])
    return votes


def test_the_votes_of_two_labels_have_the_sign_of_the_label():
    documents, labels = corpus()
    votes = fitted(documents, labels)
    for mode in (True, False):
        assert ((votes.train(mode)(documents)[:, 0] > 0) == (labels == 1)).all()


def test_each_of_several_labels_has_a_column():
    documents, labels = corpus(num_labels=3)
    assert (fitted(documents, labels, num_labels=3).eval()(documents).argmax(dim=1) == labels).all()


def test_the_training_votes_of_a_document_do_not_depend_on_its_label(monkeypatch):
    monkeypatch.setattr(ngram_votes, "COSTS", (0.1,))  # C and the scale follow from all documents
    monkeypatch.setattr(ngram_votes, "SCALES", (1.0,))
    documents, labels = corpus()
    changed = labels.clone()
    changed[7] = 1 - changed[7]
    before, after = (fitted(documents, y).train() for y in (labels, changed))
    fold = before._fold(documents)[7]
    assert torch.equal(before.tables[fold], after.tables[fold])
    assert not torch.equal(before.tables[FOLDS], after.tables[FOLDS])
    one = SentenceBatch(documents.tokens[14:16], documents.lengths[14:16], documents.counts[7:8])
    torch.testing.assert_close(before(one)[0], before(documents)[7])


def test_repeated_ngrams_count_once():
    votes = NgramVotes(5000, 2, multi_label=False, pad=0).eval()
    votes.tables.fill_(1.0)
    tokens = torch.tensor([[5, 5, 5, 5]])
    once = votes(SentenceBatch(tokens, torch.tensor([4]), torch.tensor([1])))
    # "5"; two bigrams, one at the start of the sentence; three trigrams, two of them at its start
    assert once.item() == 6


@pytest.mark.parametrize("num_labels", [2, 3])
def test_a_new_output_layer_adds_the_votes_to_the_logits(num_labels):
    votes = NgramVotes(50, num_labels, multi_label=False, pad=0)
    readout = make_readout(4 + votes.columns, num_labels, multi_label=False)
    votes.connect(readout)
    values = torch.randn(3, votes.columns)
    zeros = torch.zeros(3, 4)
    added = readout(torch.cat([zeros, values], dim=1)) - readout(torch.zeros(3, 4 + votes.columns))
    difference = added[:, 1] - added[:, 0]
    expected = values[:, 0] if num_labels == 2 else values[:, 1] - values[:, 0]
    torch.testing.assert_close(difference, expected)
