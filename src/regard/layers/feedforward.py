"""Position-wise feed-forward network max(0, xW1 + b1)W2 + b2: Vaswani et al. 2017, equation 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

from regard.layers.dropout import Dropout
from regard.layers.linear import Linear

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"relu": relu, "gelu": gelu, "gelu_tanh": partial(gelu, approximate="tanh"), "silu": silu}
)


class FeedForward(nn.Module):
    """(… d) -> (… d) with one hidden layer; the default activation is max(0, x), GELU in BERT."""

    def __init__(
        self, dim: int, hidden: int, *, dropout: float = 0.0, activation: Callable[[Tensor], Tensor] = relu
    ) -> None:
        super().__init__()
        self.activation = activation
        self.up = Linear(dim, hidden)
        self.down = Linear(hidden, dim)
        self.dropout = Dropout(dropout)
        for layer in (self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.dropout(self.activation(self.up(x))))
        return out
