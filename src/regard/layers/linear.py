"""Products with weights on a CPU, by the faster of two libraries: PyTorch's own choice, MKL, or oneDNN.

Where the processor has vectors of 512 bits, oneDNN uses them and MKL on many processors does not: measured, oneDNN is
10 to 20 % faster for large products, and MKL for small ones and for the gradient of the weights. For decoding, the
weights of layers become products without gradients: exact ones, or of numbers rounded to 8 bits.
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
Products = Callable[[Sequence[nn.Linear]], Product]  # layers of the same input as one product
MIN_ONEDNN_WORK = 2**24  # rows × numbers of the matrix; below, oneDNN's way into a product takes longer than it saves
MIN_PACKED_ELEMENTS = (
    2**18
)  # numbers of a matrix that is packed for oneDNN: a fifth and more faster than MKL from few rows on
MIN_ONEDNN_ROWS = 4  # rows from which oneDNN reads a matrix at full speed


class Linear(nn.Linear):
    """nn.Linear, its large products on a CPU faster."""

    def forward(self, x: Tensor) -> Tensor:
        if not use_one_dnn(x, self.weight):
            return super().forward(x)
        apply: Any = _Linear.apply
        multiplied: Tensor = apply(x.flatten(0, -2), self.weight, self.bias)
        return multiplied.view(*x.shape[:-1], -1)


def glorot_linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """A layer whose outputs a tanh bends, sized so that they keep their variance: Glorot and Bengio 2010."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))
    return layer


def use_one_dnn(x: Tensor, weight: Tensor) -> bool:
    """Whether x (… d) times the weight (e d) is a product for oneDNN."""
    return (
        x.numel() // max(1, x.shape[-1]) * weight.numel() >= MIN_ONEDNN_WORK
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and type(weight) in (Tensor, nn.Parameter)  # not one that is spread over processes
        and has_avx512()
        and not (torch.is_autocast_enabled("cpu") or is_tracing())
    )


def has_avx512() -> bool:
    """Whether oneDNN has vectors of 512 bits here."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.backends.mkldnn.is_available()


def linear_one_dnn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (n d), weight (e d), plain or packed, bias (e) -> (n e), by oneDNN and without gradients."""
    multiplied: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return multiplied


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return linear_one_dnn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        again = torch.is_grad_enabled()  # a second derivative is wanted, which oneDNN's product does not have
        d_x = None if not needed[0] else grad @ weight if again else linear_one_dnn(grad, weight.mT)
        d_weight = grad.mT @ x if needed[1] else None  # MKL is faster here
        return d_x, d_weight, grad.sum(dim=0) if needed[2] else None


def exact_product(layers: Sequence[nn.Linear]) -> Product:
    """Layers of the same input as one product."""
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
        return linear_one_dnn(x.expand(MIN_ONEDNN_ROWS, -1).contiguous(), packed, bias)[
            :1
        ]  # one row alone takes longer than several

    return multiply


def _plain(weight: Tensor, bias: Tensor | None) -> Product:
    """By MKL, and many rows by oneDNN. A turned copy of a matrix is read twice as fast for one row; where it is small
    that does not matter."""
    turned = weight.mT.contiguous() if weight.numel() >= MIN_PACKED_ELEMENTS else weight.mT
    many = MIN_ONEDNN_WORK / weight.numel() if has_avx512() else torch.inf

    def multiply(x: Tensor) -> Tensor:
        if x.shape[0] >= many:
            return linear_one_dnn(x, weight, bias)
        return torch.mm(x, turned) if bias is None else torch.addmm(bias, x, turned)

    return multiply


def _biases(layers: Sequence[nn.Linear]) -> Tensor | None:
    biases: list[Tensor] = [layer.bias.detach() for layer in layers if layer.bias is not None]
    return torch.cat(biases) if biases else None


def int8_product(layers: Sequence[nn.Linear]) -> Product:
    """The same with numbers of 8 bits: weights scaled row by row, inputs as they come."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    scales = weight.abs().amax(dim=1).clamp_min(1e-8).double() / 127
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():  # PyTorch means to remove these one day, and has no other fast product of 8 bits
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*", category=UserWarning)
        numbers = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(numbers, _biases(layers))
    multiply: Any = torch.ops.quantized.linear_dynamic
    return lambda x: multiply(x, packed, True)  # True: inputs of 7 bits, without which sums of 16 bits could overflow


PRODUCTS: dict[Precision, Products] = {"float32": exact_product, "int8": int8_product}
