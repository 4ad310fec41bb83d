"""RoBERTa: a post-norm masked language model like BERT. Its position ids start after the padding id."""

from __future__ import annotations

from typing import Any

from regard.convert import usage_example
from regard.convert.architectures import bert, roberta_prelayernorm
from regard.convert.weight_map import Tensors, WeightMapping
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.models.bert import Config

MODEL, TEMPLATE = bert.MODEL, bert.TEMPLATE
ARCHITECTURES = ("RobertaForMaskedLM",)
USAGE = usage_example.fill_masks
BASE = "roberta"
tables, difference = bert.tables, bert.difference


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Check for what BERT checks, and for no sentence pairs."""
    bert.check(config, sizes)
    if sizes.has_pairs:
        raise ConfigError("data.sentence_pairs does not fit RoBERTa, which has no sentence-pair head")


def build_huggingface(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """A RobertaForMaskedLM of the same shape."""
    return library.RobertaForMaskedLM(library.RobertaConfig(**roberta_prelayernorm.shape(config, sizes)))


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A RobertaForMaskedLM -> settings of model and data."""
    return roberta_prelayernorm.settings("RoBERTa", huggingface_model, norm="post")


def weight_mappings(config: Config, sizes: MaskedLMSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights: the embedding and head of RoBERTa, the blocks of BERT."""
    mappings = roberta_prelayernorm.shared_mappings(config, sizes, BASE)
    for layer in range(config.layers):
        mappings += bert.block_mappings(f"encoder.layers.{layer}", f"{BASE}.encoder.layer.{layer}")
    return mappings


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.RobertaForMaskedLM


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Drop the positions up to the padding id and add a single segment embedding."""
    return roberta_prelayernorm.finish_positions(tensors, huggingface_model, huggingface_model.roberta)
