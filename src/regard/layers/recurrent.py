"""Recurrent networks with batch-first inputs, outputs and states: Elman 1990, LSTM (Hochreiter and Schmidhuber 1997),
GRU (Cho et al. 2014)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.layers.linear import has_avx512


class LSTM(nn.LSTM):
    """nn.LSTM; under autocast on a CPU it runs in float32 unless oneDNN has 512-bit vectors, which half precision
    needs."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        x = input.data if isinstance(input, PackedSequence) else input
        if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu") or has_avx512():
            return super().forward(input, hx)
        with torch.autocast("cpu", enabled=False):
            return super().forward(input.float(), None if hx is None else tuple(part.float() for part in hx))


CellType = Literal["rnn", "lstm", "gru"]
RNN_CLASSES: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": LSTM, "gru": nn.GRU}


class RNNState(NamedTuple):
    """State of a recurrent network, one row per sequence."""

    hidden: Tensor  # (b layers d)
    cell: Tensor  # (b layers d), or (b layers 0) for networks without cells


class Recurrent(nn.Module):
    """Unidirectional recurrent layers: (b t d) and a state -> (b t d) and the state after them."""

    def __init__(
        self, cell_type: CellType, input_size: int, dim: int, *, num_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        layer_dropout = dropout if num_layers > 1 else 0.0
        self.net = RNN_CLASSES[cell_type](
            input_size, dim, num_layers=num_layers, batch_first=True, dropout=layer_dropout
        )
        _init_weights(self.net)

    def forward(self, x: Tensor, state: RNNState) -> tuple[Tensor, RNNState]:
        out, after = self.net(x, _to_torch(state, self.net))
        return out, from_torch(after)

    def init_state(self, batch_size: int, like: Tensor) -> RNNState:
        """Return the zero state."""
        hidden = like.new_zeros(batch_size, self.net.num_layers, self.net.hidden_size)
        return RNNState(hidden, hidden if isinstance(self.net, nn.LSTM) else hidden[..., :0])


class RecurrentEncoder(nn.Module):
    """Padded sequences (b s d) -> outputs (b s d·directions), and the last state of each direction."""

    def __init__(
        self,
        cell_type: CellType,
        input_size: int,
        dim: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        layer_dropout = dropout if num_layers > 1 else 0.0
        self.net = RNN_CLASSES[cell_type](
            input_size, dim, num_layers=num_layers, batch_first=True, dropout=layer_dropout, bidirectional=bidirectional
        )
        _init_weights(self.net)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, RNNState]:
        width, cpu_lengths = x.shape[1], lengths.cpu()
        x = x if width else x.new_zeros(x.shape[0], 1, x.shape[2])
        packed = pack_padded_sequence(x, cpu_lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        out, after = self.net(packed)
        padded, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        state = from_torch(after)
        if bool((cpu_lengths == 0).any()):  # torch reads at least one step; the state of an empty sequence is zero
            is_nonempty = (lengths > 0)[:, None, None]
            padded, state = padded * is_nonempty, RNNState(*(part * is_nonempty for part in state))
        return padded[:, :width], state


def repeat_per_hypothesis(x: Tensor, rows: int) -> Tensor:
    """One row per source (b …) -> one row per hypothesis (b·w …)."""
    return x if x.shape[0] == rows else x.repeat_interleave(rows // x.shape[0], dim=0)


def _to_torch(state: RNNState, net: nn.RNNBase) -> Tensor | tuple[Tensor, Tensor]:
    hidden = state.hidden.transpose(0, 1).contiguous()  # torch expects (layers b d)
    return (hidden, state.cell.transpose(0, 1).contiguous()) if isinstance(net, nn.LSTM) else hidden


def from_torch(after: Tensor | tuple[Tensor, Tensor]) -> RNNState:
    """Return the last state of a network of PyTorch with the batch first."""
    if isinstance(after, tuple):
        return RNNState(after[0].transpose(0, 1), after[1].transpose(0, 1))
    hidden = after.transpose(0, 1)
    return RNNState(hidden, hidden[..., :0])


def _init_weights(net: nn.RNNBase) -> None:
    """Initialize recurrent weights orthogonally per gate, input weights by Glorot, and the forget gate's bias
    with 1."""
    for name, weight in net.named_parameters():
        if "weight_hh" in name:
            for gate in weight.data.split(net.hidden_size):
                nn.init.orthogonal_(gate)
        elif "weight_ih" in name:
            nn.init.xavier_uniform_(weight)
        else:
            nn.init.zeros_(weight)
            if isinstance(net, nn.LSTM) and "bias_ih" in name:
                torch.nn.init.ones_(weight.data[net.hidden_size : 2 * net.hidden_size])
