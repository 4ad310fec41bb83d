"""The CNN: images to classes."""

from dataclasses import replace

import pytest
import torch

from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import ConfigError
from regard.models import cnn

SIZES = ImageClassificationSpec(height=8, width=11, channels=3, num_classes=4)


@pytest.mark.parametrize("change", [{}, {"stages": 1}, {"blocks": 2, "dropout": 0.5}])
def test_images_to_classes(change):
    model, x = cnn.build(replace(cnn.TINY, **change), SIZES), torch.rand(6, 3, 8, 11)
    assert model(x).shape == (6, 4)
    model.readout.loss(model.features(x), torch.arange(6) % 4).backward()
    assert all(weight.grad is not None for weight in model.parameters())
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x)[2:3], model(x[2:3]), atol=1e-5, rtol=1e-5)


def test_invalid_settings():
    with pytest.raises(ConfigError, match=r"^stages=0 must be at least 1$"):
        replace(cnn.TINY, stages=0)
    with pytest.raises(ConfigError, match=r"^dropout=1.0 must be at least 0 and below 1$"):
        replace(cnn.TINY, dropout=1.0)
