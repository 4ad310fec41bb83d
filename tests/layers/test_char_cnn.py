"""Character CNN: padding has no effect, and features are appended to the first token of a unit."""

import torch

from regard.core.data_specs import SpecialTokens
from regard.layers.char_cnn import CharCNN, concat_char_features
from regard.layers.document_batch import UnitBatch


def char_cnn():
    return CharCNN(12, 4, 6, special_tokens=SpecialTokens(), dropout=0.0)


def test_padding_has_no_effect_and_empty_words_are_zero():
    layer = char_cnn()
    characters = torch.tensor([[[5, 6, 7], [8, 0, 0], [0, 0, 0]]])
    features = layer(characters)
    wide = torch.cat([characters, torch.zeros(1, 3, 4, dtype=torch.long)], dim=-1)
    torch.testing.assert_close(layer(wide), features)
    assert features.shape == (1, 3, 6) and features[0, 2].eq(0).all()
    features.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in layer.parameters())


def test_features_are_appended_to_the_first_token():
    layer, x = char_cnn(), torch.randn(1, 4, 2)
    characters = torch.tensor([[[5, 6], [7, 8], [0, 0]]])
    units = UnitBatch(None, torch.tensor([4]), torch.tensor([[0, 3, 0]]), torch.tensor([2]), characters)
    features = concat_char_features(x, layer, units)
    assert torch.equal(features[..., :2], x)
    torch.testing.assert_close(features[0, [0, 3], 2:], layer(characters)[0, :2])
    assert features[0, 1:3, 2:].eq(0).all()
    assert concat_char_features(x, None, units) is x
