"""Compiling is tried, and where it fails the plain path goes on with one line that says why."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import DataError
from regard.core.protocols import Loss
from regard.training import compiled
from regard.training.compiled import Compiled


def work(model, batch):
    return Loss(model(batch).sum(), batch.numel())


def test_it_computes_the_same(monkeypatch):
    said = []
    plain = torch.compile
    monkeypatch.setattr(compiled.torch, "compile", lambda work, dynamic: plain(work, dynamic=dynamic, backend="eager"))
    fast = Compiled(work, said.append)
    for length in (3, 5):
        found = fast(torch.nn.ReLU(), torch.linspace(-1, 1, length))
        assert found.count == length
        torch.testing.assert_close(found.total, work(torch.nn.ReLU(), torch.linspace(-1, 1, length)).total)
    assert said == []


def test_a_compiler_that_fails_is_left_alone_and_says_why_once(monkeypatch):
    calls, said = [], []

    def broken(model, batch):
        calls.append(1)
        raise RuntimeError("no C++ compiler\nand a long story")

    monkeypatch.setattr(compiled.torch, "compile", lambda work, dynamic: broken)
    fast = Compiled(work, said.append)
    for _ in range(3):
        assert fast(torch.nn.ReLU(), torch.ones(2)).total == 2
    assert calls == [1]
    assert said == ["compile: not used, the plain path goes on: RuntimeError: no C++ compiler"]


def test_an_error_of_the_task_is_the_tasks(monkeypatch):
    def wrong(model, batch):
        raise DataError("line 3 is empty")

    monkeypatch.setattr(compiled.torch, "compile", lambda work, dynamic: work)
    with pytest.raises(DataError, match="line 3 is empty"):
        Compiled(wrong, lambda text: None)(None, None)
