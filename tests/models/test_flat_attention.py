"""Flat attention: sentence boundaries have no effect."""

import torch
from samples import DOCUMENTS, documents

from regard.attention.record import record
from regard.layers.document_batch import SentenceBatch, concat_sentences
from regard.models import flat_attention


def test_sentence_boundaries_have_no_effect():
    model, batch = flat_attention.build(flat_attention.TINY, DOCUMENTS).eval(), documents((3, 2))
    text = concat_sentences(batch)
    merged = SentenceBatch(text.tokens, text.lengths, torch.ones(2, dtype=torch.long))
    torch.testing.assert_close(model(merged), model(batch))


def test_one_map_over_all_words():
    model, batch = flat_attention.build(flat_attention.TINY, DOCUMENTS).eval(), documents((3, 2))
    with record(model) as maps:
        model(batch)
    (recorded,) = maps.values()
    assert recorded.keys == "document" and recorded.weights.shape[-1] == int(concat_sentences(batch).lengths.max())
