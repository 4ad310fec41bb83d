"""A Transformer made ready for decoding on a CPU: the same function of the same weights, without the detours.

Projections of one input are one matrix, tables are scaled beforehand, caches have room to grow in place, attention is
two small products. It is a `Decoder` as the model is, and gives every state it does not know to the model itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
from regard.models._blocks import PRODUCTS, DecoderBlock, EncoderBlock, Output, Precision, normalised

SCORES = 2**25  # numbers that a layer of the encoder may hold at once; for more, the model's own kernel is better


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

    def tensors(self) -> list[Tensor]:
        """Keys and values, layer by layer."""
        return [side for layer in self.keys for side in layer]


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
            self.last = normalised(model.decoder.last)
            self.readout = Output(model.readout, product)
        self.train(model.training)  # what is set on this one is set on the model, so they begin alike
        self.places: dict[tuple[int, int], tuple[Tensor, ...]] = {}  # what belongs to a place, as it is asked for

    def for_decoding(self, precision: Precision | None = None) -> nn.Module:
        """It is prepared."""
        return self

    @torch.no_grad()
    def start(self, source: Padded) -> Any:
        tokens, lengths = source
        (b, s), d = tokens.shape, self.tables[0].shape[1]
        heads = self.decoder[0].self_attn.heads
        if not 0 < b * heads * s * s <= SCORES or int(lengths.min()) < 1:
            return self.model.start(source)
        room = short.whole(s)
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
        return self.readout(x), state

    def _step(self, tokens: Tensor, state: PreparedState) -> tuple[Tensor, PreparedState]:
        """One token (r) of each hypothesis -> (r d)."""
        past, memory = state.past.longer(), state.source.value
        place = self._place(state.past.length, past.tensors[0].shape[2])
        given = (tokens, memory.mask.flatten(0, 1), *past.tensors, *memory.tensors(), *place)
        return self.run(*given), PreparedState(past, state.source)

    def run(self, tokens: Tensor, absent: Tensor, *tensors: Tensor) -> Tensor:
        """A step as a function of tensors alone: keys and values of the past and of the source, and the place."""
        layers = len(self.decoder)
        place, behind, *added = tensors[4 * layers :]
        x = embedding(tokens, self.tables[1])
        x = x + added[0] if added else x
        for number, block in enumerate(self.decoder):
            k, v = tensors[2 * number : 2 * number + 2]
            source_k, source_v = tensors[2 * (layers + number) : 2 * (layers + number) + 2]
            x = block(x, (k, v, place, behind), (source_k, source_v, absent))
        return self.last(x)

    def _place(self, place: int, room: int) -> tuple[Tensor, ...]:
        """The place as a tensor, the mask of what is behind it in a cache with room, and what is added to features."""
        if (place, room) not in self.places:
            where = torch.tensor([place])
            added = self.model.decoder.embedding.position.encode(where, place + 1)
            rest = () if added is None else (added[0],)
            self.places[place, room] = (where[0], short.absent(where + 1, room), *rest)
        return self.places[place, room]
