"""Devices and number formats: chosen where auto, refused in words where they cannot be had."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import ConfigError
from regard.training import device
from regard.training.device import autocast, has_bfloat16, number_format, pick

CPU = torch.device("cpu")


def test_auto_takes_what_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert pick("auto") == pick("cpu") == CPU
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick("auto", local_rank=3) == torch.device("cuda", 1)


@pytest.mark.parametrize(("name", "said"), [("cuda", "no CUDA GPU here; use"), ("mps", "no Apple GPU here; use")])
def test_a_named_device_that_is_missing_is_refused(monkeypatch, name, said):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=said):
        pick(name)


def test_bfloat16_is_never_used_on_a_cpu_without_it(monkeypatch):
    monkeypatch.setattr(device, "_processor_flags", lambda: {"avx2"})
    assert number_format("auto", CPU) == number_format("float32", CPU) == torch.float32
    with pytest.raises(ConfigError, match=r"this cpu has no native bfloat16 .* use 'float32'"):
        number_format("bfloat16", CPU)


def test_bfloat16_on_a_cpu_that_has_it_must_be_asked_for(monkeypatch):
    monkeypatch.setattr(device, "_processor_flags", lambda: {"avx512_bf16"})
    assert number_format("auto", CPU) == torch.float32
    assert number_format("bfloat16", CPU) == torch.bfloat16
    with autocast(CPU, torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with autocast(CPU, torch.float32):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_a_gpu_uses_it_where_it_is_native(monkeypatch):
    gpu = torch.device("cuda")
    for native in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, native=native: native)
        assert has_bfloat16(gpu) == native
        assert number_format("auto", gpu) == (torch.bfloat16 if native else torch.float32)
    assert not has_bfloat16(torch.device("mps"))


def test_the_processor_s_flags_are_words():
    assert all(" " not in flag for flag in device._processor_flags())
