import torch

from regard.core.data_specs import SpecialTokens
from regard.layers.char_cnn import CharCNN, concat_char_features
from regard.layers.document_batch import UnitBatch


def spelling():
    return CharCNN(12, 4, 6, special_tokens=SpecialTokens(), dropout=0.0)


def test_padding_changes_nothing_and_no_letters_are_zeros():
    layer = spelling()
    letters = torch.tensor([[[5, 6, 7], [8, 0, 0], [0, 0, 0]]])
    found = layer(letters)
    wide = torch.cat([letters, torch.zeros(1, 3, 4, dtype=torch.long)], dim=-1)
    torch.testing.assert_close(layer(wide), found)
    assert found.shape == (1, 3, 6) and found[0, 2].eq(0).all()
    found.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in layer.parameters())


def test_the_spelling_of_a_unit_stands_beside_its_first_token():
    layer, x = spelling(), torch.randn(1, 4, 2)
    letters = torch.tensor([[[5, 6], [7, 8], [0, 0]]])
    units = UnitBatch(None, torch.tensor([4]), torch.tensor([[0, 3, 0]]), torch.tensor([2]), letters)
    found = concat_char_features(x, layer, units)
    assert torch.equal(found[..., :2], x)
    torch.testing.assert_close(found[0, [0, 3], 2:], layer(letters)[0, :2])
    assert found[0, 1:3, 2:].eq(0).all()
    assert concat_char_features(x, None, units) is x
