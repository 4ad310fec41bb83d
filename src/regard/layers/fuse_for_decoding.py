"""Models of blocks made fast for decoding on a CPU: the same function of the same weights, without the detours.

`optimised` copies a model and puts a faster part in the place of every block, embedding and readout; the rest of the
model, and the states that it gives and takes, stay as they are. The projections of one input are one product, tables
are scaled beforehand, caches grow in place, and attention over few keys reads them where they are.
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

MAX_CACHED_POSITIONS = 4096  # places whose encodings are made beforehand, at most
BatchShape = tuple[int, int]  # how many rows, and how many tokens of each
Model = TypeVar("Model", bound=nn.Module)


def optimize_for_decoding(model: Model, precision: Precision = "float32") -> Model:
    """An equal model for decoding on a CPU, of the weights as they are now; the model itself where nothing would be
    won, or where somebody watches one of its modules by a hook."""
    if precision not in PRODUCTS:
        raise ConfigError(f"precision={precision!r} is not known; choose one of: {', '.join(PRODUCTS)}")
    modules = list(model.modules())
    if any(isinstance(module, FastBlock) for module in modules):
        return model
    plain = all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in model.parameters())
    blocks = any(isinstance(module, Block) for module in modules)
    if precision != "float32" and not (plain and blocks):
        raise ConfigError(
            f"precision={precision} needs a model of Transformer blocks with float32 weights on a CPU; this model is "
            "decoded as it is: leave the precision out"
        )
    watched = any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    if watched or not (plain and blocks):
        return model
    with torch.no_grad():
        fast: Model = _copy(model, PRODUCTS[precision]).eval()
    fast.__dict__["original"] = model  # no part of it: it has no weights of its own
    return fast


def original_model(model: nn.Module) -> nn.Module:
    """The model whose attention can be recorded: itself, or what it is a faster copy of."""
    found: nn.Module = vars(model).get("original", model)
    return found


def _copy(module: Model, products: Products) -> Model:
    """A module with the same weights, its parts replaced by faster ones where there are such."""
    faster = FAST_MODULES.get(type(module))
    if faster is not None:
        return cast("Model", faster(module, products))
    twin = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(value, dict):  # its own parameters, parts and hooks, so that neither changes the other's
            twin.__dict__[name] = value.copy()
    for name, weight in module._parameters.items():
        if weight is not None:
            twin._parameters[name] = nn.Parameter(weight.detach(), requires_grad=False)
    for name, part in module._modules.items():
        twin._modules[name] = None if part is None else _copy(part, products)
    return twin


class FastMultiHeadAttention:
    """`Heads` over flat rows (r·t d): one product for all that is projected from the same input."""

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
        """Self-attention -> (r·t d), and the past with the keys and values of `x`."""
        q, k, v = torch.split_with_sizes(self.project(x), self.widths, 1)
        keys = self.attend.project(self._columns(k, shape))
        if extra is not None:
            q = concat_extra(self._columns(q, shape), extra).transpose(1, 2).flatten(2).flatten(0, 1)
            keys = ProjectedKeys(concat_extra(keys.tensor, extra))
        memory = past.extend(keys, self._columns(v, shape))
        cache = ProjectedKeys(memory.keys)
        mixed = self.mix(q, cache, memory.values, mask & memory.mask, shape=shape, length=memory.length)
        return self.out(mixed), memory

    def attend_source(self, x: Tensor, shape: BatchShape, source: KV) -> Tensor:
        """Attention over a source -> (r·t d)."""
        q = self.queries(x)
        keys = ProjectedKeys(source.keys)
        return self.out(self.mix(q, keys, source.values, source.mask, shape=shape, length=source.length))

    def project_kv(self, source: Tensor, mask: Mask) -> KV:
        """A source (b s d) -> its keys and values."""
        k, v = torch.split_with_sizes(self.project(source.flatten(0, 1)), self.widths, 1)
        k, v = (self._columns(x, (source.shape[0], source.shape[1])) for x in (k, v))
        return EMPTY_KV.extend(self.attend.project(k), v)._replace(mask=mask)

    def _columns(self, x: Tensor, shape: BatchShape) -> Tensor:
        """(r·t h·d) -> (r h t d)."""
        rows, t = shape
        width = x.shape[1] // self.heads
        if t == 1:  # the rule in decoding
            return x.view(rows, self.heads, 1, width)
        return x.view(rows, t, self.heads, width).transpose(1, 2)


class FastImageAttention(FastMultiHeadAttention):
    """`WindowHeads` over flat rows: attention over what is remembered of an image that is being made."""

    def attend_self(
        self, x: Tensor, shape: BatchShape, past: Any, mask: Mask, extra: Tensor | None
    ) -> tuple[Tensor, Any]:
        if isinstance(past, KV):
            return super().attend_self(x, shape, past, mask, extra)
        q, k, v = torch.split_with_sizes(self.project(x), self.widths, 1)
        window = past.append(KV.of(self.attend.project(self._columns(k, shape)), self._columns(v, shape)))
        if window.whole is None and shape[1] == 1:
            near = window.pieces[0].memory
            mixed = self.mix(q, ProjectedKeys(near.keys), near.values, NO_MASK, shape=shape, length=near.length)
        else:
            mixed = (
                attend_image_cache(self.attend, self._columns(q, shape), window)
                .transpose(1, 2)
                .flatten(2)
                .flatten(0, 1)
            )
        return self.out(mixed), window


class FastBlock(nn.Module):
    """A `Block`: features (r t d) and the past -> features (r t d) and the past with them."""

    def __init__(self, block: Block, products: Products) -> None:
        super().__init__()
        kind = FastImageAttention if isinstance(block.self_attn, ImageMultiHeadAttention) else FastMultiHeadAttention
        self.own = kind(block.self_attn, products, cross_attention=False)
        self.self_attn = self.own.attend  # listed under its name in the model
        self.around_own = _around(block.around_self)
        self.has_source = hasattr(block, "cross_attn")
        if self.has_source:
            self.cross = FastMultiHeadAttention(block.cross_attn, products, cross_attention=True)
            self.cross_attn = self.cross.attend
            self.around_source = _around(block.around_cross)
        network = block.feedforward
        self.up, self.down = products([network.up]), products([network.down])
        self.activation = torch.relu_ if network.activation is relu else network.activation
        self.around_network = _around(block.around_feedforward)

    def forward(
        self,
        x: Tensor,
        mask: Mask = NO_MASK,
        *,
        past: KV | None = None,
        source: KV | None = None,
        extra: Tensor | None = None,
    ) -> tuple[Tensor, KV]:
        rows, t, dim = x.shape
        shape, x = (rows, t), x.reshape(rows * t, dim)
        before, after = self.around_own
        mixed, memory = self.own.attend_self(before(x), shape, EMPTY_KV if past is None else past, mask, extra)
        x = after(x, mixed)
        if source is not None:
            before, after = self.around_source
            x = after(x, self.cross.attend_source(before(x), shape, source))
        before, after = self.around_network
        x = after(x, self.down(self.activation(self.up(before(x)))))
        return x.view(rows, t, dim), memory

    def empty_cache(self, like: Tensor) -> KV:
        none = like.new_zeros(like.shape[0], self.own.heads, 0, 0)
        return KV.of(ProjectedKeys(none), none)

    def project_kv(self, source: Tensor, mask: Mask) -> KV:
        return self.cross.project_kv(source, mask)


class FastEmbedding(nn.Module):
    """An `Embedding` with a scaled table and the encodings of places made beforehand."""

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
            placed: Tensor = self.position(x, start)
            return placed
        return x if self.places is None else x + self.places[start : start + tokens.shape[1]]


class FastReadout(nn.Module):
    """A `Readout` as a product."""

    def __init__(self, layer: Readout, products: Products) -> None:
        super().__init__()
        self.layer, self.product = copy.copy(layer), products([layer])

    def forward(self, x: Tensor) -> Tensor:
        logits = self.product(x.flatten(0, -2))
        return logits.view(*x.shape[:-1], logits.shape[1])

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        return self.layer.loss(features, labels, smoothing=smoothing)


def _around(module: PreNorm | PostNorm) -> tuple[Product, Callable[[Tensor, Tensor], Tensor]]:
    """What is done to the input of a sublayer, and to the input and the output together."""
    norm = module.norm
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight.detach(), norm.bias.detach(), norm.eps

    def normalise(x: Tensor) -> Tensor:
        return torch.layer_norm(x, shape, weight, bias, eps)

    if isinstance(module, PreNorm):
        return normalise, torch.add
    return lambda x: x, lambda x, y: normalise(x + y)


EMPTY_TENSOR = torch.empty(0, 0, 0, 0)
EMPTY_KV = KV.of(ProjectedKeys(EMPTY_TENSOR), EMPTY_TENSOR)  # a memory without columns, for any number of rows
FAST_MODULES: dict[type[nn.Module], Callable[[Any, Products], Any]] = {
    Block: FastBlock,
    Embedding: FastEmbedding,
    Readout: FastReadout,
}
