"""MarianMT: a post-norm Transformer. Marian stores sines and cosines in two halves and regard interleaves them, so all
features are permuted; this does not change the result."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.convert.weight_map import Tensors, WeightMapping, check_supported, check_theirs_supported, permuted_weight
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.models.transformer import Config

MODEL, TEMPLATE = "transformer", "$A {end}"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}


def check(config: Config, sizes: Seq2SeqSpec) -> None:
    """Check for post-norm, sinusoidal positions and an even dimension."""
    check_supported("Marian", config, {"norm": "post", "position": "sinusoidal", "score": "scaled_dot"})
    if config.dim % 2:
        raise ConfigError(f"model.dim={config.dim} does not fit Marian, which needs an even number")


def build_theirs(config: Config, sizes: Seq2SeqSpec, library: Any) -> Any:
    """A MarianMTModel of the same shape."""
    is_shared = sizes.joint_vocab and config.tie_embeddings
    sizes_of_tables = {"decoder_vocab_size": sizes.target_vocab_size, "share_encoder_decoder_embeddings": is_shared}
    return library.MarianMTModel(library.MarianConfig(**sizes_of_tables, **shape(config, sizes)))


def shape(config: Config, sizes: Seq2SeqSpec) -> dict[str, Any]:
    """Return the shared settings of a transformers encoder-decoder."""
    return {
        "vocab_size": sizes.source_vocab_size,
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
    }


def settings_from_theirs(theirs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A MarianMTModel -> settings of model and data."""
    config = theirs.config
    model = {**settings("Marian", config), "norm": "post", "tie_embeddings": bool(config.tie_word_embeddings)}
    return model, {"joint": bool(config.share_encoder_decoder_embeddings), "max_length": config.max_position_embeddings}


def settings(name: str, config: Any) -> dict[str, Any]:
    """Return the shared settings of a regard transformer from a transformers configuration."""
    names = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {"silu": "silu"}
    same = {"decoder_ffn_dim": config.encoder_ffn_dim, "decoder_attention_heads": config.encoder_attention_heads}
    check_theirs_supported(name, config, {**same, "activation_function": tuple(names)})
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


def weight_mappings(config: Config, sizes: Seq2SeqSpec) -> list[WeightMapping]:
    """Return the pairs of weights."""
    order = interleave_order(config.dim)
    mappings = [permuted_weight("decoder.embedding.table.weight", "model.decoder.embed_tokens.weight", order, (1,))]
    mappings += [permuted_weight("encoder.embedding.table.weight", "model.encoder.embed_tokens.weight", order, (1,))]
    mappings += [permuted_weight("readout.weight", "lm_head.weight", order, (1,))]
    for side, count in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
        for layer in range(count):
            mappings += _block(f"{side}.layers.{layer}", f"model.{side}.layers.{layer}", order, cross=side == "decoder")
    if config.bias:
        mappings.append(
            WeightMapping(
                ("readout.bias",), "final_logits_bias", lambda tensors: tensors[0][None], lambda tensor: [tensor[0]]
            )
        )
    return mappings


def interleave_order(dim: int) -> Tensor:
    """Return the original index of each feature: sines first, then cosines."""
    half = dim // 2
    return torch.stack([torch.arange(half), half + torch.arange(half)], dim=1).flatten()


def _block(ours: str, theirs: str, order: Tensor, *, cross: bool) -> list[WeightMapping]:
    mappings: list[WeightMapping] = []
    attentions = [
        ("self_attn", "self_attn", "around_self"),
        *([("cross_attn", "encoder_attn", "around_cross")] * cross),
    ]
    for attention, their_attention, around in attentions:
        for name, their_name in ATTENTION.items():
            names = f"{ours}.{attention}.{name}", f"{theirs}.{their_attention}.{their_name}"
            mappings += _linear(*names, order, out=name == "o")
        mappings += norm(f"{ours}.{around}.norm", f"{theirs}.{their_attention}_layer_norm", order)
    mappings += _linear(f"{ours}.feedforward.up", f"{theirs}.fc1", order, out=False)
    mappings += _linear(f"{ours}.feedforward.down", f"{theirs}.fc2", order, out=True)
    return mappings + norm(f"{ours}.around_feedforward.norm", f"{theirs}.final_layer_norm", order)


def _linear(ours: str, theirs: str, order: Tensor, *, out: bool) -> list[WeightMapping]:
    """Map a layer whose input or output features are permuted."""
    weight = permuted_weight(f"{ours}.weight", f"{theirs}.weight", order, (0,) if out else (1,))
    return [weight, permuted_weight(f"{ours}.bias", f"{theirs}.bias", order, (0,) if out else ())]


def norm(ours: str, theirs: str, order: Tensor) -> list[WeightMapping]:
    return [permuted_weight(f"{ours}.{part}", f"{theirs}.{part}", order, (0,)) for part in ("weight", "bias")]


def tables(sizes: Seq2SeqSpec) -> dict[str, str]:
    """Return the weights with a row per token, and their vocabulary."""
    return {
        "encoder.embedding.table.weight": "source",
        "decoder.embedding.table.weight": "target",
        "readout.weight": "target",
        "readout.bias": "target",
    }


def difference(ours: Any, theirs: Any, sizes: Seq2SeqSpec, ids: Any) -> float:
    """Compare logits for two sources, one of them padded, and target prefixes."""
    source = torch.randint(sizes.special_tokens.first_regular_id, sizes.source_vocab_size, (2, 7))
    target = torch.randint(sizes.special_tokens.first_regular_id, sizes.target_vocab_size, (2, 6))
    target[:, 0] = sizes.special_tokens.bos
    lengths = torch.tensor([7, 4])
    visible = (torch.arange(7) < lengths[:, None]).long()
    expected = theirs(
        input_ids=ids("source", source), attention_mask=visible, decoder_input_ids=ids("target", target)
    ).logits
    logits, _ = ours(target, ours.start(Padded(source, lengths)))
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.target_vocab_size)
    return float((logits[..., real] - expected[..., ids("target", real)]).abs().max())


def their_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.MarianMTModel


def finish(tensors: Tensors, theirs: Any) -> Tensors:
    """Return the weights unchanged."""
    return tensors
