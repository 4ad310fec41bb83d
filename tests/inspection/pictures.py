"""A small image task: self-attention over patches with boxes, and attention pooling. It has its own view."""

from __future__ import annotations

import torch
from torch import nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.protocols import TargetMetric
from regard.core.task import Prediction, Task

SIDE = 3  # patches along a side


class Model(nn.Module):
    """Patches (1 n 4) -> logits (1 2)."""

    def __init__(self, dim=8):
        super().__init__()
        self.embed = nn.Linear(4, dim)
        self.self_attn = Attend(scores.build("scaled_dot", dim // 2), queries="patches", keys="patches")
        self.pool = Attend(scores.build("scaled_dot", dim), queries="question", keys="patches")
        self.question = nn.Parameter(torch.randn(1, 1, 1, dim))
        self.readout = nn.Linear(dim, 2)

    def forward(self, patches):
        x = torch.tanh(self.embed(patches))
        split = x.unflatten(-1, (2, -1)).transpose(1, 2)
        x = x + self.self_attn(split, split, split).transpose(1, 2).flatten(2)
        return self.readout(self.pool(self.question, x[:, None], x[:, None])[:, 0, 0])


class Pictures(Task):
    """An image is written as nine digits: the brightness of its patches."""

    target_metric = TargetMetric("accuracy", higher_is_better=True)
    spec = None
    examples = ("123456789", "987654321")

    def parse_input(self, text):
        return torch.tensor([int(digit) / 9 for digit in text])[None, :, None].expand(1, SIDE**2, 4)

    def predict(self, model, inputs, options, decoding):
        return [[Prediction("dark" if model(patches).argmax() else "bright")] for patches in inputs]

    def inspect(self, model, picture, options, decoding):
        step = 1 / SIDE
        boxes = [(j * step, i * step, (j + 1) * step, (i + 1) * step) for i in range(SIDE) for j in range(SIDE)]
        patches = tuple(Item(f"patch {n + 1}", box=box) for n, box in enumerate(boxes))
        best = self.predict(model, [picture], options, decoding)[0][0]
        return Inspectable(
            title="a picture",
            axes={"patches": Axis(patches, "patches", input="patches")},
            query_axes={"patches": (AxisRef("patches"),)},  # the query axis is not described: its item is numbered
            key_axes={"patches": (AxisRef("patches"),)},
            outputs=(Output(best.text),),
            replay=lambda: model(picture),
            predicted_ids=model(picture).argmax(-1),
            inputs={"patches": picture},
            extra={"pixels": picture[0, :, 0].tolist()},
        )
