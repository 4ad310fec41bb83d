"""Weights out and back are the same weights, whatever stands between them."""

from types import SimpleNamespace

import pytest
import torch

from regard.convert import weight_map
from regard.core.errors import CheckpointError, ConfigError

OWN = {f"{name}.{part}": torch.randn(4, 4) if part == "weight" else torch.randn(4) for name in "qkv" for part in
       ("weight", "bias")}  # fmt: skip
ORDER = torch.tensor([0, 2, 1, 3])


@pytest.mark.parametrize(
    "some",
    [
        weight_map.same_layer("q", "x"),
        weight_map.transposed_layer(["q", "k", "v"], "x"),
        [weight_map.scaled("q.weight", "x", 3.0)],
        [weight_map.reshaped("q.weight", "x", (2, 8), (4, 4))],
        [
            weight_map.permuted_weight("q.weight", "x", ORDER, (0, 1)),
            weight_map.permuted_weight("k.bias", "y", ORDER, ()),
        ],
    ],
    ids=["both", "flipped", "scaled", "reshaped", "ordered"],
)
def test_out_and_back(some):
    back = weight_map.from_theirs(some, weight_map.to_theirs(some, OWN))
    assert set(back) == {name for pair in some for name in pair.ours}
    for name, tensor in back.items():
        torch.testing.assert_close(tensor, OWN[name])


def test_features_are_reordered():
    there = weight_map.to_theirs([weight_map.permuted_weight("q.weight", "x", ORDER, (1,))], OWN)["x"]
    assert torch.equal(there[:, ORDER], OWN["q.weight"]) and not torch.equal(there, OWN["q.weight"])


def test_what_is_missing_or_does_not_fit_is_named():
    with pytest.raises(CheckpointError, match=r"x\.weight: the model has no such weight; it has another architecture"):
        weight_map.from_theirs(weight_map.same_layer("q", "x"), {})
    config = SimpleNamespace(norm="pre", act="tanh")
    with pytest.raises(ConfigError, match=r"model\.norm='pre' does not fit X, which has 'post'"):
        weight_map.check_supported("X", config, {"norm": "post"})
    with pytest.raises(ConfigError, match="X with act='tanh': regard knows 'relu' or 'gelu' only"):
        weight_map.check_theirs_supported("X", config, {"act": ("relu", "gelu")})
