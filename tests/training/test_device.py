"""Devices; activation checkpointing and compilation do not change results."""

from __future__ import annotations

import copy
import platform

import pytest
import torch
from torch import nn
from toys import gated

from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError, DataError
from regard.core.protocols import Loss, Padded
from regard.core.registry import find
from regard.tasks import compatible_models
from regard.training import device
from regard.training.device import (
    CompiledLoss,
    enable_activation_checkpointing,
    select_device,
)

CPU = torch.device("cpu")


def test_auto_takes_what_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert select_device("auto") == select_device("cpu") == CPU
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert select_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert select_device("auto", local_rank=3) == torch.device("cuda", 1)


def test_an_unknown_device_is_refused():
    with pytest.raises(ConfigError, match=r"^device='gpu9' is not a device; choose auto, cpu, cuda or mps$"):
        select_device("gpu9")


@pytest.mark.parametrize(
    ("name", "messages"), [("cuda", "does not find a CUDA GPU; use"), ("mps", "does not find an Apple GPU; use")]
)
def test_a_named_device_that_is_missing_is_refused(monkeypatch, name, messages):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=messages):
        select_device(name)


def test_it_takes_on_glibc_and_does_nothing_elsewhere(monkeypatch):
    assert device.keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not device.keep_freed_memory()


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
    checkpointed = gated.Gated(gated.Config(), 6)
    enable_activation_checkpointing(checkpointed)
    assert plain.state_dict().keys() == checkpointed.state_dict().keys()
    calls = []
    checkpointed.blocks[0].cell.register_forward_hook(lambda *_: calls.append(1))
    expected, recomputed = gradients(plain, tokens), gradients(checkpointed, tokens)  # with the same dropout
    assert torch.equal(expected[0], recomputed[0])
    assert all(torch.equal(a, b) for a, b in zip(expected[1], recomputed[1], strict=True))
    assert len(calls) == 2
    with torch.no_grad():
        checkpointed(tokens)
    assert len(calls) == 3


def test_batch_normalisation_counts_a_batch_once():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = nn.ModuleList([nn.Linear(3, 3), nn.BatchNorm1d(3)])

        def forward(self, x):
            for step in self.steps:
                x = step(x)
            return x

    torch.manual_seed(0)
    plain, x = Normed(), torch.randn(8, 3)
    checkpointed = copy.deepcopy(plain)
    enable_activation_checkpointing(checkpointed)
    for model in (plain, checkpointed):
        model(x).square().sum().backward()
    torch.testing.assert_close(dict(plain.state_dict()), dict(checkpointed.state_dict()))


@pytest.mark.parametrize("name", compatible_models(Seq2SeqSpec))
def test_models_of_text_allow_it(name):
    module, sizes = find("regard.models", name), Seq2SeqSpec(source_vocab_size=9, target_vocab_size=9, max_length=8)
    source = Padded(torch.randint(4, 9, (2, 5)), torch.tensor([5, 4]))
    tokens = torch.randint(4, 9, (2, 6))

    def loss(model):
        torch.manual_seed(2)
        model(tokens, model.start(source))[0].logsumexp(-1).sum().backward()
        return [p.grad for p in model.parameters()]

    torch.manual_seed(1)
    plain: nn.Module = module.build(module.TINY, sizes)
    torch.manual_seed(1)
    checkpointed = module.build(module.TINY, sizes)
    enable_activation_checkpointing(checkpointed)
    for expected, recomputed in zip(loss(plain), loss(checkpointed), strict=True):
        torch.testing.assert_close(expected, recomputed)


def work(model, batch):
    return Loss(model(batch).sum(), batch.numel())


def test_it_computes_the_same(monkeypatch):
    messages = []
    plain = torch.compile
    monkeypatch.setattr(device.torch, "compile", lambda work, dynamic: plain(work, dynamic=dynamic, backend="eager"))
    fast = CompiledLoss(work, messages.append)
    for length in (3, 5):
        loss = fast(torch.nn.ReLU(), torch.linspace(-1, 1, length))
        assert loss.count == length
        torch.testing.assert_close(loss.total, work(torch.nn.ReLU(), torch.linspace(-1, 1, length)).total)
    assert messages == []


def test_a_compiler_that_fails_is_left_alone_and_says_why_once(monkeypatch):
    calls, messages = [], []

    def broken(model, batch):
        calls.append(1)
        raise RuntimeError("no C++ compiler\nand a long story")

    monkeypatch.setattr(device.torch, "compile", lambda work, dynamic: broken)
    fast = CompiledLoss(work, messages.append)
    for _ in range(3):
        assert fast(torch.nn.ReLU(), torch.ones(2)).total == 2
    assert calls == [1]
    assert messages == ["compile: failed, using the eager model: RuntimeError: no C++ compiler"]


def test_an_error_of_the_task_is_the_tasks(monkeypatch):
    def failing(model, batch):
        raise DataError("line 3 is empty")

    monkeypatch.setattr(device.torch, "compile", lambda work, dynamic: work)
    with pytest.raises(DataError, match="line 3 is empty"):
        CompiledLoss(failing, lambda text: None)(None, None)
