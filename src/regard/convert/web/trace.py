"""Programs of a model for the browser: a graph of tensor operations for inputs of any length, with constants.

A program is traced once with symbolic sizes, so that the model's own code defines it. Attention and recurrent networks
remain single operations (atomic_layers.py): the page records attention maps and applies interventions there.

A program is JSON. `nodes` is a list of `[operation, arguments, keyword arguments]`; an argument `{"n": i}` is the
result of node i, and `{"c": name}` a constant. The first nodes are the inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from regard.convert.web.atomic_layers import with_atomic_layers

Function = Callable[..., Sequence[Tensor]]
SYMBOLIC = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%",
            operator.neg: "neg", operator.getitem: "getitem", operator.eq: "==", operator.lt: "<", operator.le: "<=",
            operator.gt: ">", operator.ge: ">=", operator.truediv: "/"}  # fmt: skip


class Constants:
    """Weights and other constant tensors of all programs, by name; equal storage is stored once."""

    def __init__(self, model: nn.Module) -> None:
        named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        self._names = {id(tensor): name for name, tensor in reversed(named)}
        self.tensors: dict[str, Tensor] = {}

    def name(self, tensor: Tensor) -> str:
        """Return the name of a constant, and store it."""
        name = self._names.setdefault(id(tensor), f"constant {len(self.tensors)}")
        self.tensors[name] = tensor.detach()
        return name


def trace(model: nn.Module, function: Function, inputs: Sequence[Tensor], constants: Constants) -> dict[str, Any]:
    """Function of tensors, and example inputs -> its program. Sizes of the inputs above 1 are symbolic."""
    with (
        with_atomic_layers(model),
        torch.no_grad(),
        patch.object(torch.compiler, "_is_compiling_flag", new=True),
        patch.object(torch.compiler, "_is_exporting_flag", new=True),
    ):
        traced = make_fx(
            lambda *values: tuple(function(*values)),
            tracing_mode="symbolic",
            _allow_non_fake_inputs=True,
        )(*inputs)
    traced.graph.eliminate_dead_code(_has_effect)
    return _to_json(traced, constants)


def _has_effect(node: fx.Node) -> bool:
    return node.op in {"placeholder", "output"}


def _to_json(traced: fx.GraphModule, constants: Constants) -> dict[str, Any]:
    indices: dict[fx.Node, int] = {}
    names: dict[fx.Node, str] = {}
    nodes: list[Any] = []

    def argument(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return {"c": names[value]} if value in names else {"n": indices[value]}
        if isinstance(value, list | tuple):
            return [argument(part) for part in value]
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if abs(value) < float("inf") else {"f": str(value)}
        return str(value)  # a dtype, a layout or a device

    outputs: Any = None
    for node in traced.graph.nodes:
        if node.op == "get_attr":
            names[node] = constants.name(getattr(traced, str(node.target)))
        elif node.op == "output":
            outputs = [argument(part) for part in node.args[0]]
        else:
            indices[node] = len(nodes)
            arguments = [argument(part) for part in node.args]
            keywords = {key: argument(part) for key, part in node.kwargs.items() if key in KEYWORDS}
            nodes.append([_operation(node), arguments, keywords])
    return {"nodes": nodes, "outputs": outputs}


KEYWORDS = {
    "dtype",
    "approximate",
    "value",
    "alpha",
    "beta",
    "start",
    "step",
    "dim",
    "keepdim",
    "fill_value",
    "rounding_mode",
    "correction",
}


def _operation(node: fx.Node) -> str:
    """Return the name of an operation: "input", a symbol for sizes, or a name such as aten.mm.default."""
    if node.op == "placeholder":
        return "input"
    if node.target in SYMBOLIC:
        return SYMBOLIC[node.target]
    name = str(node.target)
    if not isinstance(node.target, torch._ops.OpOverload):
        name = getattr(node.target, "__name__", name)
    return name
