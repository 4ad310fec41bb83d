import torch
from samples import DOCUMENTS, documents

from regard.attention.record import record
from regard.layers.document_batch import SentenceBatch, concat_sentences
from regard.models import flat_attention


def test_cuts_between_sentences_make_no_difference():
    model, given = flat_attention.build(flat_attention.TINY, DOCUMENTS).eval(), documents((3, 2))
    whole = concat_sentences(given)
    uncut = SentenceBatch(whole.tokens, whole.lengths, torch.ones(2, dtype=torch.long))
    torch.testing.assert_close(model(uncut), model(given))


def test_one_map_over_all_words():
    model, given = flat_attention.build(flat_attention.TINY, DOCUMENTS).eval(), documents((3, 2))
    with record(model) as maps:
        model(given)
    (found,) = maps.values()
    assert found.keys == "document" and found.weights.shape[-1] == int(concat_sentences(given).lengths.max())
