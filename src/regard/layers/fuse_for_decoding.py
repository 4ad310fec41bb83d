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
from regard.attention.score import Projected
from regard.core.errors import ConfigError
from regard.layers.block import Block
from regard.layers.embedding import Embedding
from regard.layers.image_kv_cache import WindowHeads, over
from regard.layers.kv_cache import KV
from regard.layers.linear import PRODUCTS, Precision, Product, Products
from regard.layers.multihead import MultiHeadAttention, with_beside
from regard.layers.norm import PostNorm, PreNorm
from regard.layers.readout import Readout

PLACES = 4096  # places whose encodings are made beforehand, at most
Shape = tuple[int, int]  # how many rows, and how many tokens of each
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
    faster = FASTER.get(type(module))
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


class FastHeads:
    """`Heads` over flat rows (r·t d): one product for all that is projected from the same input."""

    def __init__(self, heads: MultiHeadAttention, products: Products, *, over_source: bool) -> None:
        self.heads = heads.heads
        self.attend = _copy(heads.attend, products).eval()
        self.mix = AttendCache(self.attend)
        layers = [heads.k, heads.v] if over_source else [heads.q, heads.k, heads.v]
        self.project = products(layers)
        self.widths = [layer.out_features for layer in layers]
        if over_source:
            self.queries = products([heads.q])
        self.out = products([heads.o])

    def look_back(self, x: Tensor, shape: Shape, past: KV, mask: Mask, beside: Tensor | None) -> tuple[Tensor, KV]:
        """Self-attention -> (r·t d), and the past with the keys and values of `x`."""
        q, k, v = torch.split_with_sizes(self.project(x), self.widths, 1)
        keys = self.attend.project(self._columns(k, shape))
        if beside is not None:
            q = with_beside(self._columns(q, shape), beside).transpose(1, 2).flatten(2).flatten(0, 1)
            keys = Projected(with_beside(keys.tensor, beside))
        memory = past.extended(keys, self._columns(v, shape))
        cache = Projected(memory.keys)
        mixed = self.mix(q, cache, memory.values, mask & memory.mask, shape=shape, length=memory.length)
        return self.out(mixed), memory

    def look_at(self, x: Tensor, shape: Shape, source: KV) -> Tensor:
        """Attention over a source -> (r·t d)."""
        q = self.queries(x)
        keys = Projected(source.keys)
        return self.out(self.mix(q, keys, source.values, source.mask, shape=shape, length=source.length))

    def memorize(self, source: Tensor, mask: Mask) -> KV:
        """A source (b s d) -> its keys and values."""
        k, v = torch.split_with_sizes(self.project(source.flatten(0, 1)), self.widths, 1)
        k, v = (self._columns(x, (source.shape[0], source.shape[1])) for x in (k, v))
        return NOTHING.extended(self.attend.project(k), v)._replace(mask=mask)

    def _columns(self, x: Tensor, shape: Shape) -> Tensor:
        """(r·t h·d) -> (r h t d)."""
        rows, t = shape
        width = x.shape[1] // self.heads
        if t == 1:  # the rule in decoding
            return x.view(rows, self.heads, 1, width)
        return x.view(rows, t, self.heads, width).transpose(1, 2)


class FastWindowHeads(FastHeads):
    """`WindowHeads` over flat rows: attention over what is remembered of an image that is being made."""

    def look_back(self, x: Tensor, shape: Shape, past: Any, mask: Mask, beside: Tensor | None) -> tuple[Tensor, Any]:
        if isinstance(past, KV):
            return super().look_back(x, shape, past, mask, beside)
        q, k, v = torch.split_with_sizes(self.project(x), self.widths, 1)
        window = past.append(KV.of(self.attend.project(self._columns(k, shape)), self._columns(v, shape)))
        if window.whole is None and shape[1] == 1:
            near = window.pieces[0].memory
            mixed = self.mix(q, Projected(near.keys), near.values, NO_MASK, shape=shape, length=near.length)
        else:
            mixed = over(self.attend, self._columns(q, shape), window).transpose(1, 2).flatten(2).flatten(0, 1)
        return self.out(mixed), window


class FastBlock(nn.Module):
    """A `Block`: features (r t d) and the past -> features (r t d) and the past with them."""

    def __init__(self, block: Block, products: Products) -> None:
        super().__init__()
        kind = FastWindowHeads if isinstance(block.self_attn, WindowHeads) else FastHeads
        self.own = kind(block.self_attn, products, over_source=False)
        self.self_attn = self.own.attend  # listed under its name in the model
        self.around_own = _around(block.around_self)
        self.has_source = hasattr(block, "cross_attn")
        if self.has_source:
            self.cross = FastHeads(block.cross_attn, products, over_source=True)
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
        beside: Tensor | None = None,
    ) -> tuple[Tensor, KV]:
        rows, t, dim = x.shape
        shape, x = (rows, t), x.reshape(rows * t, dim)
        before, after = self.around_own
        mixed, memory = self.own.look_back(before(x), shape, NOTHING if past is None else past, mask, beside)
        x = after(x, mixed)
        if source is not None:
            before, after = self.around_source
            x = after(x, self.cross.look_at(before(x), shape, source))
        before, after = self.around_network
        x = after(x, self.down(self.activation(self.up(before(x)))))
        return x.view(rows, t, dim), memory

    def empty(self, like: Tensor) -> KV:
        none = like.new_zeros(like.shape[0], self.own.heads, 0, 0)
        return KV.of(Projected(none), none)

    def memorize(self, source: Tensor, mask: Mask) -> KV:
        return self.cross.memorize(source, mask)


class FastEmbedding(nn.Module):
    """An `Embedding` with a scaled table and the encodings of places made beforehand."""

    def __init__(self, slow: Embedding, products: Products) -> None:
        super().__init__()
        self.table = slow.table.weight * slow.scale
        self.position = _copy(slow.position, products)
        self.ready = min(slow.position.longest, PLACES)
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


NONE = torch.empty(0, 0, 0, 0)
NOTHING = KV.of(Projected(NONE), NONE)  # a memory without columns, for any number of rows
FASTER: dict[type[nn.Module], Callable[[Any, Products], Any]] = {
    Block: FastBlock,
    Embedding: FastEmbedding,
    Readout: FastReadout,
}
