"""Recurrent networks: batch-first states, chunks of any size give the same result, padding has no effect."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.core.state_tree import select
from regard.layers.recurrent import RNN_CLASSES, Recurrent, RecurrentEncoder, repeat_per_hypothesis

every_cell_type = pytest.mark.parametrize("cell_type", RNN_CLASSES)


@every_cell_type
@pytest.mark.parametrize("layers", [1, 2])
def test_any_chunks(cell_type, layers):
    network, x = Recurrent(cell_type, 3, 4, num_layers=layers), torch.randn(2, 6, 3)
    whole, end = network(x, network.init_state(2, x))
    state, parts = network.init_state(2, x), []
    for piece in x.split((1, 3, 2), dim=1):
        out, state = network(piece, state)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    torch.testing.assert_close(state, end)
    assert state.hidden.shape == (2, layers, 4)
    assert state.cell.shape == (2, layers, 4 if cell_type == "lstm" else 0)


@every_cell_type
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_state_of_an_empty_sequence_is_zero(cell_type, bidirectional):
    network, x = RecurrentEncoder(cell_type, 3, 4, bidirectional=bidirectional), torch.randn(2, 5, 3)
    out, last = network(x, torch.tensor([5, 0]))
    alone, end = network(x[:1], torch.tensor([5]))
    torch.testing.assert_close(out[:1], alone)
    torch.testing.assert_close(last.hidden[:1], end.hidden)
    assert not out[1].any() and not last.hidden[1].any() and not last.cell[1].any()
    out, last = network(x[:, :0], torch.tensor([0, 0]))
    assert out.shape == (2, 0, alone.shape[2]) and not last.hidden.any()


@every_cell_type
def test_rows_of_a_state_are_rows_of_the_batch(cell_type):
    network, x = Recurrent(cell_type, 3, 4), torch.randn(3, 5, 3)
    _, state = network(x[:, :2], network.init_state(3, x))
    rows = torch.tensor([2, 0])
    out, _ = network(x[rows, 2:], select(state, rows))
    torch.testing.assert_close(out, network(x, network.init_state(3, x))[0][rows, 2:])


@every_cell_type
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_has_no_effect(cell_type, bidirectional):
    network, x = RecurrentEncoder(cell_type, 3, 4, num_layers=2, bidirectional=bidirectional), torch.randn(2, 5, 3)
    lengths = torch.tensor([5, 2])
    out, state = network(x, lengths)
    assert out.shape == (2, 5, 8 if bidirectional else 4) and not out[1, 2:].any()
    alone, alone_state = network(x[1:, :2], lengths[1:])
    torch.testing.assert_close(out[1:, :2], alone)
    torch.testing.assert_close(state.hidden[1:], alone_state.hidden)


def test_repeat_per_hypothesis():
    x = torch.arange(2)
    assert repeat_per_hypothesis(x, 2) is x
    assert repeat_per_hypothesis(x, 6).tolist() == [0, 0, 0, 1, 1, 1]


def test_weights_are_orthogonal_and_the_forget_gate_is_open_at_first():
    network = Recurrent("lstm", 3, 4).net
    for gate in network.weight_hh_l0.split(4):
        torch.testing.assert_close(gate @ gate.mT, torch.eye(4), atol=1e-5, rtol=0)
    assert (network.bias_ih_l0 + network.bias_hh_l0).tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
    assert isinstance(network, nn.LSTM)


def test_without_avx512_an_lstm_runs_in_float32(monkeypatch):
    monkeypatch.setattr("regard.layers.recurrent.has_avx512", lambda: False)
    x, network, encoder = (
        torch.randn(2, 5, 3),
        Recurrent("lstm", 3, 4),
        RecurrentEncoder("lstm", 3, 4, bidirectional=True),
    )
    lengths = torch.tensor([5, 3])
    exact = network(x, network.init_state(2, x)), encoder(x, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        autocast = network(x, network.init_state(2, x)), encoder(x, lengths)
        half = encoder(x.bfloat16(), lengths)[0]
    torch.testing.assert_close(autocast, exact, rtol=0, atol=0)
    assert half.dtype == torch.float32
