"""Inference copies of Transformer models for fast decoding on a CPU: the same function of the same weights.

`optimize_for_decoding` copies a model and replaces every block, embedding and readout by a faster module. The rest of
the model and its states are unchanged. The projections of one input are one matrix product, embedding tables are scaled
in advance, caches grow in place, and attention over few keys reads them in place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from regard.attention.attend import AttendCache
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ProjectedKeys
from regard.core.errors import ConfigError
from regard.layers.block import Block
from regard.layers.embedding import Embedding
from regard.layers.image_kv_cache import ImageMultiHeadAttention, attend_image_cache
from regard.layers.kv_cache import KV
from regard.layers.linear import PRODUCTS, Precision, Product, Products
from regard.layers.multihead import MultiHeadAttention, concat_extra
from regard.layers.norm import PostNorm, PreNorm
from regard.layers.readout import Readout

MAX_CACHED_POSITIONS = 4096  # maximum number of precomputed position encodings
BatchShape = tuple[int, int]  # batch size, tokens per row
Model = TypeVar("Model", bound=nn.Module)


def optimize_for_decoding(model: Model, precision: Precision = "float32") -> Model:
    """Return an equivalent model for decoding on a CPU, a snapshot of the current weights. Return the model itself if
    it cannot be optimized, or if one of its modules has a hook."""
    if precision not in PRODUCTS:
        raise ConfigError(f"precision={precision!r} is unknown; choose one of: {', '.join(PRODUCTS)}")
    modules = list(model.modules())
    if any(isinstance(module, FastBlock) for module in modules):
        return model
    is_float32_on_cpu = all(
        weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in model.parameters()
    )
    has_blocks = any(isinstance(module, Block) for module in modules)
    if precision != "float32" and not (is_float32_on_cpu and has_blocks):
        raise ConfigError(
            f"precision={precision} needs a model of Transformer blocks with float32 weights on a CPU; "
            "leave the precision out for this model"
        )
    has_hooks = any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    if has_hooks or not (is_float32_on_cpu and has_blocks):
        return model
    with torch.no_grad():
        fast: Model = _copy(model, PRODUCTS[precision]).eval()
    fast.__dict__["original"] = model  # not a submodule: the copy has its own parameters
    return fast


def original_model(model: nn.Module) -> nn.Module:
    """Return the model whose attention can be recorded: the model from which `model` was copied, or itself."""
    original: nn.Module = vars(model).get("original", model)
    return original


def _copy(module: Model, products: Products) -> Model:
    """Copy a module with the same weights, replacing parts for which there is a faster module."""
    fast_module = FAST_MODULES.get(type(module))
    if fast_module is not None and not _has_other_wrappers(module):
        return cast("Model", fast_module(module, products))
    copied = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(
            value, dict
        ):  # separate dicts of parameters, submodules and hooks, so that changes to one do not affect the other
            copied.__dict__[name] = value.copy()
    for name, weight in module._parameters.items():
        if weight is not None:
            copied._parameters[name] = nn.Parameter(weight.detach(), requires_grad=False)
    for name, part in module._modules.items():
        copied._modules[name] = None if part is None else _copy(part, products)
    return copied


def _has_other_wrappers(module: nn.Module) -> bool:
    """Return True for a block with other wrappers than `PreNorm` and `PostNorm`, for which there is no fast version."""
    wrappers = [getattr(module, name, None) for name in ("around_self", "around_cross", "around_feedforward")]
    return any(wrapper is not None and type(wrapper) not in (PreNorm, PostNorm) for wrapper in wrappers)


class FastMultiHeadAttention:
    """`MultiHeadAttention` on flattened rows (r·t d): one product for all projections of the same input."""

    def __init__(self, heads: MultiHeadAttention, products: Products, *, cross_attention: bool) -> None:
        self.heads = heads.heads
        self.attend = _copy(heads.attend, products).eval()
        self.mix = AttendCache(self.attend)
        layers = [heads.k, heads.v] if cross_attention else [heads.q, heads.k, heads.v]
        self.project = products(layers)
        self.widths = [layer.out_features for layer in layers]
        if cross_attention:
            self.queries = products([heads.q])
        self.out = products([heads.o])

    def attend_self(
        self, x: Tensor, shape: BatchShape, past: KV, mask: Mask, extra: Tensor | None
    ) -> tuple[Tensor, KV]:
        """Self-attention -> (r·t d), and the KV cache extended by the keys and values of `x`."""
        q, k, v = torch.split_with_sizes(self.project(x), self.widths, 1)
        keys = self.attend.project(self._split_heads(k, shape))
        if extra is not None:
            q = concat_extra(self._split_heads(q, shape), extra).transpose(1, 2).flatten(2).flatten(0, 1)
            keys = ProjectedKeys(concat_extra(keys.tensor, extra))
        kv = past.extend(keys, self._split_heads(v, shape))
        cached_keys = ProjectedKeys(kv.keys)
        attended = self.mix(q, cached_keys, kv.values, mask & kv.mask, shape=shape, length=kv.length)
        return self.out(attended), kv

    def attend_source(self, x: Tensor, shape: BatchShape, source: KV) -> Tensor:
        """Cross-attention -> (r·t d)."""
        q = self.queries(x)
        keys = ProjectedKeys(source.keys)
        return self.out(self.mix(q, keys, source.values, source.mask, shape=shape, length=source.length))

    def project_kv(self, source: Tensor, mask: Mask) -> KV:
        """Source features (b s d) -> keys and values."""
        k, v = torch.split_with_sizes(self.project(source.flatten(0, 1)), self.widths, 1)
        k, v = (self._split_heads(x, (source.shape[0], source.shape[1])) for x in (k, v))
        return EMPTY_KV.extend(self.attend.project(k), v)._replace(mask=mask)

    def _split_heads(self, x: Tensor, shape: BatchShape) -> Tensor:
        """(r·t h·d) -> (r h t d)."""
        batch_size, t = shape
        width = x.shape[1] // self.heads
        if t == 1:  # the usual case in decoding
            return x.view(batch_size, self.heads, 1, width)
        return x.view(batch_size, t, self.heads, width).transpose(1, 2)


class FastImageAttention(FastMultiHeadAttention):
    """`ImageMultiHeadAttention` on flattened rows: attention over the cache of an image that is being generated."""

    def attend_self(
        self, x: Tensor, shape: BatchShape, past: Any, mask: Mask, extra: Tensor | None
    ) -> tuple[Tensor, Any]:
        if isinstance(past, KV):
            return super().attend_self(x, shape, past, mask, extra)
        q, k, v = torch.split_with_sizes(self.project(x), self.widths, 1)
        cache = past.append(KV.of(self.attend.project(self._split_heads(k, shape)), self._split_heads(v, shape)))
        if cache.full is None and shape[1] == 1:
            kv = cache.chunks[0].kv
            attended = self.mix(q, ProjectedKeys(kv.keys), kv.values, NO_MASK, shape=shape, length=kv.length)
        else:
            attended = (
                attend_image_cache(self.attend, self._split_heads(q, shape), cache)
                .transpose(1, 2)
                .flatten(2)
                .flatten(0, 1)
            )
        return self.out(attended), cache


class FastBlock(nn.Module):
    """Fast version of `Block`: features (r t d) and the KV cache -> features (r t d) and the extended KV cache."""

    def __init__(self, block: Block, products: Products) -> None:
        super().__init__()
        attention_class = (
            FastImageAttention if isinstance(block.self_attn, ImageMultiHeadAttention) else FastMultiHeadAttention
        )
        self.own = attention_class(block.self_attn, products, cross_attention=False)
        self.self_attn = self.own.attend  # registered under its name in the original model
        self.around_own = _pre_and_post(block.around_self)
        self.has_source = hasattr(block, "cross_attn")
        if self.has_source:
            self.cross = FastMultiHeadAttention(block.cross_attn, products, cross_attention=True)
            self.cross_attn = self.cross.attend
            self.around_source = _pre_and_post(block.around_cross)
        network = block.feedforward
        self.up, self.down = products([network.up]), products([network.down])
        self.activation = torch.relu_ if network.activation is relu else network.activation
        self.around_network = _pre_and_post(block.around_feedforward)

    def forward(
        self,
        x: Tensor,
        mask: Mask = NO_MASK,
        *,
        past: KV | None = None,
        source: KV | None = None,
        extra: Tensor | None = None,
    ) -> tuple[Tensor, KV]:
        batch_size, t, dim = x.shape
        shape, x = (batch_size, t), x.reshape(batch_size * t, dim)
        pre, post = self.around_own
        attended, cache = self.own.attend_self(pre(x), shape, EMPTY_KV if past is None else past, mask, extra)
        x = post(x, attended)
        if source is not None:
            pre, post = self.around_source
            x = post(x, self.cross.attend_source(pre(x), shape, source))
        pre, post = self.around_network
        x = post(x, self.down(self.activation(self.up(pre(x)))))
        return x.view(batch_size, t, dim), cache

    def empty_cache(self, like: Tensor) -> KV:
        empty = like.new_zeros(like.shape[0], self.own.heads, 0, 0)
        return KV.of(ProjectedKeys(empty), empty)

    def project_kv(self, source: Tensor, mask: Mask) -> KV:
        return self.cross.project_kv(source, mask)


class FastEmbedding(nn.Module):
    """Fast version of `Embedding` with a scaled table and precomputed position encodings."""

    def __init__(self, embedding: Embedding, products: Products) -> None:
        super().__init__()
        self.table = embedding.table.weight * embedding.scale
        self.position = _copy(embedding.position, products)
        self.ready = min(embedding.position.longest, MAX_CACHED_POSITIONS)
        encoded = self.position.encode(torch.arange(self.ready), self.ready)
        self.places = None if encoded is None else encoded.to(self.table.dtype)

    def forward(self, tokens: Tensor, start: Tensor | int = 0) -> Tensor:
        x = torch.embedding(self.table, tokens)
        if isinstance(start, Tensor) or start + tokens.shape[1] > self.ready:
            encoded: Tensor = self.position(x, start)
            return encoded
        return x if self.places is None else x + self.places[start : start + tokens.shape[1]]


class FastReadout(nn.Module):
    """Fast version of `Readout`."""

    def __init__(self, layer: Readout, products: Products) -> None:
        super().__init__()
        self.layer, self.product = copy.copy(layer), products([layer])

    def forward(self, x: Tensor) -> Tensor:
        logits = self.product(x.flatten(0, -2))
        return logits.view(*x.shape[:-1], logits.shape[1])

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        return self.layer.loss(features, labels, smoothing=smoothing)


def _pre_and_post(module: PreNorm | PostNorm) -> tuple[Product, Callable[[Tensor, Tensor], Tensor]]:
    """Return the functions applied to the input of a sublayer, and to its input and output."""
    norm = module.norm
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight.detach(), norm.bias.detach(), norm.eps

    def normalize(x: Tensor) -> Tensor:
        return torch.layer_norm(x, shape, weight, bias, eps)

    if isinstance(module, PreNorm):
        return normalize, torch.add
    return lambda x: x, lambda x, y: normalize(x + y)


EMPTY_TENSOR = torch.empty(0, 0, 0, 0)
EMPTY_KV = KV.of(ProjectedKeys(EMPTY_TENSOR), EMPTY_TENSOR)  # a cache without columns, for any batch size
FAST_MODULES: dict[type[nn.Module], Callable[[Any, Products], Any]] = {
    Block: FastBlock,
    Embedding: FastEmbedding,
    Readout: FastReadout,
}
