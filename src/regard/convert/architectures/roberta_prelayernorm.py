"""RoBERTa-PreLayerNorm: a pre-norm masked language model. Its position ids start after the padding id; a single segment
embedding is added to the position embeddings."""

from __future__ import annotations

from typing import Any

import torch

from regard.convert import usage_example
from regard.convert.architectures import bert
from regard.convert.weight_map import Tensors, WeightMapping, check_supported, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.models.bert import Config

MODEL, TEMPLATE = bert.MODEL, bert.TEMPLATE
ARCHITECTURES = ("RobertaPreLayerNormForMaskedLM",)
USAGE = usage_example.fill_masks
tables, difference = bert.tables, bert.difference
POSITIONS, BASE = "encoder.embedding.position.table.weight", "roberta_prelayernorm"


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Check for pre-norm, learned positions, unshared layers and no sentence pairs."""
    expected = {"norm": "pre", "position": "learned", "score": "scaled_dot", "share_layers": False, "width": config.dim}
    check_supported("RoBERTa-PreLayerNorm", config, expected)
    if sizes.has_pairs:
        raise ConfigError("data.sentence_pairs does not fit RoBERTa-PreLayerNorm, which has no sentence-pair head")


def build_huggingface(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """A RobertaPreLayerNormForMaskedLM of the same shape."""
    return library.RobertaPreLayerNormForMaskedLM(library.RobertaPreLayerNormConfig(**shape(config, sizes)))


def shape(config: Config, sizes: MaskedLMSpec) -> dict[str, Any]:
    """Return the shared settings of a transformers RoBERTa."""
    special_tokens = sizes.special_tokens
    return bert.shape(config, sizes) | {
        "max_position_embeddings": sizes.max_length + special_tokens.pad + 1,
        "bos_token_id": special_tokens.bos,
        "eos_token_id": special_tokens.eos,
    }


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A RobertaPreLayerNormForMaskedLM -> settings of model and data."""
    return settings("RoBERTa-PreLayerNorm", huggingface_model, norm="pre")


def settings(name: str, huggingface_model: Any, *, norm: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of model and data of a RoBERTa."""
    config = huggingface_model.config
    context = config.max_position_embeddings - config.pad_token_id - 1
    return {**bert.settings(name, config), "norm": norm}, {"context": context, "sentence_pairs": "none"}


def weight_mappings(config: Config, sizes: MaskedLMSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights."""
    mappings = shared_mappings(config, sizes, BASE) + same_layer("encoder.last", f"{BASE}.LayerNorm")
    for layer in range(config.layers):
        mappings += _block(f"encoder.layers.{layer}", f"{BASE}.encoder.layer.{layer}")
    return mappings


def shared_mappings(config: Config, sizes: MaskedLMSpec, base: str) -> list[WeightMapping]:
    """Return the pairs of weights of embedding and head; `base` is the name of the model without its head."""
    inner, name, skipped = "encoder.embedding", f"{base}.embeddings", sizes.special_tokens.pad + 1
    mappings = [
        WeightMapping((f"{inner}.table.weight",), f"{name}.word_embeddings.weight"),
        WeightMapping(
            (POSITIONS,), f"{name}.position_embeddings.weight", lambda tensors: _prepend_zeros(tensors[0], skipped)
        ),
    ]
    if config.segments:
        mappings += [WeightMapping((f"{inner}.segments.weight",), f"{name}.token_type_embeddings.weight")]
    mappings += same_layer(f"{inner}.norm", f"{name}.LayerNorm")
    mappings += same_layer("head.dense", "lm_head.dense") + same_layer("head.norm", "lm_head.layer_norm")
    mappings += [WeightMapping(("readout.weight",), "lm_head.decoder.weight")]
    return mappings + [WeightMapping(("readout.bias",), f"lm_head.{part}") for part in ("bias", "decoder.bias")]


def _prepend_zeros(table: torch.Tensor, count: int) -> torch.Tensor:
    return torch.cat([table.new_zeros(count, table.shape[1]), table])


def _block(regard_name: str, huggingface_name: str) -> list[WeightMapping]:
    mappings: list[WeightMapping] = []
    for name, huggingface_part in bert.ATTENTION.items():
        mappings += same_layer(f"{regard_name}.self_attn.{name}", f"{huggingface_name}.attention.{huggingface_part}")
    mappings += same_layer(f"{regard_name}.around_self.norm", f"{huggingface_name}.attention.LayerNorm")
    mappings += same_layer(f"{regard_name}.around_feedforward.norm", f"{huggingface_name}.intermediate.LayerNorm")
    mappings += same_layer(f"{regard_name}.feedforward.up", f"{huggingface_name}.intermediate.dense")
    return mappings + same_layer(f"{regard_name}.feedforward.down", f"{huggingface_name}.output.dense")


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.RobertaPreLayerNormForMaskedLM


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Drop the positions up to the padding id and add a single segment embedding."""
    return finish_positions(tensors, huggingface_model, huggingface_model.roberta_prelayernorm)


def finish_positions(tensors: Tensors, huggingface_model: Any, base: Any) -> Tensors:
    """Drop the positions up to the padding id and add a single segment embedding; `base` is the model without head."""
    positions = tensors[POSITIONS][huggingface_model.config.pad_token_id + 1 :]
    return bert.add_single_segment(tensors | {POSITIONS: positions}, huggingface_model, base)
