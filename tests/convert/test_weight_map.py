"""Weight mappings: weights that are exported and imported again are equal."""

from types import SimpleNamespace

import pytest
import torch

from regard.convert import weight_map
from regard.core.errors import CheckpointError, ConfigError

WEIGHTS = {f"{name}.{part}": torch.randn(4, 4) if part == "weight" else torch.randn(4) for name in "qkv" for part in
           ("weight", "bias")}  # fmt: skip
ORDER = torch.tensor([0, 2, 1, 3])


@pytest.mark.parametrize(
    "mappings",
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
    ids=["same", "transposed", "scaled", "reshaped", "permuted"],
)
def test_exported_and_imported_weights_are_equal(mappings):
    imported = weight_map.from_huggingface(mappings, weight_map.to_huggingface(mappings, WEIGHTS))
    assert set(imported) == {name for mapping in mappings for name in mapping.regard_names}
    for name, tensor in imported.items():
        torch.testing.assert_close(tensor, WEIGHTS[name])


def test_features_are_reordered():
    exported = weight_map.to_huggingface([weight_map.permuted_weight("q.weight", "x", ORDER, (1,))], WEIGHTS)["x"]
    assert torch.equal(exported[:, ORDER], WEIGHTS["q.weight"]) and not torch.equal(exported, WEIGHTS["q.weight"])


def test_errors_name_missing_weights_and_unsupported_settings():
    with pytest.raises(CheckpointError, match=r"x\.weight: the model has no such weight; it has another architecture"):
        weight_map.from_huggingface(weight_map.same_layer("q", "x"), {})
    config = SimpleNamespace(norm="pre", act="tanh")
    with pytest.raises(ConfigError, match=r"model\.norm='pre' does not fit X, which has 'post'"):
        weight_map.check_supported("X", config, {"norm": "post"})
    with pytest.raises(ConfigError, match="X with act='tanh': regard supports 'relu' or 'gelu'"):
        weight_map.check_huggingface_supported("X", config, {"act": ("relu", "gelu")})
