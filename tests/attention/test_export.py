"""Exported programs work for every length with any score, mask and position bias; traces handle fully masked rows."""

from __future__ import annotations

import pytest
import torch
from onnxruntime import InferenceSession
from torch import nn

from regard.attention import functional, scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.layers.positions import build as position

MAX_LENGTH = 4096
CASES = {  # score, mask, position encoding
    "full": ("scaled_dot", Mask(), "none"),
    "causal": ("scaled_dot", Mask.causal(), "none"),
    "windowed": ("scaled_dot", Mask.causal() & Mask.local(back=5), "none"),
    "relative": ("scaled_dot", Mask.causal(), "relative"),
    "additive": ("additive", Mask.causal(), "none"),
}


class SingleAttention(nn.Module):
    def __init__(self, score, mask, position_name):
        super().__init__()
        self.attend = Attend(
            scores.build(score, 4), position_bias=position(position_name, 8, max_length=7).position_bias(heads=2, dim=4)
        )
        self.mask = mask

    def forward(self, q, k, v):
        return self.attend(q, self.attend.project(k), v, self.mask)


def inputs(n):
    return tuple(torch.randn(1, 2, n, 4) for _ in range(3))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_program_for_every_length(case):
    model = SingleAttention(*case).eval()
    length = torch.export.Dim("length", min=1, max=MAX_LENGTH)
    program = torch.export.export(model, inputs(8), dynamic_shapes=[{2: length}] * 3)
    (limits,) = program.range_constraints.values()
    assert (limits.lower, limits.upper) == (1, MAX_LENGTH)
    exported = program.module()
    for n in (1, 2, 6, 64, 65, 300):
        tensors = inputs(n)
        torch.testing.assert_close(exported(*tensors), model(*tensors), msg=f"length {n}")


class AllCases(nn.Module):
    """All cases in one module, which is exported as one program to save time."""

    def __init__(self):
        super().__init__()
        self.cases = nn.ModuleList(SingleAttention(*case) for case in CASES.values())

    def forward(self, q, k, v):
        return tuple(case(q, k, v) for case in self.cases)


@pytest.mark.filterwarnings("ignore:.isinstance.treespec:FutureWarning")  # raised inside the exporter of PyTorch
@pytest.mark.filterwarnings("ignore:# The axis name:UserWarning")  # the three inputs share one length
def test_onnx_for_every_length(tmp_path):
    model, path = AllCases().eval(), tmp_path / "attention.onnx"
    length = torch.export.Dim("length", min=1, max=MAX_LENGTH)
    names = {"input_names": ["q", "k", "v"], "output_names": list(CASES)}
    torch.onnx.export(model, inputs(8), path, dynamic_shapes=[{2: length}] * 3, dynamo=True, verbose=False, **names)
    session = InferenceSession(path)
    for n in (1, 2, 65, 300):
        tensors = inputs(n)
        outputs = session.run(None, {name: x.numpy() for name, x in zip("qkv", tensors, strict=True)})
        for case, output, expected in zip(CASES, outputs, model(*tensors), strict=True):
            torch.testing.assert_close(
                torch.from_numpy(output), expected, atol=1e-5, rtol=1e-4, msg=f"{case}, length {n}"
            )


def test_the_function_compiles_to_one_graph():
    compiled = torch.compile(functional.attend, backend="aot_eager", fullgraph=True)
    tensors = inputs(6)
    torch.testing.assert_close(compiled(*tensors), functional.attend(*tensors))


class PaddedAttention(nn.Module):
    def __init__(self, score):
        super().__init__()
        self.attend = Attend(scores.build(score, 4))

    def forward(self, q, k, v, keys):
        return self.attend(q, self.attend.project(k), v, Mask(keys=keys))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # sizes are fixed in a trace
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_trace_handles_fully_masked_rows(score):
    tensors, model = inputs(6), PaddedAttention(score)
    all_keys, no_keys = torch.ones(1, 6, dtype=torch.bool), torch.zeros(1, 6, dtype=torch.bool)
    traced = torch.jit.trace(model, (*tensors, all_keys), check_trace=False)
    torch.testing.assert_close(traced(*tensors, all_keys), model(*tensors, all_keys))
    assert not traced(*tensors, no_keys).any() and not model(*tensors, no_keys).any()
