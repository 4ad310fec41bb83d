"""A plain Transformer, GPT or encoder of BERT as a CTranslate2 model: the same weights, tokens by their numbers.

CTranslate2 is an inference engine of its own, without PyTorch. It knows scaled dot products with positions added to the
features, and in a language model rotary ones; every other model is decoded by our own engine, the default for all.
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
from regard.models.gpt import Encoder as Reader
from regard.models.transformer import DecoderStack, Encoder, Transformer


def export(model: nn.Module, sizes: Any, folder: Path, *, weights: str = "") -> None:
    """A Transformer, a GPT or the encoder of a BERT -> a CTranslate2 model in `folder`, which appears whole or not at
    all; its seal has the checksum of the file of `weights` it was made of. What stands upon an encoder stays ours."""
    if not is_supported(model):
        raise ConfigError(
            f"CTranslate2 has no {type(model).__name__}; only the Transformer, GPT and BERT can be exported to it"
        )
    specs, marks = require("ctranslate2.specs", extra="ctranslate2"), sizes.special_tokens
    if isinstance(model, Transformer | GPT):
        spec = _both_sides(model, sizes, specs) if isinstance(model, Transformer) else _one_side(model, sizes, specs)
        spec.config.eos_token, spec.config.bos_token = str(marks.eos), str(marks.bos)
    else:
        spec = _without_head(cast("Any", model).encoder, sizes, specs)
    spec.config.unk_token = str(marks.unk)
    spec.config.layer_norm_epsilon = next(m.eps for m in model.modules() if isinstance(m, nn.LayerNorm))
    spec.validate()
    spec.optimize()
    cache.create_export(folder, weights, lambda draft: spec.save(str(draft)))


def is_supported(model: nn.Module) -> bool:
    """Whether CTranslate2 has such a model, if with other scores or positions."""
    return isinstance(model, Transformer | GPT) or isinstance(getattr(model, "encoder", None), BertEncoder)


def _both_sides(model: Transformer, sizes: Seq2SeqSpec, specs: Any) -> Any:
    spec = specs.TransformerSpec.from_config(
        (len(model.encoder.layers), len(model.decoder.layers)),
        _heads(model, NoPositionBias),
        pre_norm=isinstance(model.decoder.layers[0].around_self, PreNorm),
        activation=_activation(model, specs),
    )
    _fill_stack(spec.encoder, model.encoder, longest=sizes.max_length)
    _fill_stack(spec.decoder, model.decoder, longest=sizes.max_length)
    _linear(spec.decoder.projection, [model.readout])
    spec.config.decoder_start_token = str(sizes.special_tokens.bos)
    spec.register_source_vocabulary([str(token) for token in range(sizes.source_vocab_size)])
    spec.register_target_vocabulary([str(token) for token in range(sizes.target_vocab_size)])
    return spec


def _one_side(model: GPT, sizes: LanguageSpec, specs: Any) -> Any:
    heads = _heads(model, NoPositionBias, Rotary)
    places = {"rotary_dim": 0, "rotary_interleave": False} if _turns(model) else {}
    spec = specs.TransformerDecoderModelSpec.from_config(
        len(model.encoder.layers), heads, pre_norm=True, activation=_activation(model, specs), **places
    )
    _fill_stack(spec.decoder, model.encoder, longest=sizes.max_length)
    _linear(spec.decoder.projection, [model.readout])
    spec.register_vocabulary([str(token) for token in range(sizes.vocab_size)])
    return spec


def _without_head(encoder: BertEncoder, sizes: Any, specs: Any) -> Any:
    """An encoder of one text: the first segment is a part of the places."""
    embedding, first = encoder.embedding, cast("Block", encoder.layers[0])
    if embedding.table.embedding_dim != first.self_attn.q.in_features:
        raise ConfigError("CTranslate2 has no table that is narrower than its encoder; leave --engine out")
    spec = specs.TransformerEncoderModelSpec(
        specs.transformer_spec.TransformerEncoderSpec(
            len(encoder.layers),
            _heads(encoder, NoPositionBias),
            pre_norm=isinstance(first.around_self, PreNorm),
            activation=_activation(encoder, specs),
            layernorm_embedding=True,
        )
    )
    _fill_stack(spec.encoder, encoder, longest=sizes.max_length)
    if embedding.segments is not None:
        spec.encoder.position_encodings.encodings += embedding.segments.weight[0].detach()
    _norm(spec.encoder.layernorm_embedding, embedding.norm)
    spec.register_vocabulary([str(token) for token in range(sizes.vocab_size)])
    return spec


def _turns(model: nn.Module) -> bool:
    """Whether queries and keys are turned by their places."""
    return any(isinstance(module, Weigh) and isinstance(module.place, Rotary) for module in model.modules())


def _heads(model: nn.Module, *known: type) -> int:
    """How many heads there are, where CTranslate2 knows their score and how places enter it."""
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    for attention in attentions:
        weigh = attention.attend.weigh
        if not isinstance(weigh.place, known) or not isinstance(weigh.score, scaled_dot.Score):
            raise ConfigError(
                "CTranslate2 has scaled dot products and positions added to the features only, in a GPT rotary ones "
                "too; leave --engine out"
            )
    return attentions[0].heads


def _activation(model: nn.Module, specs: Any) -> Any:
    """What CTranslate2 calls the function inside the feed-forward networks."""
    kinds = specs.common_spec.Activation
    theirs = {"relu": kinds.RELU, "gelu": kinds.GELU, "gelu_tanh": kinds.GELUTanh, "silu": kinds.SWISH}
    used = next(module.activation for module in model.modules() if isinstance(module, FeedForward))
    return next(theirs[name] for name, function in ACTIVATIONS.items() if function is used)


def _fill_stack(spec: Any, stack: Encoder | DecoderStack | Reader | BertEncoder, *, longest: int) -> None:
    embedding = stack.embedding
    table = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    table.weight = embedding.table.weight.detach()
    places = embedding.position.encode_sequence(longest)
    spec.scale_embeddings = not isinstance(embedding, BertEmbedding) and embedding.scale != 1.0
    if hasattr(spec, "position_encodings"):
        none = torch.zeros(longest, embedding.table.embedding_dim)
        spec.position_encodings.encodings = none if places is None else places.detach().clone()
    for theirs, layer in zip(spec.layer, stack.layers, strict=True):
        ours: Any = layer
        _attention(theirs.self_attention, ours.self_attn, ours.around_self.norm, alone=True)
        if hasattr(ours, "cross_attn"):
            _attention(theirs.attention, ours.cross_attn, ours.around_cross.norm, alone=False)
        _norm(theirs.ffn.layer_norm, ours.around_feedforward.norm)
        _linear(theirs.ffn.linear_0, [ours.feedforward.up])
        _linear(theirs.ffn.linear_1, [ours.feedforward.down])
    if isinstance(stack.last, nn.LayerNorm):
        _norm(spec.layer_norm, stack.last)


def _attention(spec: Any, heads: MultiHeadAttention, norm: nn.LayerNorm, *, alone: bool) -> None:
    """Queries, keys and values in one matrix where they come from one place, else keys and values."""
    _norm(spec.layer_norm, norm)
    if alone:
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
