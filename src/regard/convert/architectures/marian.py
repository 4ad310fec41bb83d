"""MarianMT: a post-norm Transformer. Marian stores sines and cosines in two halves and regard interleaves them, so all
features are permuted; this does not change the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.convert import usage_example
from regard.convert.vocabulary import MASKED_LOGIT
from regard.convert.weight_map import (
    Tensors,
    WeightMapping,
    check_huggingface_supported,
    check_supported,
    permuted_weight,
)
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.models.transformer import Config

MODEL, TEMPLATE = "transformer", "$A {end}"
ARCHITECTURES = ("MarianMTModel",)
USAGE = usage_example.translate
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}
MERGED = "source_vocab_size"  # name in config.json: the number of rows of the source, after those of the target
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}


def check(config: Config, sizes: Seq2SeqSpec) -> None:
    """Check for post-norm, sinusoidal positions and an even dimension."""
    check_supported("Marian", config, {"norm": "post", "position": "sinusoidal", "score": "scaled_dot"})
    if config.dim % 2:
        raise ConfigError(f"model.dim={config.dim} does not fit Marian, which needs an even number")


def is_merged(config: Config, sizes: Seq2SeqSpec) -> bool:
    """Return True if source and target have separate tables: their rows are put into one table, the target first."""
    return not (sizes.joint_vocab and config.tie_embeddings)


def build_huggingface(config: Config, sizes: Seq2SeqSpec, library: Any) -> Any:
    """A MarianMTModel of the same shape."""
    return library.MarianMTModel(library.MarianConfig(**shape(config, sizes)))


def shape(config: Config, sizes: Seq2SeqSpec) -> dict[str, Any]:
    """Return the shared settings of a transformers encoder-decoder."""
    return {
        "vocab_size": sizes.target_vocab_size + (sizes.source_vocab_size if is_merged(config, sizes) else 0),
        "tie_word_embeddings": config.tie_embeddings,
        "max_position_embeddings": sizes.max_length,
        "d_model": config.dim,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.ffn_dim,
        "decoder_ffn_dim": config.ffn_dim,
        "activation_function": ACTIVATIONS[config.activation],
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "scale_embedding": config.scale_embeddings,
        "pad_token_id": sizes.special_tokens.pad,
        "bos_token_id": sizes.special_tokens.bos,
        "eos_token_id": sizes.special_tokens.eos,
        "decoder_start_token_id": sizes.special_tokens.bos,
        "forced_eos_token_id": None,
        **({MERGED: sizes.source_vocab_size} if is_merged(config, sizes) else {}),
    }


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A MarianMTModel -> settings of model and data."""
    config = huggingface_model.config
    model = {**settings("Marian", config), "norm": "post", "tie_embeddings": bool(config.tie_word_embeddings)}
    return model, {"joint": is_joint(config), "max_length": config.max_position_embeddings}


def is_joint(config: Any) -> bool:
    """Return True if a transformers configuration has one vocabulary for both sides."""
    return getattr(config, "share_encoder_decoder_embeddings", True) and not getattr(config, MERGED, 0)


def settings(name: str, config: Any) -> dict[str, Any]:
    """Return the shared settings of a regard transformer from a transformers configuration."""
    names = {huggingface_name: name for name, huggingface_name in ACTIVATIONS.items()} | {"silu": "silu"}
    same = {"decoder_ffn_dim": config.encoder_ffn_dim, "decoder_attention_heads": config.encoder_attention_heads}
    check_huggingface_supported(name, config, {**same, "activation_function": tuple(names)})
    return {
        "layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "dim": config.d_model,
        "ffn_dim": config.encoder_ffn_dim,
        "heads": config.encoder_attention_heads,
        "dropout": config.dropout,
        "activation": names[config.activation_function],
        "scale_embeddings": bool(config.scale_embedding),
        "bias": True,
    }


