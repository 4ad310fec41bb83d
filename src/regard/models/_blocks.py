"""Layers of a Transformer for decoding on a CPU: their weights as products, over flat rows. Used by _prepared.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import short
from regard.layers.heads import Heads
from regard.layers.linear import has_wide_vectors, is_large, one_dnn
from regard.layers.residual import PreNorm

Precision = Literal["float32", "int8"]
Product = Callable[[Tensor], Tensor]  # (n d) -> (n e)
WIDE = 2**18  # numbers of a matrix that is packed for oneDNN: a fifth and more faster than MKL from few rows on
SEVERAL = 4  # rows from which oneDNN reads a matrix at full speed


def exact(layers: list[nn.Linear]) -> Product:
    """The layers as one product."""
    weights = [layer.weight.detach() for layer in layers]
    weight = weights[0] if len(layers) == 1 else torch.cat(weights)
    bias = _biases(layers)
    if packs(weight):
        return _packed(weight, bias)
    plain = _plain(weight, bias)
    return lambda x: one_dnn(x, weight, bias) if is_large(x, weight) else plain(x)


def packs(weight: Tensor) -> bool:
    """Whether products with this matrix are oneDNN's, for which it is packed."""
    return weight.numel() >= WIDE and has_wide_vectors()


def _packed(weight: Tensor, bias: Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    def multiply(x: Tensor) -> Tensor:
        if len(x) > 1:
            return one_dnn(x, packed, bias)
        return one_dnn(x.expand(SEVERAL, -1).contiguous(), packed, bias)[:1]  # one row alone takes longer than several

    return multiply


def _plain(weight: Tensor, bias: Tensor | None) -> Product:
    """By MKL. A turned copy of a matrix is read twice as fast for one row; where it is small that does not matter."""
    turned = weight.mT.contiguous() if weight.numel() >= WIDE else weight.mT
    return lambda x: torch.mm(x, turned) if bias is None else torch.addmm(bias, x, turned)


def _biases(layers: list[nn.Linear]) -> Tensor | None:
    found: list[Tensor] = [layer.bias.detach() for layer in layers if layer.bias is not None]
    return torch.cat(found) if found else None


def rounded(layers: list[nn.Linear]) -> Product:
    """The layers as one product of 8-bit numbers: weights scaled row by row, inputs as they come."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    scales = weight.abs().amax(dim=1).clamp_min(1e-8).double() / 127
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():  # PyTorch means to remove these one day, and has no other fast product of 8 bits
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*", category=UserWarning)
        numbers = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(numbers, _biases(layers))
    multiply: Any = torch.ops.quantized.linear_dynamic
    return lambda x: multiply(x, packed, True)  # True: inputs of 7 bits, without which sums of 16 bits could overflow


PRODUCTS: dict[Precision, Callable[[list[nn.Linear]], Product]] = {"float32": exact, "int8": rounded}


class Output(nn.Module):
    """The readout of a model as a product; it has the layer's weights."""

    def __init__(self, layer: nn.Linear, product: Callable[[list[nn.Linear]], Product]) -> None:
        super().__init__()
        self.layer, self._kind, self._product = layer, product, product([layer])

    def of(self, layer: nn.Linear) -> Output:
        """Another layer as the same kind of product."""
        return Output(layer, self._kind)

    def forward(self, x: Tensor) -> Tensor:
        return self._product(x.flatten(0, -2)).view(*x.shape[:-1], -1)


def normalised(norm: nn.Module) -> Product:
    """A norm of the model, or what stands in its place, as a function of rows."""
    if not isinstance(norm, nn.LayerNorm):
        return norm
    shape, weight, bias = list(norm.normalized_shape), norm.weight.detach(), norm.bias.detach()
    return lambda x: torch.layer_norm(x, shape, weight, bias, norm.eps)


class Around:
    """Norm and residual, as PreNorm and PostNorm have them."""

    def __init__(self, module: Any) -> None:
        self.pre = isinstance(module, PreNorm)
        self.norm = normalised(module.norm)

    def __call__(self, x: Tensor, sublayer: Product) -> Tensor:
        return x + sublayer(self.norm(x)) if self.pre else self.norm(x + sublayer(x))


class Attention:
    """One layer of attention: its products, one for all that come from the same input."""

    def __init__(self, heads: Heads, product: Callable[[list[nn.Linear]], Product], *, alone: bool) -> None:
        self.heads = heads.heads
        self.fold = short.Fold(heads.heads, heads.o.in_features // heads.heads)
        self.scale = float(heads.attend.weigh.score.scale)  # type: ignore[arg-type]  # scaled dot: it has one
        self.queries = product([heads.q, heads.k, heads.v] if alone else [heads.q])
        self.memory = None if alone else product([heads.k, heads.v])
        self.out = product([heads.o])

    def over(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Queries of the last axis (r h·d) over keys and values (b·h s d) -> (r d)."""
        q = self.fold.into(x, k.shape[0] // self.heads)
        return self.out(self.fold.out_of(short.mix(q, k, v, mask, self.scale)))


class EncoderBlock:
    """A layer of the encoder, over flat rows (b·s d)."""

    def __init__(self, layer: Any, product: Callable[[list[nn.Linear]], Product]) -> None:
        self.self_attn = Attention(layer.self_attn, product, alone=True)
        self.up, self.down = product([layer.feedforward.up]), product([layer.feedforward.down])
        self.around = Around(layer.around_self), Around(layer.around_feedforward)

    def __call__(self, x: Tensor, b: int, mask: Tensor) -> Tensor:
        attn, room = self.self_attn, mask.shape[2]

        def look(y: Tensor) -> Tensor:
            q, k, v = attn.queries(y).view(b, -1, 3 * y.shape[1]).chunk(3, dim=2)
            s = q.shape[1]
            queries = short.split(q, attn.heads, s)
            mixed = short.mix(
                queries, short.split(k, attn.heads, room), short.split(v, attn.heads, room), mask, attn.scale
            )
            return attn.out(mixed.view(b, attn.heads, s, -1).transpose(1, 2).reshape(b * s, -1))

        x = self.around[0](x, look)
        return self.around[1](x, lambda y: self.down(self.up(y).relu_()))


class DecoderBlock:
    """A layer of the decoder, one token of each hypothesis at a time (r d)."""

    def __init__(self, layer: Any, product: Callable[[list[nn.Linear]], Product]) -> None:
        self.self_attn = Attention(layer.self_attn, product, alone=True)
        self.cross_attn = Attention(layer.cross_attn, product, alone=False)
        self.up, self.down = product([layer.feedforward.up]), product([layer.feedforward.down])
        self.around = tuple(map(Around, (layer.around_self, layer.around_cross, layer.around_feedforward)))

    def memorize(self, memory: Tensor, b: int, room: int) -> tuple[Tensor, Tensor]:
        """The encoder's rows (b·s d) -> keys and values (b h room d)."""
        attn = self.cross_attn
        if attn.memory is None:
            raise TypeError("a layer over the source has products of its own for keys and values")
        k, v = attn.memory(memory).view(b, -1, 2 * memory.shape[1]).chunk(2, dim=2)
        made = [short.split(side, attn.heads, room).view(b, attn.heads, room, -1) for side in (k, v)]
        return made[0], made[1]

    def __call__(
        self, x: Tensor, past: tuple[Tensor, Tensor, Tensor, Tensor], source: tuple[Tensor, Tensor, Tensor]
    ) -> Tensor:
        attn, cross = self.self_attn, self.cross_attn
        k, v, place, behind = past
        memory_k, memory_v, absent = source

        def look_back(y: Tensor) -> Tensor:  # the place is a tensor, or a trace would always write to the same one
            q, new_k, new_v = attn.queries(y).chunk(3, dim=1)
            k.narrow(2, place, 1).copy_(attn.fold.apart(new_k))
            v.narrow(2, place, 1).copy_(attn.fold.apart(new_v))
            return attn.over(q, k.flatten(0, 1), v.flatten(0, 1), behind)

        def look_over(y: Tensor) -> Tensor:
            return cross.over(cross.queries(y), memory_k.flatten(0, 1), memory_v.flatten(0, 1), absent)

        x = self.around[0](x, look_back)
        x = self.around[1](x, look_over)
        return self.around[2](x, lambda y: self.down(self.up(y).relu_()))
