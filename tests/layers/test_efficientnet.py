"""EfficientNet-Lite0 has the shapes of its weights, pads as TensorFlow does, and keeps its features on a finer grid."""

import pytest
import torch

from regard.layers.efficientnet import EfficientNetLite0, SameConv


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    net = EfficientNetLite0().eval()
    tensors = {
        f"_{name.replace('.', '._')}" if "." in name else name: value for name, value in net.state_dict().items()
    }
    tensors = {name.replace("._weight", ".weight").replace("._bias", ".bias"): value for name, value in tensors.items()}
    tensors = {name.replace("._running", ".running").replace("._num", ".num"): value for name, value in tensors.items()}
    dilated = EfficientNetLite0(stride=16).eval()
    dilated.load_weights(tensors | {"_fc.weight": torch.zeros(1000, 1280)})
    return net, dilated


@torch.no_grad()
def test_shapes_and_size(nets):
    net, dilated = nets
    x = torch.randn(2, 3, 64, 96)
    assert net.forward_features(x).shape == (2, 1280, 2, 3)
    assert dilated.forward_features(x).shape == (2, 1280, 4, 6)
    assert sum(weight.numel() for weight in net.parameters()) == 3_371_008  # of 4,652,008 with the classifier


@torch.no_grad()
def test_every_second_dilated_feature_is_the_original_feature():
    """Dilation computes the same function at more positions; the padding differs, so only the middle is compared."""
    torch.manual_seed(0)
    x = torch.randn(1, 4, 32, 32)
    strided, finer = SameConv(4, 4, 3, stride=1), SameConv(4, 4, 3, dilation=2)
    finer.load_state_dict(strided.state_dict())
    torch.testing.assert_close(finer(x)[:, :, 4:-4:2, 4:-4:2], strided(x[:, :, ::2, ::2])[:, :, 2:-2, 2:-2])


@torch.no_grad()
@pytest.mark.parametrize("size", [7, 8])
def test_padding_is_larger_at_the_end(size):
    convolution = SameConv(1, 1, 3, stride=2)
    convolution.weight.fill_(1.0)
    counts = convolution(torch.ones(1, 1, size, size))[0, 0]
    assert counts.shape == (4, 4)
    assert counts[0, 0] == (4 if size == 7 else 9) and counts[-1, -1] == 4
