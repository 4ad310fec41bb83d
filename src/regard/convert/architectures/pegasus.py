"""Pegasus: like Marian, but pre-norm."""

from __future__ import annotations

from typing import Any

from regard.convert import usage_example
from regard.convert.architectures import marian
from regard.convert.weight_map import WeightMapping, check_supported
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.models.transformer import Config

MODEL, TEMPLATE = marian.MODEL, marian.TEMPLATE
ARCHITECTURES = ("PegasusForConditionalGeneration",)
USAGE = usage_example.translate
tables, difference, finish = marian.tables, marian.difference, marian.finish


def check(config: Config, sizes: Seq2SeqSpec) -> None:
    """Check for pre-norm, sinusoidal positions and tied embeddings."""
    check_supported(
        "Pegasus", config, {"norm": "pre", "position": "sinusoidal", "score": "scaled_dot", "tie_embeddings": True}
    )
    if config.dim % 2:
        raise ConfigError(f"model.dim={config.dim} does not fit Pegasus, which needs an even number")


def build_huggingface(config: Config, sizes: Seq2SeqSpec, library: Any) -> Any:
    """A PegasusForConditionalGeneration of the same shape."""
    return library.PegasusForConditionalGeneration(library.PegasusConfig(**marian.shape(config, sizes)))


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Pegasus -> settings of model and data."""
    model = {**marian.settings("Pegasus", huggingface_model.config), "norm": "pre", "tie_embeddings": True}
    return model, {
        "joint": marian.is_joint(huggingface_model.config),
        "max_length": huggingface_model.config.max_position_embeddings,
    }


def weight_mappings(config: Config, sizes: Seq2SeqSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of Marian and the final norms of both stacks."""
    order, mappings = marian.interleave_order(config.dim), marian.weight_mappings(config, sizes, huggingface_config)
    for side in ("encoder", "decoder"):
        mappings += marian.norm(f"{side}.last", f"model.{side}.layer_norm", order)
    return mappings


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.PegasusForConditionalGeneration
