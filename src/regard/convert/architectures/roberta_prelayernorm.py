"""RoBERTa that normalises before each part of a block. Its places are counted from behind the number of padding; a row
of segments that is alone there is added to the places here."""

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
PLACES, BASE = "encoder.embedding.position.table.weight", "roberta_prelayernorm"


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """What it has: normalisation before each part, learned places, layers of their own, texts without pairs."""
    wanted = {"norm": "pre", "position": "learned", "share_layers": False, "width": config.dim}
    check_supported("RoBERTa-PreLayerNorm", config, wanted)
    if sizes.has_pairs:
        raise ConfigError("data.pairs does not fit the layout of RoBERTa-PreLayerNorm, which has no head for pairs")


def build_theirs(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """A RobertaPreLayerNormForMaskedLM of the same shape."""
    marks = sizes.special_tokens
    own = {"max_position_embeddings": sizes.max_length + marks.pad + 1, "bos_token_id": marks.bos}
    shape = bert.shape(config, sizes) | own | {"eos_token_id": marks.eos}
    return library.RobertaPreLayerNormForMaskedLM(library.RobertaPreLayerNormConfig(**shape))


def settings_from_theirs(theirs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model of this kind -> settings of model and data."""
    config = theirs.config
    places = config.max_position_embeddings - config.pad_token_id - 1
    return {**bert.settings("RoBERTa-PreLayerNorm", config), "norm": "pre"}, {
        "context": places,
        "sentence_pairs": "none",
    }


def weight_mappings(config: Config, sizes: MaskedLMSpec) -> list[WeightMapping]:
    """Which weights are which."""
    inner, theirs, skipped = "encoder.embedding", f"{BASE}.embeddings", sizes.special_tokens.pad + 1
    found = [WeightMapping((f"{inner}.table.weight",), f"{theirs}.word_embeddings.weight")]
    found += [WeightMapping((PLACES,), f"{theirs}.position_embeddings.weight", lambda own: _behind(own[0], skipped))]
    if config.segments:
        found += [WeightMapping((f"{inner}.segments.weight",), f"{theirs}.token_type_embeddings.weight")]
    found += same_layer(f"{inner}.norm", f"{theirs}.LayerNorm") + same_layer("encoder.last", f"{BASE}.LayerNorm")
    for number in range(config.layers):
        found += _block(f"encoder.layers.{number}", f"{BASE}.encoder.layer.{number}")
    found += same_layer("head.dense", "lm_head.dense") + same_layer("head.norm", "lm_head.layer_norm")
    found += [WeightMapping(("readout.weight",), "lm_head.decoder.weight")]
    return found + [WeightMapping(("readout.bias",), f"lm_head.{name}") for name in ("bias", "decoder.bias")]


def _behind(places: torch.Tensor, skipped: int) -> torch.Tensor:
    return torch.cat([places.new_zeros(skipped, places.shape[1]), places])


def _block(ours: str, theirs: str) -> list[WeightMapping]:
    found: list[WeightMapping] = []
    for name, other in bert.ATTENTION.items():
        found += same_layer(f"{ours}.self_attn.{name}", f"{theirs}.attention.{other}")
    found += same_layer(f"{ours}.around_self.norm", f"{theirs}.attention.LayerNorm")
    found += same_layer(f"{ours}.around_feedforward.norm", f"{theirs}.intermediate.LayerNorm")
    found += same_layer(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense")
    return found + same_layer(f"{ours}.feedforward.down", f"{theirs}.output.dense")


def their_class(library: Any) -> Any:
    """The class that reads such a folder."""
    return library.RobertaPreLayerNormForMaskedLM


def finish(tensors: Tensors, theirs: Any) -> Tensors:
    """The places begin behind the number of padding; the one segment there is becomes a part of them."""
    places = tensors[PLACES][theirs.config.pad_token_id + 1 :]
    if theirs.config.type_vocab_size == 1:
        places = places + theirs.roberta_prelayernorm.embeddings.token_type_embeddings.weight.detach()
    return tensors | {PLACES: places}
