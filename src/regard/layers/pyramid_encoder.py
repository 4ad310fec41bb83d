"""Pyramidal BiLSTM: Chan et al. 2016, section 3.1. Each pyramid layer joins adjacent states and halves their number."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import pad

from regard.layers.dropout import Dropout
from regard.layers.packed_rnn import BidirectionalRNN, make_packing

PYRAMID_FACTOR = 2  # states that a pyramid layer joins


class PyramidEncoder(nn.Module):
    """Frames (b t m) and lengths -> states (b s 2d) and their lengths, where s is t divided by `reduction`."""

    def __init__(self, input_size: int, dim: int, *, stack: int, pyramid_layers: int, dropout: float) -> None:
        super().__init__()
        self.stack, self.reduction = stack, stack * PYRAMID_FACTOR**pyramid_layers
        widths = [input_size * stack, *[2 * dim * PYRAMID_FACTOR] * pyramid_layers]
        self.layers = nn.ModuleList(BidirectionalRNN("lstm", width, dim) for width in widths)
        self.dropout = Dropout(dropout)

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, lengths = join_adjacent(frames, lengths, self.stack)
        for index, layer in enumerate(self.layers):
            if index:
                x, lengths = join_adjacent(x, lengths, PYRAMID_FACTOR)
            packing = make_packing(lengths, x.shape[1])
            x = self.dropout(packing.pad(layer(packing.pack(x), packing), (x.shape[0], x.shape[1])))
        return x, lengths


def join_adjacent(x: Tensor, lengths: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(b t d) -> (b ⌈t/count⌉ count·d): concatenate adjacent vectors; zeros fill the last group."""
    if count == 1:
        return x, lengths
    x = pad(x, (0, 0, 0, -x.shape[1] % count))
    return x.reshape(x.shape[0], -1, count * x.shape[2]), (lengths + count - 1) // count
