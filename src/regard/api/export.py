"""A plain Transformer as a CTranslate2 model: the same weights, tokens named by their numbers.

CTranslate2 is an inference engine of its own, without PyTorch. It knows the Transformer with scaled dot products and
positions added to the features; every other model is decoded by our own engine, which is the default for all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.attention.scores import scaled_dot
from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.core.sizes import Text
from regard.layers.heads import Heads
from regard.layers.residual import PreNorm
from regard.models.transformer import DecoderStack, Encoder, Transformer

VOCABULARY_MAP = "vmap.txt"  # where CTranslate2 looks for it


def export(model: nn.Module, sizes: Text, folder: Path, *, vocabulary_map: Iterable[str] = ()) -> None:
    """A Transformer -> a CTranslate2 model in `folder`, which appears whole or not at all.

    `vocabulary_map` are the lines of a shortlist: a source token, a tab, its target tokens.
    """
    if not isinstance(model, Transformer):
        raise ConfigError(f"CTranslate2 has no {type(model).__name__}; only the Transformer can be exported to it")
    specs = require("ctranslate2.specs", extra="ctranslate2")
    spec = specs.TransformerSpec.from_config(
        (len(model.encoder.layers), len(model.decoder.layers)),
        _heads(model),
        pre_norm=isinstance(model.decoder.layers[0].around_self, PreNorm),
        activation=specs.common_spec.Activation.RELU,
    )
    _fill_stack(spec.encoder, model.encoder, longest=sizes.longest)
    _fill_stack(spec.decoder, model.decoder, longest=sizes.longest)
    _linear(spec.decoder.projection, [model.readout])
    marks = sizes.marks
    spec.config.unk_token, spec.config.eos_token = str(marks.unknown), str(marks.end)
    spec.config.bos_token = spec.config.decoder_start_token = str(marks.start)
    spec.register_source_vocabulary([str(token) for token in range(sizes.source)])
    spec.register_target_vocabulary([str(token) for token in range(sizes.target)])
    spec.validate()
    spec.optimize()
    _save(spec, folder, vocabulary_map="\n".join(vocabulary_map))


def _save(spec: Any, folder: Path, *, vocabulary_map: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}") as made:
        spec.save(made)
        if vocabulary_map:
            (Path(made) / VOCABULARY_MAP).write_text(vocabulary_map, encoding="utf-8")
        if not folder.exists():
            (Path(made)).rename(folder)
            Path(made).mkdir()  # the context manager wants something to remove


def _heads(model: Transformer) -> int:
    attentions = [module for module in model.modules() if isinstance(module, Heads)]
    for attention in attentions:
        weigh = attention.attend.weigh
        if weigh.placed or not isinstance(weigh.score, scaled_dot.Score):
            raise ConfigError(
                "CTranslate2 has scaled dot products and positions added to the features only; leave --engine out"
            )
    return attentions[0].heads


def _fill_stack(spec: Any, stack: Encoder | DecoderStack, *, longest: int) -> None:
    embedding = stack.embedding
    table = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    table.weight = embedding.table.weight.detach()
    places = embedding.position.of_length(longest)
    spec.scale_embeddings = True
    spec.position_encodings.encodings = (
        torch.zeros(longest, embedding.table.embedding_dim) if places is None else places.detach().contiguous()
    )
    for made, layer in zip(spec.layer, stack.layers, strict=True):
        own: Any = layer
        _attention(made.self_attention, own.self_attn, own.around_self.norm, alone=True)
        if hasattr(own, "cross_attn"):
            _attention(made.attention, own.cross_attn, own.around_cross.norm, alone=False)
        _norm(made.ffn.layer_norm, own.around_feedforward.norm)
        _linear(made.ffn.linear_0, [own.feedforward.up])
        _linear(made.ffn.linear_1, [own.feedforward.down])
    if isinstance(stack.last, nn.LayerNorm):
        _norm(spec.layer_norm, stack.last)


def _attention(spec: Any, heads: Heads, norm: nn.LayerNorm, *, alone: bool) -> None:
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
