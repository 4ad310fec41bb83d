"""ALBERT: a post-norm masked language model whose layers share their weights, with a narrow embedding."""

from __future__ import annotations

from typing import Any

import torch

from regard.convert import usage_example
from regard.convert.architectures import bert
from regard.convert.weight_map import Tensors, WeightMapping, check_huggingface_supported, check_supported, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.models.bert import Config

MODEL, TEMPLATE = bert.MODEL, bert.TEMPLATE
ARCHITECTURES = ("AlbertForMaskedLM",)
USAGE = usage_example.fill_masks
tables, difference = bert.tables, bert.difference
LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "dense"}


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Check for post-norm, learned positions, shared layers, a narrow embedding and no sentence pairs."""
    check_supported(
        "ALBERT", config, {"norm": "post", "position": "learned", "score": "scaled_dot", "share_layers": True}
    )
    if config.width == config.dim:
        raise ConfigError(f"model.embedding={config.embedding} does not fit ALBERT, which widens a narrow embedding")
    if sizes.has_pairs:
        raise ConfigError("data.sentence_pairs does not fit the masked language model of ALBERT")


def build_huggingface(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """An AlbertForMaskedLM of the same shape."""
    shape = bert.shape(config, sizes) | {"embedding_size": config.width, "num_hidden_groups": 1, "inner_group_num": 1}
    return library.AlbertForMaskedLM(library.AlbertConfig(**shape))


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """An AlbertForMaskedLM -> settings of model and data."""
    config = huggingface_model.config
    check_huggingface_supported("ALBERT", config, {"num_hidden_groups": 1, "inner_group_num": 1})
    if config.embedding_size == config.hidden_size:
        raise ConfigError(f"ALBERT with embedding_size={config.embedding_size}: regard supports a narrower embedding")
    table, out = (
        huggingface_model.albert.embeddings.word_embeddings.weight,
        huggingface_model.predictions.decoder.weight,
    )
    if not torch.equal(table, out):
        raise ConfigError("ALBERT with separate input and output embeddings: the bert of regard ties them")
    model = {**bert.settings("ALBERT", config), "norm": "post", "share_layers": True}
    model["embedding"] = config.embedding_size
    return model, {"context": config.max_position_embeddings, "sentence_pairs": "none"}


def weight_mappings(config: Config, sizes: MaskedLMSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights; those of the first layer are those of all."""
    inner, name = "encoder.embedding", "albert.embeddings"
    mappings = [WeightMapping((f"{inner}.table.weight",), f"{name}.word_embeddings.weight")]
    mappings += [WeightMapping((f"{inner}.position.table.weight",), f"{name}.position_embeddings.weight")]
    if config.segments:
        mappings += [WeightMapping((f"{inner}.segments.weight",), f"{name}.token_type_embeddings.weight")]
    mappings += same_layer(f"{inner}.norm", f"{name}.LayerNorm")
    mappings += same_layer(f"{inner}.widen", "albert.encoder.embedding_hidden_mapping_in")
    for part, huggingface_part in ATTENTION.items():
        mappings += same_layer(f"encoder.layers.0.self_attn.{part}", f"{LAYER}.attention.{huggingface_part}")
    mappings += same_layer("encoder.layers.0.around_self.norm", f"{LAYER}.attention.LayerNorm")
    mappings += same_layer("encoder.layers.0.feedforward.up", f"{LAYER}.ffn")
    mappings += same_layer("encoder.layers.0.feedforward.down", f"{LAYER}.ffn_output")
    mappings += same_layer("encoder.layers.0.around_feedforward.norm", f"{LAYER}.full_layer_layer_norm")
    mappings += same_layer("head.dense", "predictions.dense") + same_layer("head.norm", "predictions.LayerNorm")
    mappings += [WeightMapping(("readout.weight",), "predictions.decoder.weight")]
    return mappings + [WeightMapping(("readout.bias",), f"predictions.{part}") for part in ("bias", "decoder.bias")]


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.AlbertForMaskedLM


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Add a single segment embedding to the position embeddings."""
    return bert.add_single_segment(tensors, huggingface_model, huggingface_model.albert)
