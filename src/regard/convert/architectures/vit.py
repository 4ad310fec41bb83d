"""ViT: image patches after a class token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.convert import usage_example
from regard.convert.weight_map import (
    Tensors,
    WeightMapping,
    check_huggingface_supported,
    check_supported,
    reshaped,
    same_layer,
)
from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import ConfigError
from regard.models.vit import Config

MODEL, TEMPLATE = "vit", ""
COLOUR, LUMINANCE = 3, (0.299, 0.587, 0.114)  # channels, and their weights in a grey image as in Pillow
FIRST_LAYER = "tokens.project"  # its inputs are the pixels of a patch
ARCHITECTURES = ("ViTForImageClassification",)
USAGE = usage_example.classify_images


def check(config: Config, sizes: ImageClassificationSpec) -> None:
    """Check for complete patches, a class token and learned positions."""
    expected = {"tokens": "patches", "pool": "class", "position": "learned", "axes": 1, "score": "scaled_dot"}
    check_supported("ViT", config, expected)
    if sizes.height % config.patch or sizes.width % config.patch:
        size = f"{sizes.height}x{sizes.width}"
        raise ConfigError(f"images of {size} pixels cannot be divided into patches of {config.patch}, which ViT needs")


def build_huggingface(config: Config, sizes: ImageClassificationSpec, library: Any) -> Any:
    """A ViTForImageClassification of the same shape."""
    return library.ViTForImageClassification(
        library.ViTConfig(
            hidden_size=config.dim,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.ffn_dim or 2 * config.dim,
            hidden_act="gelu",
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=0.0,
            layer_norm_eps=config.eps,
            image_size=(sizes.height, sizes.width),
            patch_size=config.patch,
            num_channels=COLOUR,  # pipelines of transformers convert every image to colour
            num_labels=sizes.num_classes,
        )
    )


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A ViTForImageClassification -> settings of model and data."""
    config = huggingface_model.config
    check_huggingface_supported("ViT", config, {"hidden_act": "gelu", "qkv_bias": True})
    model = {
        "layers": config.num_hidden_layers,
        "dim": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn_dim": config.intermediate_size,
        "dropout": config.hidden_dropout_prob,
        "patch": config.patch_size,
        "eps": config.layer_norm_eps,
    }
    height, width = to_height_width(config.image_size)
    return model, {"height": height, "width": width, "channels": config.num_channels}


def to_height_width(size: Any) -> tuple[int, int]:
    """224 or (224, 224) -> rows and columns."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def weight_mappings(config: Config, sizes: ImageClassificationSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights."""
    side, dim = config.patch, config.dim
    flat, square = (dim, sizes.channels * side**2), (dim, sizes.channels, side, side)
    project, count = "vit.embeddings.patch_embeddings.projection", sizes.height * sizes.width // side**2 + 1
    mappings = [
        reshaped("first", "vit.embeddings.cls_token", (1, 1, dim), (1, dim)),
        reshaped("places.table.weight", "vit.embeddings.position_embeddings", (1, count, dim), (count, dim)),
        WeightMapping(
            ("tokens.project.weight",),
            f"{project}.weight",
            lambda tensors: _to_colour(tensors[0].reshape(square)),
            lambda tensor: [tensor.reshape(flat)],
        ),
        WeightMapping(("tokens.project.bias",), f"{project}.bias"),
    ]
    for layer in range(config.layers):
        regard_name, huggingface_name = f"layers.{layer}", f"vit.layers.{layer}"
        for name in "qkvo":
            mappings += same_layer(f"{regard_name}.self_attn.{name}", f"{huggingface_name}.attention.{name}_proj")
        mappings += same_layer(f"{regard_name}.around_self.norm", f"{huggingface_name}.layernorm_before")
        mappings += same_layer(f"{regard_name}.around_feedforward.norm", f"{huggingface_name}.layernorm_after")
        mappings += same_layer(f"{regard_name}.feedforward.up", f"{huggingface_name}.mlp.fc1")
        mappings += same_layer(f"{regard_name}.feedforward.down", f"{huggingface_name}.mlp.fc2")
    return mappings + same_layer("last", "vit.layernorm") + same_layer("readout", "classifier")


def _to_colour(weight: Tensor) -> Tensor:
    """(d c h w) -> (d 3 h w): a filter of grey images becomes one of their luminance."""
    return weight * torch.tensor(LUMINANCE)[:, None, None] if weight.shape[1] == 1 else weight


def tables(sizes: ImageClassificationSpec) -> dict[str, str]:
    """Return an empty dictionary: there is no vocabulary."""
    return {}


def difference(regard_model: Any, huggingface_model: Any, sizes: ImageClassificationSpec, ids: Any) -> float:
    """Compare logits for two images."""
    images = torch.rand(2, sizes.channels, sizes.height, sizes.width) * 2 - 1
    colours = images.expand(-1, huggingface_model.config.num_channels, -1, -1)
    logits = huggingface_model(pixel_values=ids("pixels", colours)).logits
    return float((regard_model(images) - logits).abs().max())


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.ViTForImageClassification


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Return the weights unchanged."""
    return tensors
