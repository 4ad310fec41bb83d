"""What can be sharded by itself is found by watching: its weights are used in its forward and nowhere else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.core.protocols import Padded
from regard.core.registry import find
from regard.core.sizes import Text
from regard.training import units as sharding
from regard.training.units import blocks, units


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 20)
        self.door = nn.Linear(20, 20)
        self.scale = nn.Parameter(torch.ones(20))

    def forward(self, x):
        return self.inner(x) * self.scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.readout = nn.Linear(20, 20)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.readout(x)


def test_blocks_are_the_outermost_members_of_module_lists():
    model = Model()
    model.blocks[0].deeper = nn.ModuleList([nn.Linear(2, 2)])
    assert blocks(model) == list(model.blocks)


def test_a_block_entered_by_its_forward_is_one_unit():
    model = Model()
    assert units(model, lambda: model(torch.ones(1, 20))) == list(model.blocks)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_block_with_another_door_is_taken_apart():
    model = Model()

    def work():
        model.blocks[0].door(torch.ones(20))  # a module of the block, from outside
        return model(torch.ones(1, 20) * model.blocks[1].scale)  # a weight of the block, from outside

    inner, door = model.blocks[0].inner, model.blocks[0].door
    assert units(model, work) == [inner, door, model.blocks[1].inner, model.blocks[1].door]


def test_small_parts_and_tied_weights_are_left_to_the_root(monkeypatch):
    model = Model()
    model.blocks[1].inner.weight = model.readout.weight
    assert units(model, lambda: model(torch.ones(1, 20))) == [model.blocks[0], model.blocks[1].door]
    monkeypatch.setattr(sharding, "SMALLEST", 10_000)
    assert units(model, lambda: model(torch.ones(1, 20))) == []


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "luong", "seq2seq"])
def test_the_units_of_the_translation_models_do_not_overlap(name):
    module, sizes = find("regard.models", name), Text(source=9, target=9, longest=8)
    model = module.build(module.TINY, sizes)
    source = Padded(torch.randint(4, 9, (2, 5)), torch.tensor([5, 4]))
    found = units(model, lambda: model(torch.randint(4, 9, (2, 6)), model.start(source)))
    weights = [id(weight) for unit in found for weight in unit.parameters()]
    assert len(weights) == len(set(weights))
    if name == "transformer":
        assert set(model.encoder.layers) <= set(found)
        assert not set(model.decoder.layers) & set(found)  # their keys are made before the decoder starts
