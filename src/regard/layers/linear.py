"""Matrix products with weights on a CPU, by the faster of two libraries: MKL (PyTorch's choice) or oneDNN.

On processors with 512-bit vectors oneDNN uses them, and MKL on many processors does not. Measured: oneDNN is 10 to 20 %
faster for large products; MKL is faster for small ones and for the weight gradient. For decoding, the weights of layers
become products without gradients: exact, or quantized to 8 bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.tracing import is_tracing

Precision = Literal["float32", "int8"]
Product = Callable[[Tensor], Tensor]  # (n d) -> (n e)
Products = Callable[[Sequence[nn.Linear]], Product]  # layers of the same input -> one product
MIN_ONEDNN_WORK = 2**24  # rows × matrix elements; below, the overhead of oneDNN exceeds the gain
MIN_PACKED_ELEMENTS = 2**18  # matrix elements from which packing for oneDNN pays: a fifth or more faster than MKL
MIN_ONEDNN_ROWS = 4  # rows from which oneDNN runs at full speed


class Linear(nn.Linear):
    """nn.Linear with faster large products on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        if not use_one_dnn(x, self.weight):
            return super().forward(x)
        apply: Any = _Linear.apply
        product: Tensor = apply(x.flatten(0, -2), self.weight, self.bias)
        return product.view(*x.shape[:-1], -1)


def glorot_linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear layer for use before tanh, initialized to preserve the variance: Glorot and Bengio 2010."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))
    return layer


def use_one_dnn(x: Tensor, weight: Tensor) -> bool:
    """Return True if x (… d) times the weight (e d) should be computed by oneDNN."""
    return (
        x.numel() // max(1, x.shape[-1]) * weight.numel() >= MIN_ONEDNN_WORK
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and type(weight) in (Tensor, nn.Parameter)  # not a DTensor sharded over processes
        and has_avx512()
        and not (torch.is_autocast_enabled("cpu") or is_tracing())
    )


def has_avx512() -> bool:
    """Return True if oneDNN can use 512-bit vectors on this machine."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.backends.mkldnn.is_available()


def linear_one_dnn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (n d), weight (e d), plain or packed, bias (e) -> (n e), by oneDNN without gradients."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return linear_one_dnn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        double_backward = torch.is_grad_enabled()  # for second derivatives, which oneDNN's product does not support
        d_x = None if not needed[0] else grad @ weight if double_backward else linear_one_dnn(grad, weight.mT)
        d_weight = grad.mT @ x if needed[1] else None  # MKL is faster here
        return d_x, d_weight, grad.sum(dim=0) if needed[2] else None


def exact_product(layers: Sequence[nn.Linear]) -> Product:
    """Return the product of several layers of the same input as one function."""
    weights = [layer.weight.detach() for layer in layers]
    weight = weights[0] if len(layers) == 1 else torch.cat(weights)
    bias = _biases(layers)
    if weight.numel() >= MIN_PACKED_ELEMENTS and has_avx512():
        return _packed(weight, bias)
    return _plain(weight, bias)


def _packed(weight: Tensor, bias: Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    def multiply(x: Tensor) -> Tensor:
        if x.shape[0] != 1:
            return linear_one_dnn(x, packed, bias)
        repeated = x.expand(MIN_ONEDNN_ROWS, -1).contiguous()  # a single row takes longer than several
        return linear_one_dnn(repeated, packed, bias)[:1]

    return multiply


def _plain(weight: Tensor, bias: Tensor | None) -> Product:
    """Product by MKL, for many rows by oneDNN. For one row a transposed copy of the matrix is read twice as fast; for
    small matrices that does not matter."""
    transposed = weight.mT.contiguous() if weight.numel() >= MIN_PACKED_ELEMENTS else weight.mT
    min_rows = MIN_ONEDNN_WORK / weight.numel() if has_avx512() else torch.inf

    def multiply(x: Tensor) -> Tensor:
        if x.shape[0] >= min_rows:
            return linear_one_dnn(x, weight, bias)
        return torch.mm(x, transposed) if bias is None else torch.addmm(bias, x, transposed)

    return multiply


def _biases(layers: Sequence[nn.Linear]) -> Tensor | None:
    biases: list[Tensor] = [layer.bias.detach() for layer in layers if layer.bias is not None]
    return torch.cat(biases) if biases else None


def int8_product(layers: Sequence[nn.Linear]) -> Product:
    """Product with 8-bit weights, scaled per row, and dynamically quantized inputs."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    scales = weight.abs().amax(dim=1).clamp_min(1e-8).double() / 127
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():  # deprecated in PyTorch, which has no other fast 8-bit product
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*", category=UserWarning)
        quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(quantized, _biases(layers))
    multiply: Any = torch.ops.quantized.linear_dynamic
    return lambda x: multiply(x, packed, True)  # True: 7-bit inputs, as 16-bit sums could overflow otherwise


PRODUCTS: dict[Precision, Products] = {"float32": exact_product, "int8": int8_product}
