"""The PixelCNN depends on the generated pixels only."""

from dataclasses import replace

import pytest
import torch

from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.models import pixel_cnn

SIZES = ImageGenerationSpec(height=5, width=7, channels=3, levels=6, num_classes=4)


@pytest.fixture(params=["categorical", "logistic"])
def model(request):
    torch.manual_seed(0)
    return pixel_cnn.build(replace(pixel_cnn.TINY, output=request.param), SIZES).eval()


def inputs(model, batch_size=2):
    labels = torch.randint(6, (batch_size, 105))[:, model.order]
    condition = ImageCondition(torch.tensor([1, 4]), torch.zeros(batch_size, 0, dtype=torch.long))
    return torch.cat([torch.full_like(labels[:, :1], 6), labels[:, :-1]], dim=1), labels, condition


@torch.no_grad()
def test_chunks_and_causality(model):
    tokens, _, condition = inputs(model)
    whole, _ = model.features(tokens, model.start(condition))
    for size in (1, 4):
        state, parts = model.start(condition), []
        for chunk in tokens.split(size, dim=1):
            features, state = model.features(chunk, state)
            parts.append(features)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)
    for position in (1, 9, 34):
        changed = tokens.clone()
        changed[:, position:] = (changed[:, position:] + 1) % 6
        after, _ = model.features(changed, model.start(condition))
        assert after[:, :position].equal(whole[:, :position]) and not after[:, position].equal(whole[:, position])


def test_there_is_no_blind_spot():
    """With enough layers a pixel depends on every earlier one: all rows above, on both sides, and all pixels to the
    left."""
    model = pixel_cnn.build(replace(pixel_cnn.TINY, layers=8), ImageGenerationSpec(5, 7, 1, levels=6)).double().eval()
    tokens = torch.randint(6, (1, 35, 1))
    tokens[:, 0] = 6
    start = ImageCondition(torch.zeros(1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long))
    before, _ = model.features(tokens, model.start(start))
    for position in range(1, 20):
        changed = tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % 6
        after, _ = model.features(changed, model.start(start))
        assert bool((after[0, 20] != before[0, 20]).any()), position


def test_every_parameter_learns(model):
    tokens, labels, condition = inputs(model)
    features, _ = model.features(tokens, model.start(condition))
    model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1)).backward()
    without_grad = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert all(
        name.startswith("layers.1.above") for name in without_grad
    )  # the output of the upper stack of the last layer is not used


def test_invalid_settings():
    with pytest.raises(ConfigError, match=r"side=4 must be odd and at least 3$"):
        replace(pixel_cnn.TINY, side=4)
    with pytest.raises(ConfigError, match=r"^pixel_cnn does not support super-resolution; use model=image_transformer"):
        pixel_cnn.build(pixel_cnn.TINY, replace(SIZES, low_res_size=(2, 2)))
