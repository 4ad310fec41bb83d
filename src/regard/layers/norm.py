"""Residual connection (He et al. 2016), layer normalization (Ba et al. 2016) and dropout around a sublayer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from regard.layers.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class PreNorm(nn.Module):
    """x + f(norm(x)): trains without warm-up (Xiong et al. 2020); a stack of these needs a final norm."""

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.dropout.dropout_add(x, sublayer(self.norm(x)))

    @staticmethod
    def final_norm(dim: int) -> nn.Module:
        """Return the norm after the last layer of a stack."""
        return nn.LayerNorm(dim)


class PostNorm(nn.Module):
    """norm(x + f(x)): Vaswani et al. 2017, section 3.1."""

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        normed: Tensor = self.norm(self.dropout.dropout_add(x, sublayer(x)))
        return normed

    @staticmethod
    def final_norm(dim: int) -> nn.Module:
        """Return an identity: a stack of post-norm layers needs no final norm."""
        return nn.Identity()


def with_norm_eps(model: nn.Module, eps: float) -> nn.Module:
    """Set the eps of every LayerNorm of the model and return it: BERT has 1e-12, PyTorch 1e-5."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps
    return model


NORMS: dict[str, type[PreNorm] | type[PostNorm]] = {"pre": PreNorm, "post": PostNorm}
