"""Images as pixels, or as what a pretrained net makes of them."""

import sys
import types

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.core.errors import ConfigError, DataError, MissingExtra
from regard.data.images.resize import ImageShape
from regard.tasks.captioning import image_features


class Net(nn.Module):
    """In place of a net of timm."""

    pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}  # noqa: RUF012  # as timm has it
    calls = 0

    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 5, 4, stride=4)

    def forward_features(self, x):
        Net.calls += len(x)
        return self.one(x)


class Flat(Net):
    """A net whose features are no grid."""

    def forward_features(self, x):
        return super().forward_features(x).flatten(1)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    nets = {"net": Net, "flat": Flat}
    fake = types.SimpleNamespace(create_model=lambda name, pretrained: nets[name]())
    monkeypatch.setitem(sys.modules, "timm", fake)
    torch.manual_seed(0)
    save_file(Net().state_dict(), tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


def test_pixels_as_they_are():
    plain = image_features.build_image_encoder("", None)
    assert plain.output_shape(ImageShape(8, 12, 3)) == (8, 12, 3)
    images = np.full((3, 8, 12, 3), 255, np.uint8)
    assert plain.encode_rows(images, np.array([2, 0])).shape == (2, 3, 8, 12) and plain(images).max() == 1


def test_features_are_computed_once_and_stored(weights):
    images = np.random.default_rng(0).integers(0, 255, (40, 8, 12, 3), dtype=np.uint8)
    seen = image_features.build_image_encoder("net", weights)
    assert seen.output_shape(ImageShape(8, 12, 3)) == (2, 3, 5)
    rows = np.array([39, 3])
    first = seen.encode_rows(images, rows)
    assert torch.allclose(first, seen(images[rows]), atol=2e-3) and not seen(images[:1]).requires_grad
    before = Net.calls
    again = image_features.build_image_encoder("net", weights)
    assert torch.equal(again.encode_rows(images, rows), first)
    assert Net.calls == before + 1  # one image, for the shape of what is stored


def test_what_cannot_be_seen_with_is_named(weights, tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match=r"^features='net' needs the net's weights: data.backbone_weights=FILE.safetensors$"
    ):
        image_features.build_image_encoder("net", None)
    with pytest.raises(DataError, match=r"x.pth: give the net's weights as a .safetensors file that is there$"):
        image_features.build_image_encoder("net", tmp_path / "x.pth")(np.zeros((1, 8, 8, 3), np.uint8))
    with pytest.raises(ConfigError, match=r"pretrained nets take colour images; set data.channels=3"):
        image_features.build_image_encoder("net", weights)(np.zeros((1, 8, 8, 1), np.uint8))
    with pytest.raises(ConfigError, match=r"features='flat' gives no grid but \(1, 20\); choose a convolutional net"):
        image_features.build_image_encoder("flat", weights)(np.zeros((1, 8, 8, 3), np.uint8))
    save_file({"two": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ConfigError, match="they do not fit: "):
        image_features.build_image_encoder("net", tmp_path / "other.safetensors")(np.zeros((1, 8, 8, 3), np.uint8))
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtra, match=r"^timm is not installed; run: pip install timm$"):
        image_features.build_image_encoder("net", weights)(np.zeros((1, 8, 8, 3), np.uint8))
