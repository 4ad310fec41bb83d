import torch

from regard.core.data_specs import SpecialTokens
from regard.layers.embedding import WordDropoutEmbedding


def test_words_are_left_out_about_as_often_as_asked_for():
    words = WordDropoutEmbedding(10, 3, special_tokens=SpecialTokens(), dropout=0.0, word_dropout=0.25)
    found = words(torch.full((4000,), 7))
    left_out = (found == words.table.weight[SpecialTokens.unk]).all(dim=-1).float().mean()
    assert 0.2 < left_out < 0.3
    words.eval()
    assert (words(torch.tensor([7])) == words.table.weight[7]).all()


def test_padding_is_zero():
    assert (
        WordDropoutEmbedding(10, 3, special_tokens=SpecialTokens(), dropout=0.0, word_dropout=0.0)(torch.tensor([0]))
        .eq(0)
        .all()
    )
