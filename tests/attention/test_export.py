"""One exported program for every length from 1 on, whatever score, mask and place; traces are right for empty rows."""

from __future__ import annotations

import pytest
import torch
from onnxruntime import InferenceSession
from torch import nn

from regard.attention import functional, scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.layers.positions import build as position

LONGEST = 4096
KINDS = {  # score, mask, place
    "full": ("scaled_dot", Mask(), "none"),
    "causal": ("scaled_dot", Mask.causal(), "none"),
    "windowed": ("scaled_dot", Mask.causal() & Mask.local(back=5), "none"),
    "relative": ("scaled_dot", Mask.causal(), "relative"),
    "additive": ("additive", Mask.causal(), "none"),
}


class Alone(nn.Module):
    def __init__(self, score, mask, place):
        super().__init__()
        self.attend = Attend(
            scores.build(score, 4), position_bias=position(place, 8, max_length=7).position_bias(heads=2, dim=4)
        )
        self.mask = mask

    def forward(self, q, k, v):
        return self.attend(q, self.attend.project(k), v, self.mask)


def inputs(n):
    return tuple(torch.randn(1, 2, n, 4) for _ in range(3))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_one_program_for_every_length(kind):
    model = Alone(*kind).eval()
    length = torch.export.Dim("length", min=1, max=LONGEST)
    program = torch.export.export(model, inputs(8), dynamic_shapes=[{2: length}] * 3)
    (limits,) = program.range_constraints.values()
    assert (limits.lower, limits.upper) == (1, LONGEST)
    exported = program.module()
    for n in (1, 2, 6, 64, 65, 300):
        given = inputs(n)
        torch.testing.assert_close(exported(*given), model(*given), msg=f"length {n}")


class Side(nn.Module):
    """Every kind beside the others: they are exported as one program, in the time of one."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.ModuleList(Alone(*kind) for kind in KINDS.values())

    def forward(self, q, k, v):
        return tuple(kind(q, k, v) for kind in self.kinds)


@pytest.mark.filterwarnings("ignore:.isinstance.treespec:FutureWarning")  # PyTorch's own, inside its exporter
@pytest.mark.filterwarnings("ignore:# The axis name:UserWarning")  # that three inputs have one length
def test_onnx_for_every_length(tmp_path):
    model, path = Side().eval(), tmp_path / "attention.onnx"
    length = torch.export.Dim("length", min=1, max=LONGEST)
    names = {"input_names": ["q", "k", "v"], "output_names": list(KINDS)}
    torch.onnx.export(model, inputs(8), path, dynamic_shapes=[{2: length}] * 3, dynamo=True, verbose=False, **names)
    session = InferenceSession(path)
    for n in (1, 2, 65, 300):
        given = inputs(n)
        found = session.run(None, {name: x.numpy() for name, x in zip("qkv", given, strict=True)})
        for kind, one, other in zip(KINDS, found, model(*given), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other, atol=1e-5, rtol=1e-4, msg=f"{kind}, length {n}")


def test_the_function_compiles_whole():
    compiled = torch.compile(functional.attend, backend="aot_eager", fullgraph=True)
    given = inputs(6)
    torch.testing.assert_close(compiled(*given), functional.attend(*given))


class Padded(nn.Module):
    def __init__(self, score):
        super().__init__()
        self.attend = Attend(scores.build(score, 4))

    def forward(self, q, k, v, keys):
        return self.attend(q, self.attend.project(k), v, Mask(keys=keys))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # that sizes are fixed in a trace
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_trace_made_without_empty_rows_is_right_for_one(score):
    given, model = inputs(6), Padded(score)
    everything, nothing = torch.ones(1, 6, dtype=torch.bool), torch.zeros(1, 6, dtype=torch.bool)
    traced = torch.jit.trace(model, (*given, everything), check_trace=False)
    torch.testing.assert_close(traced(*given, everything), model(*given, everything))
    assert not traced(*given, nothing).any() and not model(*given, nothing).any()
