import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

from regard.layers.packed_rnn import BidirectionalRNN, make_packing

LENGTHS = torch.tensor([3, 1, 0, 5, 3])


def test_packing_and_padding_are_inverse():
    x = torch.randn(5, 6, 2)
    how = make_packing(LENGTHS, 6)
    there = torch.arange(6) < LENGTHS[:, None]
    assert torch.equal(how.pad(how.pack(x), (5, 6)), x * there[..., None])
    assert sum(how.batch_sizes) == int(LENGTHS.sum()) == len(how.indices)


def test_the_mirror_turns_each_sequence_round():
    how = make_packing(LENGTHS, 6)
    steps = torch.arange(6).expand(5, 6)
    turned = how.pad(how.pack(steps)[how.reversed_indices], (5, 6))
    for row, length in enumerate(LENGTHS.tolist()):
        assert turned[row, :length].tolist() == list(range(length))[::-1]


def test_nothing_to_pack():
    how = make_packing(torch.zeros(2, dtype=torch.long), 3)
    assert how.batch_sizes == [] and how.pad(how.pack(torch.ones(2, 3, 1)), (2, 3)).sum() == 0
    assert BidirectionalRNN("gru", 1, 2)(torch.ones(0, 1), how).shape == (0, 4)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_outputs_and_gradients_are_those_of_pytorch(kind):
    net = BidirectionalRNN(kind, 7, 4).double()
    how = make_packing(LENGTHS, 6)
    x = torch.randn(len(how.indices), 7, dtype=torch.double, requires_grad=True)
    ours = net(x, how)
    theirs = net.net(PackedSequence(x, torch.tensor(how.batch_sizes)))[0].data
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    wanted = [x, *net.parameters()]
    one, two = (torch.autograd.grad((out * weights).sum(), wanted) for out in (ours, theirs))
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_compiled_it_is_pytorchs_own(kind, monkeypatch):
    net, how = BidirectionalRNN(kind, 3, 4), make_packing(LENGTHS, 6)
    x = torch.randn(len(how.indices), 3)
    plain = net(x, how)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(net(x, how), plain)
