"""Precision auto: bfloat16 where it is native, faster and agrees; a fallback that loses no step; resuming."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.training import log, precision
from regard.training import step as steps
from regard.training.precision import agrees, autocast, has_bfloat16, resolve_dtype, resume_dtype
from regard.training.train import resume, train

CPU, GPU = torch.device("cpu"), torch.device("cuda")
LARGE = nn.Linear(500, 400)


@pytest.fixture
def native(monkeypatch):
    """A CPU that supports bfloat16, and no lower limit of the sizes."""
    monkeypatch.setattr(precision, "_cpu_flags", lambda: {"avx512_bf16"})
    monkeypatch.setattr(precision, "MIN_WEIGHTS", 1)
    monkeypatch.setattr(precision, "MIN_RECURRENT_SIZE", 1)


def rows(path):
    return log.read_rows(path / "log.jsonl")[1:]  # without the id of the run


def test_bfloat16_is_never_used_on_a_cpu_without_it(monkeypatch):
    monkeypatch.setattr(precision, "_cpu_flags", lambda: {"avx2"})
    assert resolve_dtype("auto", CPU, LARGE) == resolve_dtype("float32", CPU, LARGE) == torch.float32
    with pytest.raises(ConfigError, match=r"not supported natively by this cpu .* use 'float32'"):
        resolve_dtype("bfloat16", CPU, LARGE)


@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        (LARGE, torch.bfloat16),
        (nn.Linear(50, 40), torch.float32),
        (nn.Embedding(5000, 400), torch.float32),
        (nn.GRU(600, 511), torch.float32),
        (nn.GRU(600, 512), torch.bfloat16),
    ],
)
def test_auto_on_a_cpu_follows_the_model(monkeypatch, model, dtype):
    monkeypatch.setattr(precision, "_cpu_flags", lambda: {"avx512_bf16"})
    assert resolve_dtype("auto", CPU, model) == dtype
    assert resolve_dtype("bfloat16", CPU, model) == torch.bfloat16


def test_autocast_of_float32_changes_nothing():
    for dtype in (torch.bfloat16, torch.float32):
        with autocast(CPU, dtype):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_a_gpu_uses_it_where_it_is_native(monkeypatch):
    for is_native in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, native=is_native: native)
        assert has_bfloat16(GPU) == is_native
        assert resolve_dtype("auto", GPU, LARGE) == (torch.bfloat16 if is_native else torch.float32)
    assert not has_bfloat16(torch.device("mps"))


def test_a_resumed_run_keeps_its_format_if_the_device_supports_it(monkeypatch, native):
    assert resume_dtype("auto", CPU, LARGE, used="bfloat16") == torch.bfloat16
    assert resume_dtype("auto", CPU, LARGE, used="float32") == torch.float32
    assert resume_dtype("auto", CPU, LARGE, used="") == torch.float32  # as in earlier versions
    assert resume_dtype("bfloat16", CPU, LARGE, used="float32") == torch.bfloat16
    monkeypatch.setattr(precision, "_cpu_flags", set)
    assert resume_dtype("auto", CPU, LARGE, used="bfloat16") == torch.float32


def test_the_processor_s_flags_are_words():
    assert all(" " not in flag for flag in precision._cpu_flags())


def test_losses_agree_within_the_tolerance():
    assert agrees(101.0, 100.0, count=10) and not agrees(101.1, 100.0, count=10)
    assert agrees(1.05, 1.0, count=10) and not agrees(1.15, 1.0, count=10)
    assert not agrees(math.nan, 1.0, count=10) and not agrees(math.inf, 1.0, count=10)
    assert agrees(math.nan, math.nan, count=10) and agrees(1.0, math.inf, count=10)


def test_a_resumed_run_in_bfloat16_equals_an_uninterrupted_one(toy, tmp_path, silent, native):
    train(toy(), tmp_path / "whole", console=silent)
    train(toy("training.steps=5"), tmp_path / "parts", console=silent)
    resume(tmp_path / "parts", ["training.steps=12"], console=silent)
    whole = rows(tmp_path / "whole")
    assert whole[0] == {"step": 0, "precision": "bfloat16"}
    train(toy("training.hardware.precision=float32"), tmp_path / "float32", console=silent)
    float32 = rows(tmp_path / "float32")
    assert float32[0] == {"step": 0, "precision": "float32"} and float32[1]["loss"] != whole[1]["loss"]
    assert [row for row in whole if "lr" in row][-1] == [row for row in rows(tmp_path / "parts") if "lr" in row][-1]


def test_a_fallback_loses_no_step(toy, tmp_path, silent, native, monkeypatch):
    monkeypatch.setattr(steps, "agrees", lambda *args, **kwargs: False)
    train(toy(), tmp_path / "auto", console=silent)
    train(toy("training.hardware.precision=float32"), tmp_path / "float32", console=silent)
    auto, float32 = rows(tmp_path / "auto"), rows(tmp_path / "float32")
    assert [row.get("precision") for row in auto[:3]] == ["bfloat16", "float32", None]
    assert auto[2:] == float32[1:]


def test_a_run_that_fell_back_is_resumed_in_float32(toy, tmp_path, silent, native, monkeypatch):
    monkeypatch.setattr(steps, "agrees", lambda *args, **kwargs: False)
    train(toy("training.steps=2"), tmp_path / "parts", console=silent)
    monkeypatch.undo()
    resume(tmp_path / "parts", ["training.steps=12"], console=silent)
    train(toy("training.hardware.precision=float32"), tmp_path / "whole", console=silent)
    last = [[row for row in rows(tmp_path / name) if "lr" in row][-1] for name in ("parts", "whole")]
    assert last[0] == last[1]


def test_buffers_are_restored_after_each_check(toy, tmp_path, silent, native, monkeypatch):
    """Batch statistics must count a step once, although its loss is computed twice."""
    calls = []
    monkeypatch.setattr(steps, "_restore", lambda buffers: calls.append(1))
    train(toy(), tmp_path / "run", console=silent)
    assert len(calls) == sum(step <= 12 for step in steps.CHECKED_STEPS)
