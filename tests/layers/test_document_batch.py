"""Grouping of sentences by document and of tokens by unit."""

import torch

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Padded
from regard.layers.document_batch import (
    SentenceBatch,
    UnitBatch,
    add_bos_eos,
    concat_sentences,
    gather_first_tokens,
    group_by_document,
)


def test_sentences_are_grouped_by_document():
    x = torch.arange(1.0, 6.0)[:, None]
    actual = group_by_document(x, torch.tensor([2, 0, 3]))
    assert actual[..., 0].tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]


def test_gradients_reach_every_sentence():
    x = torch.randn(4, 2, requires_grad=True)
    group_by_document(x, torch.tensor([3, 1])).sum().backward()
    assert x.grad.eq(1).all()


def test_sentences_are_concatenated():
    tokens = torch.tensor([[5, 6, 0], [7, 0, 0], [8, 9, 4], [3, 0, 0]])
    documents = SentenceBatch(tokens, torch.tensor([2, 1, 3, 1]), torch.tensor([2, 0, 1, 1]))
    text = concat_sentences(documents)
    assert text.lengths.tolist() == [3, 0, 3, 1]
    assert text.tokens.tolist() == [[5, 6, 7], [0, 0, 0], [8, 9, 4], [3, 0, 0]]


def test_wider_padding_has_no_effect():
    tokens = torch.tensor([[5, 6, 0, 0, 0], [7, 0, 0, 0, 0]])
    text = concat_sentences(SentenceBatch(tokens, torch.tensor([2, 1]), torch.tensor([2])))
    assert text.tokens.tolist() == [[5, 6, 7]]


def test_no_documents():
    assert group_by_document(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).shape == (0, 0, 3)


def test_bos_and_eos_are_added_to_every_row():
    special_tokens = SpecialTokens()
    actual = add_bos_eos(Padded(torch.tensor([[7, 8, 9], [7, 0, 0]]), torch.tensor([3, 1])), special_tokens)
    assert actual.tokens.tolist() == [[2, 7, 8, 9, 3], [2, 7, 3, 0, 0]]
    assert actual.lengths.tolist() == [5, 3]


def test_a_unit_has_the_features_of_its_first_token():
    x = torch.arange(8.0).view(1, 4, 2)
    units = UnitBatch(None, None, torch.tensor([[0, 3]]), torch.tensor([2]), None)
    assert gather_first_tokens(x, units).tolist() == [[[0, 1], [6, 7]]]
