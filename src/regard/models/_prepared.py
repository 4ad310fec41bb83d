"""A Transformer made ready for decoding on a CPU: the same function of the same weights, without the detours.

Projections of one input are one matrix, tables are scaled beforehand, caches have room to grow in place, attention is
two small products. It is a `Decoder` as the model is, and gives every state it does not know to the model itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from regard.attention import short
from regard.attention.normalizers import Softmax
from regard.attention.scores import scaled_dot
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.tree import Shared
from regard.layers.heads import Heads
from regard.layers.residual import PreNorm

Precision = Literal["float32", "int8"]
Product = Callable[[Tensor], Tensor]  # (n d) -> (n e)
LONGEST = 128  # source tokens; beyond, the fused kernel of the model itself is better


def exact(layers: list[nn.Linear]) -> Product:
    """The layers as one product."""
    weight = layers[0].weight.mT if len(layers) == 1 else torch.cat([layer.weight for layer in layers]).mT
    biases = _biases(layers)
    if biases is None:
        turned = weight.contiguous()  # for one row twice as fast; with a bias, widths are small and it does not matter
        return lambda x: torch.mm(x, turned)
    bias = biases
    return lambda x: torch.addmm(bias, x, weight)


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


def preparable(model: nn.Module, precision: Precision) -> bool:
    """Whether `Prepared` knows all that the model is made of, and nobody watches its modules."""
    if precision not in PRODUCTS:
        raise ConfigError(f"precision={precision!r} is not known; choose one of: {', '.join(PRODUCTS)}")
    modules = list(model.modules())
    known = all(_known(module) for module in modules if isinstance(module, Heads))
    watched = any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    plain = all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in model.parameters())
    if precision != "float32" and not (known and plain):
        raise ConfigError(
            f"precision={precision} needs scaled dot products, positions added to the features and float32 weights on "
            "a CPU; this model is decoded as it is: leave the precision out"
        )
    return known and plain and not watched


def _known(heads: Heads) -> bool:
    weigh = heads.attend.weigh
    return isinstance(weigh.score, scaled_dot.Score) and isinstance(weigh.normalizer, Softmax) and not weigh.placed


class Around:
    """Norm and residual, as PreNorm and PostNorm have them."""

    def __init__(self, module: Any) -> None:
        norm: nn.LayerNorm = module.norm
        shape = list(norm.normalized_shape)
        self.pre = isinstance(module, PreNorm)
        self.norm: Product = lambda x: torch.layer_norm(x, shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, x: Tensor, sublayer: Product) -> Tensor:
        return x + sublayer(self.norm(x)) if self.pre else self.norm(x + sublayer(x))


class Attention:
    """One layer of attention: its products, one for all that come from the same input."""

    def __init__(self, heads: Heads, product: Callable[[list[nn.Linear]], Product], *, alone: bool) -> None:
        self.heads = heads.heads
        self.scale = float(heads.attend.weigh.score.scale)  # type: ignore[arg-type]  # scaled dot: it has one
        self.queries = product([heads.q, heads.k, heads.v] if alone else [heads.q])
        self.memory = None if alone else product([heads.k, heads.v])
        self.out = product([heads.o])

    def over(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Queries of the last axis (r h·d) over keys and values (b·h s d) -> (r d)."""
        q = short.fold(x, self.heads, k.shape[0] // self.heads)
        return self.out(short.unfold(short.mix(q, k, v, mask, self.scale), self.heads, x.shape[0]))


class Used:
    """How many columns of a cache's tensors are taken: only who stands at the end may write there."""

    def __init__(self, columns: int) -> None:
        self.columns = columns


class Past:
    """Keys and values of all layers behind their first `length` columns; a value, though its tensors may be shared."""

    def __init__(self, tensors: list[Tensor], length: int, used: Used | None = None) -> None:
        self.tensors = tensors  # of each layer keys and values, (r h room d)
        self.length = length
        self.used = used or Used(length)

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> Past:
        made = [change(tensor) for tensor in self.tensors]
        return self if made[0] is self.tensors[0] else Past(made, self.length)

    def longer(self) -> Past:
        """The same with one more column, to be written by the caller."""
        room, tensors, used = self.tensors[0].shape[2], self.tensors, self.used
        if self.length == room:
            tensors = [pad(tensor, (0, 0, 0, short.whole(room + 1) - room)) for tensor in tensors]
            used = Used(self.length)
        elif used.columns != self.length:  # another state has written behind this one
            tensors, used = [tensor.clone() for tensor in tensors], Used(self.length)
        used.columns += 1
        return Past(tensors, self.length + 1, used)


class Memory(NamedTuple):
    """The source as each layer sees it: keys and values (b h s d), and the mask to add (b h 1 s)."""

    keys: tuple[tuple[Tensor, Tensor], ...]
    mask: Tensor


class PreparedState(NamedTuple):
    """The past, one row a hypothesis; the source, one row a sentence."""

    past: Past
    source: Shared[Memory]


class Prepared(nn.Module):
    """The model for decoding; `start`, `features` and `readout` as the model's own."""

    def __init__(self, model: Any, precision: Precision = "float32") -> None:
        super().__init__()
        self.model = model
        self.product = product = PRODUCTS[precision]
        with torch.no_grad():
            self.encoder = [EncoderBlock(layer, product) for layer in model.encoder.layers]
            self.decoder = [DecoderBlock(layer, product) for layer in model.decoder.layers]
            self.tables = [
                side.embedding.table.weight * side.embedding.scale for side in (model.encoder, model.decoder)
            ]
            self.output = product([model.readout])
        self.places: dict[int, Tensor | None] = {}  # what is added at each place of the target, as it is asked for

    @property
    def readout(self) -> nn.Module:
        return self.model.readout  # type: ignore[no-any-return]  # a Linear

    def prepared(self, precision: Precision | None = None) -> nn.Module:
        """It is prepared."""
        return self

    @torch.no_grad()
    def start(self, source: Padded) -> Any:
        tokens, lengths = source
        (b, s), d = tokens.shape, self.tables[0].shape[1]
        if not 0 < s <= LONGEST or b == 0 or int(lengths.min()) < 1:
            return self.model.start(source)
        room, heads = short.whole(s), self.decoder[0].self_attn.heads
        mask = short.absent(lengths, room).repeat_interleave(heads, dim=0)  # (b·h 1 room)
        x = self.model.encoder.embedding.position(embedding(tokens, self.tables[0])).view(b * s, d)
        for block in self.encoder:
            x = block(x, b, mask)
        x = self.model.encoder.last(x)
        keys = tuple(block.memorize(x, b, room) for block in self.decoder)
        empty = [x.new_zeros(b, heads, short.LEAST, d // heads) for _ in range(2 * len(self.decoder))]
        return PreparedState(Past(empty, 0), Shared(Memory(keys, mask.view(b, heads, 1, room))))

    def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if not isinstance(state, PreparedState):
            found: tuple[Tensor, Any] = self.model.features(tokens, state)
            return found
        steps = []
        for step in tokens.unbind(1):
            x, state = self._step(step, state)
            steps.append(x)
        return torch.stack(steps, dim=1), state

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        x, state = self.features(tokens, state)
        return self.output(x.flatten(0, 1)).view(*x.shape[:2], -1), state

    def _step(self, tokens: Tensor, state: PreparedState) -> tuple[Tensor, PreparedState]:
        """One token (r) of each hypothesis -> (r d)."""
        past, place = state.past.longer(), state.past.length
        memory = state.source.value
        x = embedding(tokens, self.tables[1])
        added = self._place(place)
        if added is not None:
            x = x + added
        behind = short.absent(torch.tensor([place + 1]), past.tensors[0].shape[2])
        mask = memory.mask.flatten(0, 1)
        for number, block in enumerate(self.decoder):
            k, v = past.tensors[2 * number : 2 * number + 2]
            x = block(x, (k, v, place, behind), (*memory.keys[number], mask))
        x = self.model.decoder.last(x)
        return x, PreparedState(past, state.source)

    def _place(self, place: int) -> Tensor | None:
        if place not in self.places:
            position = self.model.decoder.embedding.position
            added = position.encode(torch.tensor([place]), place + 1)
            self.places[place] = None if added is None else added[0]
        return self.places[place]


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
        self, x: Tensor, past: tuple[Tensor, Tensor, int, Tensor], source: tuple[Tensor, Tensor, Tensor]
    ) -> Tensor:
        attn, cross = self.self_attn, self.cross_attn
        k, v, place, behind = past
        memory_k, memory_v, absent = source

        def look_back(y: Tensor) -> Tensor:
            q, new_k, new_v = attn.queries(y).chunk(3, dim=1)
            k[:, :, place] = new_k.view(y.shape[0], attn.heads, -1)
            v[:, :, place] = new_v.view(y.shape[0], attn.heads, -1)
            return attn.over(q, k.flatten(0, 1), v.flatten(0, 1), behind)

        def look_over(y: Tensor) -> Tensor:
            return cross.over(cross.queries(y), memory_k.flatten(0, 1), memory_v.flatten(0, 1), absent)

        x = self.around[0](x, look_back)
        x = self.around[1](x, look_over)
        return self.around[2](x, lambda y: self.down(self.up(y).relu_()))
