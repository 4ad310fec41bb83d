"""ONNX programs of speech models: the encoder of each, and the decoding step of Listen, attend and spell.

A pyramidal BiLSTM runs over padded instead of packed sequences. Each layer is one operator of ONNX, LSTM, which knows
the length of every sequence. PyTorch exports its own LSTM for one length only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.previous_weights import PreviousWeights
from regard.attention.score import ProjectedKeys
from regard.convert.onnx_program import Program
from regard.core.extras import require
from regard.core.protocols.speech import SpeechFrames
from regard.core.state_tree import Shared
from regard.layers.kv_cache import KV
from regard.layers.pyramid_encoder import PYRAMID_FACTOR, PyramidEncoder
from regard.layers.recurrent import RNNState
from regard.models.ctc import CTC
from regard.models.las import LASState, ListenAttendSpell
from regard.models.speech_transformer import SpeechTransformer

ENCODER_INPUTS = ("frames", "lengths")
ENCODER_AXES: tuple[Mapping[int, str], ...] = ({0: "rows", 1: "length"}, {0: "rows"})


class TransformerEncoderProgram(nn.Module):
    """Log-mel frames (b t m), their number (b) -> keys and values (l b h s d) of the cross-attention of each decoder
    block, and the number of states (b)."""

    def __init__(self, model: SpeechTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        caches = self.model.start(SpeechFrames(frames, lengths)).source.value
        keys, values = (torch.stack(parts) for parts in zip(*((c.k.tensor, c.v) for c in caches), strict=True))
        return keys, values, (lengths + self.model.reduction - 1) // self.model.reduction


class PyramidProgram(nn.Module):
    """Frames (b t m), their number (b) -> states (b s 2d), zeros at padding, and their number (b)."""

    def __init__(self, encoder: PyramidEncoder) -> None:
        super().__init__()
        self.stack, self.reduction = encoder.stack, encoder.reduction
        self.layers = nn.ModuleList(BidirectionalProgram(layer) for layer in encoder.layers)

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = _fill_last_group(frames, self.reduction)
        for index, layer in enumerate(self.layers):
            count = PYRAMID_FACTOR if index else self.stack
            x, lengths = x.reshape(x.shape[0], -1, count * x.shape[2]), (lengths + count - 1) // count
            x = layer(x, lengths)
        return x, lengths


class BidirectionalProgram(nn.Module):
    """Padded sequences (b s d), their lengths (b) -> states of a bidirectional LSTM (b s 2h), zeros at padding."""

    inputs: Tensor  # (2 4h d), in ONNX's order of gates
    recurrent: Tensor  # (2 4h h)
    biases: Tensor  # (2 8h)

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.register_buffer("inputs", torch.stack(_weights(layer, "weight_ih")))
        self.register_buffer("recurrent", torch.stack(_weights(layer, "weight_hh")))
        biases = zip(_weights(layer, "bias_ih"), _weights(layer, "bias_hh"), strict=True)
        self.register_buffer("biases", torch.stack([torch.cat(pair) for pair in biases]))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        states: Tensor = bidirectional_lstm(x, lengths, self.inputs, self.recurrent, self.biases)
        return states


class ListenerProgram(nn.Module):
    """Log-mel frames (b t m), their number (b) -> keys (b s d) and values (b s e) of the attention, and the number of
    states (b)."""

    def __init__(self, model: ListenAttendSpell) -> None:
        super().__init__()
        self.encoder, self.key, self.cross_attn = PyramidProgram(model.encoder), model.key, model.cross_attn

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states, lengths = self.encoder(frames, lengths)
        return self.cross_attn.project(self.key(states)[:, None]).tensor[:, 0], states, lengths


class SpellerStepProgram(nn.Module):
    """One token (b 1), the LSTM's state (b layers d) and context (b e) of the previous step, keys (b s d) and values
    (b s e), their number (b) -> logits (b v), the new state and context.

    If the score uses the weights of the previous step (b s), they are the last input and output.
    """

    def __init__(self, model: ListenAttendSpell) -> None:
        super().__init__()
        self.model = model

    def forward(  # noqa: PLR0917  # the inputs of a program are positional
        self,
        tokens: Tensor,
        hidden: Tensor,
        cell: Tensor,
        context: Tensor,
        keys: Tensor,
        values: Tensor,
        lengths: Tensor,
        weights: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        mask = Mask(keys=torch.arange(keys.shape[1]) < lengths[:, None])
        source = Shared(KV.of(ProjectedKeys(keys[:, None]), values[:, None], mask))
        previous = PreviousWeights(keys.new_zeros(len(tokens), 0) if weights is None else weights)
        logits, state = self.model(tokens, LASState(RNNState(hidden, cell), context, previous, source))
        outputs = logits[:, 0], state.rnn_state.hidden, state.rnn_state.cell, state.context
        return outputs if weights is None else (*outputs, state.previous.tensor)


class LabelProgram(nn.Module):
    """Log-mel frames (b t m), their number (b) -> log probabilities (b s v) of labels and blank, and the number of
    states (b)."""

    def __init__(self, model: CTC) -> None:
        super().__init__()
        self.encoder, self.readout = PyramidProgram(model.encoder), model.readout

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        states, lengths = self.encoder(frames, lengths)
        return self.readout.label_log_probs(states), lengths


def encoder_program(model: SpeechTransformer | ListenAttendSpell | CTC, sizes: Any) -> Program:
    """Return the program that encodes recordings."""

    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        num_frames = model.reduction * length
        lengths = num_frames - torch.arange(rows) % num_frames
        frames = torch.randn(rows, num_frames, sizes.num_bands)
        return frames * (torch.arange(num_frames) < lengths[:, None])[..., None], lengths

    if isinstance(model, SpeechTransformer):
        module, outputs = TransformerEncoderProgram(model), ("source_keys", "source_values", "state_lengths")
        return Program(module.eval(), inputs, ENCODER_INPUTS, outputs, ENCODER_AXES)
    if isinstance(model, ListenAttendSpell):
        listener, outputs = ListenerProgram(model), ("source_keys", "source_values", "state_lengths")
        return Program(listener.eval(), inputs, ENCODER_INPUTS, outputs, ENCODER_AXES)
    return Program(LabelProgram(model).eval(), inputs, ENCODER_INPUTS, ("log_probs", "state_lengths"), ENCODER_AXES)


def speller_program(model: ListenAttendSpell, sizes: Any) -> Program:
    """Return the program that predicts one token."""
    net, width = model.decoder.net, model.key.in_features
    has_weights = model.cross_attn.weigh.score.uses_previous_weights

    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        step_inputs = (
            torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (rows, 1)),
            *(torch.randn(2, rows, net.num_layers, net.hidden_size) * 0.1).unbind(),
            torch.randn(rows, width) * 0.1,
            torch.randn(rows, length, model.key.out_features) * 0.1,
            torch.randn(rows, length, width) * 0.1,
            torch.arange(rows) % length + 1,
        )
        weights = torch.rand(rows, length)
        return (*step_inputs, weights / weights.sum(dim=1, keepdim=True)) if has_weights else step_inputs

    row: Mapping[int, str] = {0: "rows"}
    both: Mapping[int, str] = {0: "rows", 1: "length"}
    names = ["tokens", "hidden", "cell", "context", "source_keys", "source_values", "lengths"]
    outputs = ["logits", "new_hidden", "new_cell", "new_context"]
    axes = [row, row, row, row, both, both, row]
    if has_weights:
        names, outputs, axes = [*names, "weights"], [*outputs, "new_weights"], [*axes, both]
    return Program(SpellerStepProgram(model).eval(), inputs, tuple(names), tuple(outputs), tuple(axes))


def _fill_last_group(x: Tensor, count: int) -> Tensor:
    """(b t d) -> (b ⌈t/count⌉·count d), zeros at the end.

    A symbolic length after a division and a cut gave programs of wrong shapes; the number of groups is that of a slice.
    """
    group = torch.ones_like(x[0, ::count, 0], dtype=torch.long).cumsum(dim=0) - 1
    indices = (group[:, None] * count + torch.arange(count)).flatten()
    is_inside = indices < x.shape[1]
    return x.index_select(1, torch.where(is_inside, indices, 0)) * is_inside[:, None]


def _weights(layer: Any, name: str) -> list[Tensor]:
    """Return a weight of each direction, with the gates in the order of ONNX: input, output, forget, cell."""
    both = [layer.net.get_parameter(f"{name}_l0{suffix}").detach() for suffix in ("", "_reverse")]
    return [torch.cat([weight.chunk(4)[gate] for gate in (0, 3, 1, 2)]) for weight in both]


@torch.library.custom_op("regard::bidirectional_lstm", mutates_args=())
def bidirectional_lstm(x: Tensor, lengths: Tensor, inputs: Tensor, recurrent: Tensor, biases: Tensor) -> Tensor:
    """The operator LSTM of ONNX for padded sequences (b s d), step by step: the definition for the comparison."""
    directions = []
    for weight, state_weight, bias, steps in zip(
        inputs,
        recurrent,
        biases.unflatten(1, (2, -1)).sum(dim=1),
        (range(x.shape[1]), range(x.shape[1])[::-1]),
        strict=True,
    ):
        hidden = cell = x.new_zeros(x.shape[0], recurrent.shape[2])
        outputs = x.new_zeros(x.shape[0], x.shape[1], recurrent.shape[2])
        for step in steps:
            enter, leave, forget, new = (x[:, step] @ weight.T + hidden @ state_weight.T + bias).chunk(4, dim=-1)
            is_inside = (step < lengths)[:, None]
            cell = torch.where(is_inside, forget.sigmoid() * cell + enter.sigmoid() * new.tanh(), cell)
            hidden = torch.where(is_inside, leave.sigmoid() * cell.tanh(), hidden)
            outputs[:, step] = hidden * is_inside
        directions.append(outputs)
    return torch.cat(directions, dim=-1)


@bidirectional_lstm.register_fake
def _shape_of_states(x: Tensor, lengths: Tensor, inputs: Tensor, recurrent: Tensor, biases: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], 2 * recurrent.shape[2])


def translations() -> dict[Any, Any]:
    """Return the operators of ONNX for the operators of this module."""
    operators = require("onnxscript", extra="onnx").opset18

    def translate(x: Any, lengths: Any, inputs: Any, recurrent: Any, biases: Any) -> Any:
        size = int(recurrent.shape[2])
        by_step = operators.Transpose(x, perm=[1, 0, 2])
        counts = operators.Cast(lengths, to=6)  # int32
        states, _, _ = operators.LSTM(
            by_step, inputs, recurrent, biases, counts, direction="bidirectional", hidden_size=size
        )  # (s 2 b h)
        shape = operators.Constant(value_ints=[0, 0, 2 * size])
        return operators.Reshape(operators.Transpose(states, perm=[2, 0, 1, 3]), shape)

    return {torch.ops.regard.bidirectional_lstm.default: translate}
