"""RoBERTa-PreLayerNorm: a pre-norm masked language model. Its position ids start after the padding id; a single segment
embedding is added to the position embeddings."""

from __future__ import annotations

from typing import Any

import torch

from regard.convert.architectures import bert
from regard.convert.weight_map import Tensors, WeightMapping, check_supported, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.models.bert import Config

MODEL, TEMPLATE = bert.MODEL, bert.TEMPLATE
tables, difference = bert.tables, bert.difference
POSITIONS, BASE = "encoder.embedding.position.table.weight", "roberta_prelayernorm"


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Check for pre-norm, learned positions, unshared layers and no sentence pairs."""
    expected = {"norm": "pre", "position": "learned", "share_layers": False, "width": config.dim}
    check_supported("RoBERTa-PreLayerNorm", config, expected)
    if sizes.has_pairs:
        raise ConfigError("data.sentence_pairs does not fit RoBERTa-PreLayerNorm, which has no sentence-pair head")


def build_theirs(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """A RobertaPreLayerNormForMaskedLM of the same shape."""
    special_tokens = sizes.special_tokens
    positions = {
        "max_position_embeddings": sizes.max_length + special_tokens.pad + 1,
        "bos_token_id": special_tokens.bos,
    }
    shape = bert.shape(config, sizes) | positions | {"eos_token_id": special_tokens.eos}
    return library.RobertaPreLayerNormForMaskedLM(library.RobertaPreLayerNormConfig(**shape))


def settings_from_theirs(theirs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A RobertaPreLayerNormForMaskedLM -> settings of model and data."""
    config = theirs.config
    context = config.max_position_embeddings - config.pad_token_id - 1
    return {**bert.settings("RoBERTa-PreLayerNorm", config), "norm": "pre"}, {
        "context": context,
        "sentence_pairs": "none",
    }


def weight_mappings(config: Config, sizes: MaskedLMSpec) -> list[WeightMapping]:
    """Return the pairs of weights."""
    inner, theirs, skipped = "encoder.embedding", f"{BASE}.embeddings", sizes.special_tokens.pad + 1
    mappings = [WeightMapping((f"{inner}.table.weight",), f"{theirs}.word_embeddings.weight")]
    mappings += [
        WeightMapping(
            (POSITIONS,), f"{theirs}.position_embeddings.weight", lambda tensors: _prepend_zeros(tensors[0], skipped)
        )
    ]
    if config.segments:
        mappings += [WeightMapping((f"{inner}.segments.weight",), f"{theirs}.token_type_embeddings.weight")]
    mappings += same_layer(f"{inner}.norm", f"{theirs}.LayerNorm") + same_layer("encoder.last", f"{BASE}.LayerNorm")
    for layer in range(config.layers):
        mappings += _block(f"encoder.layers.{layer}", f"{BASE}.encoder.layer.{layer}")
    mappings += same_layer("head.dense", "lm_head.dense") + same_layer("head.norm", "lm_head.layer_norm")
    mappings += [WeightMapping(("readout.weight",), "lm_head.decoder.weight")]
    return mappings + [WeightMapping(("readout.bias",), f"lm_head.{name}") for name in ("bias", "decoder.bias")]


def _prepend_zeros(table: torch.Tensor, count: int) -> torch.Tensor:
    return torch.cat([table.new_zeros(count, table.shape[1]), table])


def _block(ours: str, theirs: str) -> list[WeightMapping]:
    mappings: list[WeightMapping] = []
    for name, their_name in bert.ATTENTION.items():
        mappings += same_layer(f"{ours}.self_attn.{name}", f"{theirs}.attention.{their_name}")
    mappings += same_layer(f"{ours}.around_self.norm", f"{theirs}.attention.LayerNorm")
    mappings += same_layer(f"{ours}.around_feedforward.norm", f"{theirs}.intermediate.LayerNorm")
    mappings += same_layer(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense")
    return mappings + same_layer(f"{ours}.feedforward.down", f"{theirs}.output.dense")


def their_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.RobertaPreLayerNormForMaskedLM


def finish(tensors: Tensors, theirs: Any) -> Tensors:
    """Drop the positions up to the padding id and add a single segment embedding."""
    positions = tensors[POSITIONS][theirs.config.pad_token_id + 1 :]
    if theirs.config.type_vocab_size == 1:
        positions = positions + theirs.roberta_prelayernorm.embeddings.token_type_embeddings.weight.detach()
    return tensors | {POSITIONS: positions}
