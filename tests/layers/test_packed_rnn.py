"""Packed bidirectional networks equal PyTorch's in outputs and gradients."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

from regard.layers.packed_rnn import BidirectionalRNN, make_packing

LENGTHS = torch.tensor([3, 1, 0, 5, 3])


def test_packing_and_padding_are_inverse():
    x = torch.randn(5, 6, 2)
    packing = make_packing(LENGTHS, 6)
    mask = torch.arange(6) < LENGTHS[:, None]
    assert torch.equal(packing.pad(packing.pack(x), (5, 6)), x * mask[..., None])
    assert sum(packing.batch_sizes) == int(LENGTHS.sum()) == len(packing.indices)


def test_reversed_indices_reverse_each_sequence():
    packing = make_packing(LENGTHS, 6)
    steps = torch.arange(6).expand(5, 6)
    mirrored = packing.pad(packing.pack(steps)[packing.reversed_indices], (5, 6))
    for row, length in enumerate(LENGTHS.tolist()):
        assert mirrored[row, :length].tolist() == list(range(length))[::-1]


def test_nothing_to_pack():
    packing = make_packing(torch.zeros(2, dtype=torch.long), 3)
    assert packing.batch_sizes == [] and packing.pad(packing.pack(torch.ones(2, 3, 1)), (2, 3)).sum() == 0
    assert BidirectionalRNN("gru", 1, 2)(torch.ones(0, 1), packing).shape == (0, 4)


@pytest.mark.parametrize("cell_type", ["gru", "lstm"])
def test_outputs_and_gradients_equal_pytorch(cell_type):
    net = BidirectionalRNN(cell_type, 7, 4).double()
    packing = make_packing(LENGTHS, 6)
    x = torch.randn(len(packing.indices), 7, dtype=torch.double, requires_grad=True)
    actual = net(x, packing)
    expected = net.net(PackedSequence(x, torch.tensor(packing.batch_sizes)))[0].data
    torch.testing.assert_close(actual, expected)
    weights = torch.randn_like(actual)
    leaves = [x, *net.parameters()]
    gradients, expected_gradients = (torch.autograd.grad((out * weights).sum(), leaves) for out in (actual, expected))
    for a, b in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("cell_type", ["gru", "lstm"])
def test_under_compilation_pytorchs_network_is_used(cell_type, monkeypatch):
    net, packing = BidirectionalRNN(cell_type, 3, 4), make_packing(LENGTHS, 6)
    x = torch.randn(len(packing.indices), 3)
    plain = net(x, packing)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(net(x, packing), plain)