def weight_mappings(config: Config, sizes: Seq2SeqSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights. Separate tables of both sides become one, the rows of the target first."""
    order = interleave_order(config.dim)
    if getattr(huggingface_config, MERGED, 0):
        return [*_merged_tables(config, sizes, order), *_blocks(config, order)]
    mappings = [permuted_weight("decoder.embedding.table.weight", "model.decoder.embed_tokens.weight", order, (1,))]
    mappings += [permuted_weight("encoder.embedding.table.weight", "model.encoder.embed_tokens.weight", order, (1,))]
    mappings += [permuted_weight("readout.weight", "lm_head.weight", order, (1,))]
    bias = WeightMapping(
        ("readout.bias",), "final_logits_bias", lambda tensors: tensors[0][None], lambda tensor: [tensor[0]]
    )
    return [*mappings, *([bias] if config.bias else []), *_blocks(config, order)]


def _merged_tables(config: Config, sizes: Seq2SeqSpec, order: Tensor) -> list[WeightMapping]:
    """Map the tables of two vocabularies to one. Logits of source tokens are suppressed."""
    inverse, num_target, num_source = order.argsort(), sizes.target_vocab_size, sizes.source_vocab_size

    def join(tables: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(tables))[:, inverse]

    def split(table: Tensor) -> Sequence[Tensor]:
        rows = table[:, order]
        return [rows[:num_target], rows[num_target:]]

    def suppress(biases: Sequence[Tensor]) -> Tensor:
        return _with_rows(biases[0] if biases else torch.zeros(num_target), num_source, MASKED_LOGIT)[None]

    source = "encoder.embedding.table.weight"
    mappings = [
        WeightMapping(("decoder.embedding.table.weight", source), f"model.{side}.embed_tokens.weight", join, split)
        for side in ("decoder", "encoder")
    ]
    if config.tie_embeddings:
        mappings += [WeightMapping(("readout.weight", source), "lm_head.weight", join, split)]
    else:
        mappings += [
            WeightMapping(
                ("readout.weight",),
                "lm_head.weight",
                lambda tables: _with_rows(tables[0], num_source, 0.0)[:, inverse],
                lambda table: [table[:num_target, order]],
            )
        ]
    bias = ("readout.bias",) if config.bias else ()
    return [
        *mappings,
        WeightMapping(bias, "final_logits_bias", suppress, lambda tensor: [tensor[0, :num_target]][: len(bias)]),
    ]


def _with_rows(table: Tensor, count: int, value: float) -> Tensor:
    """(n …) -> (n+count …): rows with a constant value appended."""
    return torch.cat([table, table.new_full((count, *table.shape[1:]), value)])


def _blocks(config: Config, order: Tensor) -> list[WeightMapping]:
    mappings = []
    for side, count in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
        for layer in range(count):
            mappings += _block(f"{side}.layers.{layer}", f"model.{side}.layers.{layer}", order, cross=side == "decoder")
    return mappings


def interleave_order(dim: int) -> Tensor:
    """Return the original index of each feature: sines first, then cosines."""
    half = dim // 2
    return torch.stack([torch.arange(half), half + torch.arange(half)], dim=1).flatten()


def _block(regard_name: str, huggingface_name: str, order: Tensor, *, cross: bool) -> list[WeightMapping]:
    mappings: list[WeightMapping] = []
    attentions = [
        ("self_attn", "self_attn", "around_self"),
        *([("cross_attn", "encoder_attn", "around_cross")] * cross),
    ]
    for attention, huggingface_attention, around in attentions:
        for name, huggingface_part in ATTENTION.items():
            names = (
                f"{regard_name}.{attention}.{name}",
                f"{huggingface_name}.{huggingface_attention}.{huggingface_part}",
            )
            mappings += _linear(*names, order, out=name == "o")
        mappings += norm(
            f"{regard_name}.{around}.norm", f"{huggingface_name}.{huggingface_attention}_layer_norm", order
        )
    mappings += _linear(f"{regard_name}.feedforward.up", f"{huggingface_name}.fc1", order, out=False)
    mappings += _linear(f"{regard_name}.feedforward.down", f"{huggingface_name}.fc2", order, out=True)
    return mappings + norm(f"{regard_name}.around_feedforward.norm", f"{huggingface_name}.final_layer_norm", order)


def _linear(regard_name: str, huggingface_name: str, order: Tensor, *, out: bool) -> list[WeightMapping]:
    """Map a layer whose input or output features are permuted."""
    weight = permuted_weight(f"{regard_name}.weight", f"{huggingface_name}.weight", order, (0,) if out else (1,))
    return [weight, permuted_weight(f"{regard_name}.bias", f"{huggingface_name}.bias", order, (0,) if out else ())]


def norm(regard_name: str, huggingface_name: str, order: Tensor) -> list[WeightMapping]:
    return [
        permuted_weight(f"{regard_name}.{part}", f"{huggingface_name}.{part}", order, (0,))
        for part in ("weight", "bias")
    ]


def tables(sizes: Seq2SeqSpec) -> dict[str, str]:
    """Return the weights with a row per token, and their vocabulary."""
    return {
        "encoder.embedding.table.weight": "source",
        "decoder.embedding.table.weight": "target",
        "readout.weight": "target",
        "readout.bias": "target",
    }


def difference(regard_model: Any, huggingface_model: Any, sizes: Seq2SeqSpec, ids: Any) -> float:
    """Compare logits for two sources, one of them padded, and target prefixes."""
    source = torch.randint(sizes.special_tokens.first_regular_id, sizes.source_vocab_size, (2, 7))
    target = torch.randint(sizes.special_tokens.first_regular_id, sizes.target_vocab_size, (2, 6))
    target[:, 0] = sizes.special_tokens.bos
    lengths = torch.tensor([7, 4])
    visible = (torch.arange(7) < lengths[:, None]).long()
    expected = huggingface_model(
        input_ids=ids("source", source), attention_mask=visible, decoder_input_ids=ids("target", target)
    ).logits
    logits, _ = regard_model(target, regard_model.start(Padded(source, lengths)))
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.target_vocab_size)
    return float((logits[..., real] - expected[..., ids("target", real)]).abs().max())


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.MarianMTModel


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Return the weights unchanged."""
    return tensors
