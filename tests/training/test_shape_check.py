"""Every registered model can be built on the meta device, and never larger than its weights file."""

from __future__ import annotations

import sys
import threading
import typing
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.core.errors import CheckpointError
from regard.core.registry import find, registered_names
from regard.training.shape_check import check_same_shapes, check_shapes, named_weights

sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))

from model_examples import FAMILIES  # after the path is set

WHERE = {"config": Path("config.json"), "weights": Path("model.safetensors")}


def builders(name):
    module = find("regard.models", name)
    hint = typing.get_type_hints(module.build)["sizes"]
    for family in typing.get_args(hint) or (hint,):
        sizes = FAMILIES[family]
        sizes = sizes[0] if isinstance(sizes, tuple) else sizes
        yield lambda sizes=sizes: module.build(module.TINY, sizes)


def shapes_of(model):
    return {name: tuple(tensor.shape) for name, tensor in named_weights(model).items()}


@pytest.mark.parametrize("name", registered_names("regard.models"))
def test_every_model_can_be_built_without_memory(name):
    for build in builders(name):
        complete = build()
        with torch.device("meta"):
            bare = build()
        assert shapes_of(bare) == shapes_of(complete)
        assert all(weight.device.type == "meta" for weight in bare.parameters())
        check_shapes(build, shapes_of(complete), **WHERE)


def test_building_stops_when_there_is_more_than_the_weights_are_for():
    built = []

    def endless():
        return nn.Sequential(*(built.append(1) or nn.Linear(2, 2) for _ in range(10**7)))

    with pytest.raises(CheckpointError, match=r"larger than model\.safetensors \(6 values in 2 tensors\); one"):
        check_shapes(endless, {"0.weight": (2, 2), "0.bias": (2,)}, **WHERE)
    assert len(built) < 10_000


def test_another_thread_may_build_what_it_likes():
    def build():
        thread = threading.Thread(target=lambda: nn.Sequential(*(nn.Linear(1, 1) for _ in range(3000))))
        thread.start()
        thread.join()
        return nn.Linear(2, 2)

    check_shapes(build, {"weight": (2, 2), "bias": (2,)}, **WHERE)


def test_tables_beside_the_weights_are_bounded():
    def build():
        model = nn.Linear(2, 2)
        model.register_buffer("table", torch.zeros(10**6, 10**6), persistent=False)
        return model

    with pytest.raises(CheckpointError, match=r"has unsaved buffers of 1,000,000,000,000 values"):
        check_shapes(build, {"weight": (2, 2), "bias": (2,)}, **WHERE)


def test_a_model_that_cannot_be_built_without_memory_is_compared_later():
    def build():
        return nn.Linear(2, int(torch.ones(1).item()))

    check_shapes(build, {"weight": (7, 7)}, **WHERE)


def test_what_does_not_fit_is_named():
    with pytest.raises(CheckpointError, match=r"missing a; unknown b"):
        check_same_shapes({"a": (1,)}, {"b": (1,)}, Path("x"))
    with pytest.raises(
        CheckpointError, match=r"x: does not fit the model: a is \(2,\) in the file, \(1,\) in the model"
    ):
        check_same_shapes({"a": (1,)}, {"a": (2,)}, Path("x"))
