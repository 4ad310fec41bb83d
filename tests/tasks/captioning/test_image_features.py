"""Image encoders: raw pixels, and stored features of a pretrained network."""

import sys
import types

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.core.errors import ConfigError, DataError, MissingExtra
from regard.data.images.resize import ImageShape
from regard.tasks.captioning import Config, image_features


class Net(nn.Module):
    """Stand-in for a network of timm; counts the images that it encodes."""

    pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}  # noqa: RUF012  # as timm has it
    num_images = 0

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 4, stride=4)

    def forward_features(self, x):
        Net.num_images += len(x)
        return self.conv(x)


class FlatNet(Net):
    """A network whose features are not a grid."""

    def forward_features(self, x):
        return super().forward_features(x).flatten(1)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    nets = {"net": Net, "flat": FlatNet}
    timm = types.SimpleNamespace(create_model=lambda name, pretrained: nets[name]())
    monkeypatch.setitem(sys.modules, "timm", timm)
    torch.manual_seed(0)
    save_file(Net().state_dict(), tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


def test_raw_pixels():
    encoder = image_features.build_image_encoder("", None)
    assert encoder.output_shape(ImageShape(8, 12, 3)) == (8, 12, 3)
    images = np.full((3, 8, 12, 3), 255, np.uint8)
    assert encoder.encode_rows(images, np.array([2, 0])).shape == (2, 3, 8, 12) and encoder(images).max() == 1


def test_features_are_computed_once_and_stored(weights):
    images = np.random.default_rng(0).integers(0, 255, (40, 8, 12, 3), dtype=np.uint8)
    encoder = image_features.build_image_encoder("net", weights)
    assert encoder.output_shape(ImageShape(8, 12, 3)) == (2, 3, 5)
    rows = np.array([39, 3])
    features = encoder.encode_rows(images, rows)
    assert torch.allclose(features, encoder(images[rows]), atol=2e-3) and not encoder(images[:1]).requires_grad
    num_images = Net.num_images
    second = image_features.build_image_encoder("net", weights)
    assert torch.equal(second.encode_rows(images, rows), features)
    assert Net.num_images == num_images + 1  # one image, for the shape of stored features


def test_unusable_networks_and_weights_are_errors(weights, tmp_path, monkeypatch):
    images = np.zeros((1, 8, 8, 3), np.uint8)
    with pytest.raises(
        ConfigError, match=r"^backbone='net' needs its weights: data.backbone_weights=FILE.safetensors$"
    ):
        image_features.build_image_encoder("net", None)
    with pytest.raises(DataError, match=r"x.pth: give the weights of the network as an existing .safetensors file$"):
        image_features.build_image_encoder("net", tmp_path / "x.pth")(images)
    with pytest.raises(ConfigError, match=r"pretrained networks need colour images; set data.channels=3"):
        image_features.build_image_encoder("net", weights)(images[..., :1])
    with pytest.raises(ConfigError, match=r"backbone='flat' gives features \(1, 20\), not a grid; choose a convol"):
        image_features.build_image_encoder("flat", weights)(images)
    save_file({"two": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ConfigError, match=r"^backbone='net' does not fit the weights .*other\.safetensors: "):
        image_features.build_image_encoder("net", tmp_path / "other.safetensors")(images)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtra, match=r"^timm is not installed; run: pip install timm$"):
        image_features.build_image_encoder("net", weights)(images)


@pytest.mark.parametrize("change", [{"crop": 8}, {"flip": 0.5}, {"grey": 0.1}])
def test_augmentation_of_stored_features_is_refused(weights, change):
    name, value = next(iter(change.items()))
    message = rf"^{name}={value}: augmentation changes pixels, but the features of backbone='net' are computed once"
    with pytest.raises(ConfigError, match=message):
        Config(backbone="net", backbone_weights=weights, **change)
    Config(backbone="net", backbone_weights=weights)
