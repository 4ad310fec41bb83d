"""Export of a plain Transformer, a GPT or the encoder of a BERT to CTranslate2: the same weights, tokens by their ids.

CTranslate2 is an inference engine without PyTorch. It supports scaled dot products with positions added to the
features, and rotary positions in a language model. All other models are decoded by the native engine, the default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from regard.attention.scores import scaled_dot
from regard.attention.weigh import NoPositionBias, Weigh
from regard.core.data_specs import LanguageSpec, Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.engines.ctranslate2 import cache
from regard.layers.block import Block
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.multihead import MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions.rotary import Rotary
from regard.models.bert import BertEmbedding
from regard.models.bert import Encoder as BertEncoder
from regard.models.gpt import GPT
from regard.models.gpt import Encoder as GPTEncoder
from regard.models.transformer import DecoderStack, Encoder, Transformer


def export(model: nn.Module, sizes: Any, folder: Path, *, key: str = "") -> None:
    """Write a Transformer, a GPT or the encoder of a BERT as a CTranslate2 model to `folder`, atomically.

    The seal of the export contains `key`, its key in the cache. A head on an encoder is not exported.
    """
    if not is_supported(model):
        raise ConfigError(
            f"CTranslate2: does not support {type(model).__name__}; only Transformer, GPT and BERT can be exported"
        )
    specs, special_tokens = require("ctranslate2.specs", extra="ctranslate2"), sizes.special_tokens
    if isinstance(model, Transformer | GPT):
        spec = _transformer(model, sizes, specs) if isinstance(model, Transformer) else _gpt(model, sizes, specs)
        spec.config.eos_token, spec.config.bos_token = str(special_tokens.eos), str(special_tokens.bos)
    else:
        spec = _bert_encoder(cast("Any", model).encoder, sizes, specs)
    spec.config.unk_token = str(special_tokens.unk)
    spec.config.layer_norm_epsilon = next(module.eps for module in model.modules() if isinstance(module, nn.LayerNorm))
    spec.validate()
    spec.optimize()
    cache.create_export(folder, key, lambda draft: spec.save(str(draft)))


def is_supported(model: nn.Module) -> bool:
    """Return True if CTranslate2 has such a model, possibly with other scores or position encodings."""
    return isinstance(model, Transformer | GPT) or isinstance(getattr(model, "encoder", None), BertEncoder)


def _transformer(model: Transformer, sizes: Seq2SeqSpec, specs: Any) -> Any:
    spec = specs.TransformerSpec.from_config(
        (len(model.encoder.layers), len(model.decoder.layers)),
        _heads(model, NoPositionBias),
        pre_norm=isinstance(model.decoder.layers[0].around_self, PreNorm),
        activation=_activation(model, specs),
    )
    _fill_stack(spec.encoder, model.encoder, max_length=sizes.max_length)
    _fill_stack(spec.decoder, model.decoder, max_length=sizes.max_length)
    _linear(spec.decoder.projection, [model.readout])
    spec.config.decoder_start_token = str(sizes.special_tokens.bos)
    spec.register_source_vocabulary([str(token) for token in range(sizes.source_vocab_size)])
    spec.register_target_vocabulary([str(token) for token in range(sizes.target_vocab_size)])
    return spec


def _gpt(model: GPT, sizes: LanguageSpec, specs: Any) -> Any:
    if model.encoder.ngrams is not None:
        raise ConfigError("CTranslate2: has no n-gram features (model.ngrams); use the native engine")
    heads = _heads(model, NoPositionBias, Rotary)
    rotary = {"rotary_dim": 0, "rotary_interleave": False} if _is_rotary(model) else {}
    spec = specs.TransformerDecoderModelSpec.from_config(
        len(model.encoder.layers), heads, pre_norm=True, activation=_activation(model, specs), **rotary
    )
    _fill_stack(spec.decoder, model.encoder, max_length=sizes.max_length)
    _linear(spec.decoder.projection, [model.readout])
    spec.register_vocabulary([str(token) for token in range(sizes.vocab_size)])
    return spec


def _bert_encoder(encoder: BertEncoder, sizes: Any, specs: Any) -> Any:
    """Return the encoder of one text: the embedding of the first segment is added to the positions."""
    embedding, first = encoder.embedding, cast("Block", encoder.layers[0])
    if embedding.table.embedding_dim != first.self_attn.q.in_features:
        raise ConfigError("CTranslate2: the embedding must be as wide as the encoder; use the native engine")
    spec = specs.TransformerEncoderModelSpec(
        specs.transformer_spec.TransformerEncoderSpec(
            len(encoder.layers),
            _heads(encoder, NoPositionBias),
            pre_norm=isinstance(first.around_self, PreNorm),
            activation=_activation(encoder, specs),
            layernorm_embedding=True,
        )
    )
    _fill_stack(spec.encoder, encoder, max_length=sizes.max_length)
    if embedding.segments is not None:
        spec.encoder.position_encodings.encodings += embedding.segments.weight[0].detach()
    _norm(spec.encoder.layernorm_embedding, embedding.norm)
    spec.register_vocabulary([str(token) for token in range(sizes.vocab_size)])
    return spec


def _is_rotary(model: nn.Module) -> bool:
    """Return True if queries and keys are rotated by their positions."""
    return any(isinstance(module, Weigh) and isinstance(module.place, Rotary) for module in model.modules())


def _heads(model: nn.Module, *position_biases: type) -> int:
    """Return the number of heads; an error if CTranslate2 does not support their score or position encoding."""
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    for attention in attentions:
        weigh = attention.attend.weigh
        if not isinstance(weigh.place, position_biases) or not isinstance(weigh.score, scaled_dot.Score):
            raise ConfigError(
                "CTranslate2: supports only scaled dot products with positions added to the features, and rotary "
                "positions in a GPT; use the native engine"
            )
    return attentions[0].heads


def _activation(model: nn.Module, specs: Any) -> Any:
    """Return CTranslate2's name of the activation of the feed-forward networks."""
    names = specs.common_spec.Activation
    ct2_names = {"relu": names.RELU, "gelu": names.GELU, "gelu_tanh": names.GELUTanh, "silu": names.SWISH}
    activation = next(module.activation for module in model.modules() if isinstance(module, FeedForward))
    return next(ct2_names[name] for name, function in ACTIVATIONS.items() if function is activation)


