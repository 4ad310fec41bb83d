"""Activation checkpointing: the same numbers, names and gradients, blocks computed twice."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from toys import gated

from regard.core.protocols import Padded
from regard.core.registry import find
from regard.core.sizes import Text
from regard.training.recompute import recompute_blocks


def gradients(model, tokens):
    torch.manual_seed(3)
    out = model(tokens)
    out.square().sum().backward()
    return out, [p.grad for p in model.parameters()]


def test_nothing_changes_but_the_work():
    tokens = torch.randint(6, (3, 5))
    torch.manual_seed(0)
    plain = gated.Gated(gated.Config(), 6)
    torch.manual_seed(0)
    other = gated.Gated(gated.Config(), 6)
    recompute_blocks(other)
    assert plain.state_dict().keys() == other.state_dict().keys()
    calls = []
    other.blocks[0].cell.register_forward_hook(lambda *_: calls.append(1))
    expected, found = gradients(plain, tokens), gradients(other, tokens)  # with dropout: the same masks are drawn again
    assert torch.equal(expected[0], found[0])
    assert all(torch.equal(a, b) for a, b in zip(expected[1], found[1], strict=True))
    assert len(calls) == 2
    with torch.no_grad():
        other(tokens)
    assert len(calls) == 3


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "luong", "seq2seq"])
def test_the_translation_models_allow_it(name):
    module, sizes = find("regard.models", name), Text(source=9, target=9, longest=8)
    source = Padded(torch.randint(4, 9, (2, 5)), torch.tensor([5, 4]))
    tokens = torch.randint(4, 9, (2, 6))

    def loss(model):
        torch.manual_seed(2)
        model(tokens, model.start(source))[0].logsumexp(-1).sum().backward()
        return [p.grad for p in model.parameters()]

    torch.manual_seed(1)
    plain: nn.Module = module.build(module.TINY, sizes)
    torch.manual_seed(1)
    other = module.build(module.TINY, sizes)
    recompute_blocks(other)
    for expected, found in zip(loss(plain), loss(other), strict=True):
        torch.testing.assert_close(expected, found)
