"""A program to export as ONNX: a module, example inputs, and the names and dynamic axes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor, nn


class Program(NamedTuple):
    """A program to export: a module, example inputs, and its dynamic axes."""

    module: nn.Module
    inputs: Callable[[int, int], tuple[Tensor, ...]]  # batch size, length -> inputs
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: tuple[Mapping[int, str], ...]  # per input: axis -> "rows" or "length"
