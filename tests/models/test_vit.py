"""The Vision Transformer keeps the invariants in every configuration; patches, convolutions and invalid settings."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import ConfigError
from regard.core.registry import registered_names
from regard.inspection.invariants import reference_attention
from regard.models import vit

SIZES = ImageClassificationSpec(height=8, width=11, channels=3, num_classes=4)
CASES = (
    [{"position": name} for name in registered_names("regard.layers.positions")]
    + [{"score": name} for name in registered_names("regard.attention.scores")]
    + [
        {"pool": pool, "tokens": tokens}
        for pool in ("class", "mean", "attention")
        for tokens in ("patches", "convolution", "stem")
    ]
    + [{"axes": 2, "position": name} for name in ("learned", "sinusoidal")]
)


def build(change):
    torch.manual_seed(0)
    return vit.build(replace(vit.TINY, **change), SIZES).eval()


def images(batch_size=2):
    return torch.rand(batch_size, 3, 8, 11) * 2 - 1


@pytest.mark.parametrize("change", CASES, ids=str)
def test_invariants(change):
    model, x = build(change), images()
    with torch.no_grad():
        plain = model(x)
        assert plain.shape == (2, 4)
        torch.testing.assert_close(model(x[1:]), plain[1:], atol=1e-5, rtol=1e-5)
        with reference_attention(model):
            torch.testing.assert_close(model(x), plain, atol=1e-5, rtol=1e-5)
        with record(model) as maps:
            assert model(x).equal(plain)
    for recorded in maps.values():
        torch.testing.assert_close(recorded.weights.sum(dim=-1), torch.ones_like(recorded.weights[..., 0]))
    model.readout.loss(model.features(x), torch.tensor([1, 3])).backward()
    without = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert without in ([], ["first"])


def test_a_patch_is_a_square_of_pixels():
    patches = vit.PatchEmbedding(3, 5, patch_size=3).double()
    x = torch.randn(2, 3, 8, 11, dtype=torch.float64)
    assert patches.grid_size(8, 11) == (3, 4)
    tokens = patches(x).view(2, 3, 4, 5)
    torch.testing.assert_close(tokens[:, 1, 2], patches.project(x[:, :, 3:6, 6:9].flatten(1)))
    as_convolution = torch.nn.functional.conv2d(x[:, :, :6, :9], patches.project.weight.view(5, 3, 3, 3), stride=3)
    torch.testing.assert_close(tokens[:, :2, :3] - patches.project.bias, as_convolution.permute(0, 2, 3, 1))


def test_without_positions_the_order_of_patches_does_not_matter():
    model = build({"position": "none", "pool": "mean"})
    x = images()[:, :, :6, :9]
    swapped = torch.cat([x[:, :, 3:], x[:, :, :3]], dim=2)
    torch.testing.assert_close(model(swapped), model(x), atol=1e-5, rtol=1e-5)
    with_positions = build({"pool": "mean"})
    padded = torch.nn.functional.pad(x, (0, 2, 0, 2)), torch.nn.functional.pad(swapped, (0, 2, 0, 2))
    assert not with_positions(padded[0]).allclose(with_positions(padded[1]), atol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(8, 11), (32, 32), (5, 4), (1, 1)])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tokenizer", [vit.ConvTokenizer, vit.ConvStem])
def test_the_grid_of_convolutions(height, width, count, tokenizer):
    tokens = tokenizer(3, 16, num_halvings=count).eval()
    rows, columns = tokens.grid_size(height, width)
    assert tokens(torch.randn(1, 3, height, width)).shape == (1, rows * columns, 16)


def test_parameter_count_of_cct():
    model = vit.build(vit.PRESETS["cct"], ImageClassificationSpec(32, 32, 3, 10))
    assert 0.27e6 < sum(weight.numel() for weight in model.parameters()) < 0.31e6  # 0.284 M in the paper


def test_overfits_eight_images():
    model, x, labels = build({}).train(), images(8), torch.arange(8) % 4
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = model.readout.loss(model.features(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert model(x).argmax(dim=1).equal(labels)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"patch": 0}, "patch=0 must be at least 1"),
        ({"dim": 15}, "dim=15 cannot be divided among heads=2; choose a multiple of 2"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, text):
    with pytest.raises(ConfigError, match=f"^{text}$"):
        replace(vit.TINY, **change)


def test_positions_inside_the_score_have_one_axis():
    with pytest.raises(ConfigError, match=r"^position='relative' is one-dimensional and inside the score"):
        build({"axes": 2, "position": "relative"})