def _fill_stack(spec: Any, stack: Encoder | DecoderStack | GPTEncoder | BertEncoder, *, max_length: int) -> None:
    embedding = stack.embedding
    table = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    table.weight = embedding.table.weight.detach()
    positions = embedding.position.encode_sequence(max_length)
    spec.scale_embeddings = not isinstance(embedding, BertEmbedding) and embedding.scale != 1.0
    if hasattr(spec, "position_encodings"):
        zeros = torch.zeros(max_length, embedding.table.embedding_dim)
        spec.position_encodings.encodings = zeros if positions is None else positions.detach().clone()
    for layer_spec, module in zip(spec.layer, stack.layers, strict=True):
        layer: Any = module
        _attention(layer_spec.self_attention, layer.self_attn, layer.around_self.norm, is_self=True)
        if hasattr(layer, "cross_attn"):
            _attention(layer_spec.attention, layer.cross_attn, layer.around_cross.norm, is_self=False)
        _norm(layer_spec.ffn.layer_norm, layer.around_feedforward.norm)
        _linear(layer_spec.ffn.linear_0, [layer.feedforward.up])
        _linear(layer_spec.ffn.linear_1, [layer.feedforward.down])
    if isinstance(stack.last, nn.LayerNorm):
        _norm(spec.layer_norm, stack.last)


def _attention(spec: Any, heads: MultiHeadAttention, norm: nn.LayerNorm, *, is_self: bool) -> None:
    """Self-attention has queries, keys and values in one matrix; cross-attention only keys and values."""
    _norm(spec.layer_norm, norm)
    if is_self:
        _linear(spec.linear[0], [heads.q, heads.k, heads.v])
    else:
        _linear(spec.linear[0], [heads.q])
        _linear(spec.linear[1], [heads.k, heads.v])
    _linear(spec.linear[-1], [heads.o])


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight.detach(), norm.bias.detach()


def _linear(spec: Any, layers: list[nn.Linear]) -> None:
    spec.weight = torch.cat([layer.weight.detach() for layer in layers])
    if layers[0].bias is not None:
        spec.bias = torch.cat([layer.bias.detach() for layer in layers])
