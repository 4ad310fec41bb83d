"""GPT-2: a pre-norm language model with learned positions."""

from __future__ import annotations

import math
from typing import Any

import torch

from regard.convert import usage_example
from regard.convert.weight_map import (
    Tensors,
    WeightMapping,
    check_huggingface_supported,
    check_supported,
    same_layer,
    scaled,
    transposed_layer,
)
from regard.core.data_specs import LanguageSpec
from regard.core.errors import ConfigError
from regard.models.gpt import Config
from regard.tasks.language.generate import empty_source

MODEL, TEMPLATE = "gpt", "{start} $A"
ARCHITECTURES = ("GPT2LMHeadModel", "GPT2Model")
USAGE = usage_example.continue_texts
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}


def check(config: Config, sizes: LanguageSpec) -> None:
    """Check for learned positions, no output bias and no n-gram features."""
    check_supported("GPT-2", config, {"position": "learned", "score": "scaled_dot", "bias": False, "ngrams": 0})


def build_huggingface(config: Config, sizes: LanguageSpec, library: Any) -> Any:
    """Build a GPT2LMHeadModel. If embeddings are scaled in regard, it has untied tables."""
    special_tokens = sizes.special_tokens
    return library.GPT2LMHeadModel(
        library.GPT2Config(
            vocab_size=sizes.vocab_size,
            n_positions=sizes.max_length,
            n_embd=config.dim,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.ffn_dim or 4 * config.dim,
            activation_function=ACTIVATIONS[config.activation],
            resid_pdrop=config.dropout,
            embd_pdrop=config.dropout,
            attn_pdrop=config.attention_dropout,
            layer_norm_epsilon=config.eps,
            tie_word_embeddings=not config.scale_embeddings,
            pad_token_id=special_tokens.pad,
            bos_token_id=special_tokens.bos,
            eos_token_id=special_tokens.eos,
        )
    )


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A GPT2LMHeadModel -> settings of model and data."""
    config, dim = huggingface_model.config, huggingface_model.config.n_embd
    names = {huggingface_name: name for name, huggingface_name in ACTIVATIONS.items()}
    plain = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
    check_huggingface_supported("GPT-2", config, {"activation_function": tuple(names), **plain})
    table, out = huggingface_model.transformer.wte.weight, huggingface_model.lm_head.weight
    scale = bool(torch.allclose(table, out * math.sqrt(dim), atol=1e-6)) and not torch.equal(table, out)
    if not scale and not torch.equal(table, out):
        raise ConfigError("GPT-2 with separate input and output embeddings: the gpt of regard ties them")
    model = {
        "layers": config.n_layer,
        "dim": dim,
        "heads": config.n_head,
        "ffn_dim": config.n_inner or 0,
        "dropout": config.resid_pdrop,
        "activation": names[config.activation_function],
        "scale_embeddings": scale,
        "eps": config.layer_norm_epsilon,
        "bias": True,
    }
    return model, {"context": config.n_positions, "start_token": False}  # the tokenizer decides


def weight_mappings(config: Config, sizes: LanguageSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights."""
    factor = math.sqrt(config.dim) if config.scale_embeddings else 1.0
    mappings = [scaled("encoder.embedding.table.weight", "transformer.wte.weight", factor)]
    mappings += [WeightMapping(("readout.weight",), "lm_head.weight")]
    mappings += [WeightMapping(("encoder.embedding.position.table.weight",), "transformer.wpe.weight")]
    for layer in range(config.layers):
        regard_name, huggingface_name = f"encoder.layers.{layer}", f"transformer.h.{layer}"
        mappings += transposed_layer(
            [f"{regard_name}.self_attn.{name}" for name in "qkv"], f"{huggingface_name}.attn.c_attn"
        )
        mappings += transposed_layer([f"{regard_name}.self_attn.o"], f"{huggingface_name}.attn.c_proj")
        mappings += transposed_layer([f"{regard_name}.feedforward.up"], f"{huggingface_name}.mlp.c_fc")
        mappings += transposed_layer([f"{regard_name}.feedforward.down"], f"{huggingface_name}.mlp.c_proj")
        mappings += same_layer(f"{regard_name}.around_self.norm", f"{huggingface_name}.ln_1")
        mappings += same_layer(f"{regard_name}.around_feedforward.norm", f"{huggingface_name}.ln_2")
    return mappings + same_layer("encoder.last", "transformer.ln_f")


def tables(sizes: LanguageSpec) -> dict[str, str]:
    """Return the weights with a row per token, and their vocabulary."""
    return dict.fromkeys(("encoder.embedding.table.weight", "readout.weight", "readout.bias"), "text")


def difference(regard_model: Any, huggingface_model: Any, sizes: LanguageSpec, ids: Any) -> float:
    """Compare logits for two texts."""
    text = torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (2, min(9, sizes.max_length)))
    logits, _ = regard_model(text, regard_model.start(empty_source(2, text.device)))
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    return float(
        (logits[..., real] - huggingface_model(input_ids=ids("text", text)).logits[..., ids("text", real)]).abs().max()
    )


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.GPT2LMHeadModel


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Add a zero output bias."""
    size = len(tensors["readout.weight"])
    return tensors | {"readout.bias": torch.zeros(size)}
