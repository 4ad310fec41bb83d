"""A third-party task: find the quarter with the bright diagonal in 8 × 8 images; the metric is the error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from regard.core.errors import DataError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Parent
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.task import Prediction, Task

NAMES = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True)
class Quarters:
    """Specification of this data."""

    classes: int = 4
    pixels: int = 4  # of a patch


VERB = "classify"
SPEC = Quarters
DEFAULTS: dict[str, Any] = {"model": {"name": "lab.two_level"}, "training": {"steps": 60}}
DEMO = ["training.steps=60"]


@dataclass(frozen=True)
class Config:
    """Number of generated images."""

    images: int = 64
    rows: int = 16  # images in a batch
    noise: float = 0.2  # how bright the background is


@dataclass(frozen=True)
class Options:
    """Options of a request."""

    n: int = 1  # how many labels


class Batch(NamedTuple):
    patches: Tensor  # (b quarters patches pixels)
    labels: Tensor  # (b)


class QuarterTask(Task):
    target_metric = TargetMetric("error", higher_is_better=False)
    spec = Quarters()
    input_suffixes = (".png",)

    def __init__(self, config: Config, examples: tuple[str, ...] = ()) -> None:
        self.config, self.examples = config, examples

    def images(self, split: str) -> tuple[Tensor, Tensor]:
        random = np.random.default_rng({"train": 1, "valid": 2, "test": 3}[split])
        labels = random.integers(4, size=self.config.images)
        images = random.random((self.config.images, 8, 8)) * self.config.noise
        for image, label in zip(images, labels, strict=True):
            top, left = 4 * (label // 2), 4 * (label % 2)
            image[top : top + 4, left : left + 4] += np.eye(4)
        return torch.from_numpy(images).float(), torch.from_numpy(labels)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        order = np.random.default_rng([seed, epoch]).permutation(self.config.images)
        return [order[i : i + self.config.rows] for i in range(0, len(order), self.config.rows)]

    def collate(self, examples: Indices) -> Batch:
        images, labels = self.images("train")
        return Batch(patches_of(images[examples]), labels[examples])

    def loss(self, model: Any, batch: Batch) -> Loss:
        total = model.readout.loss(model(batch.patches), batch.labels)
        return Loss(total, len(batch.labels), {"likelihood": total.detach()})

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        assert decoding is None
        images, labels = self.images(split)
        guesses = model.readout(model(patches_of(images))).argmax(dim=-1)
        return {"error": float((guesses != labels).float().mean())}

    def signatures(self) -> dict[str, str]:
        return {"error": "share of images whose most likely label is wrong"}

    def save(self, folder: Path) -> None:
        images, _ = self.images("test")
        (folder / "names.json").write_text(json.dumps(NAMES))
        for index in range(2):
            pixels = (images[index].clamp(0, 1) * 255).byte().numpy()
            Image.fromarray(pixels).save(folder / f"example{index}.png")

    def parse_input(self, text: str) -> Tensor:
        try:
            with Image.open(text) as image:
                pixels = np.asarray(image.convert("L").resize((8, 8)), dtype=np.float32) / 255
        except OSError as error:
            raise DataError(f"{text}: not an image ({error})") from None
        return torch.from_numpy(pixels)

    def predict(self, model: Any, inputs: Sequence[Tensor], options: Options, decoding: Any) -> list[list[Prediction]]:
        if not inputs:
            return []
        with torch.no_grad():
            scores = model.readout(model(patches_of(torch.stack(list(inputs))))).log_softmax(dim=-1)
        best = scores.topk(options.n, dim=-1)
        return [
            [Prediction(NAMES[label], score, score, value=label) for score, label in zip(*row, strict=True)]
            for row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def inspect(self, model: Any, parsed_input: Tensor, options: Options, decoding: Any) -> Inspectable:
        predictions = self.predict(model, [parsed_input], options, decoding)[0]
        patches = patches_of(parsed_input[None])
        axes = {
            "question": Axis((Item("label", special=True),), "question"),
            "quarters": Axis(tuple(Item(name, box=box(i, 0.5)) for i, name in enumerate(NAMES)), "quarters"),
        }
        for i in range(4):
            items = tuple(Item(f"{NAMES[i]} {j + 1}") for j in range(4))
            axes[f"patches.{i}"] = Axis(items, f"patches {NAMES[i]}", Parent("quarters", i))
        return Inspectable(
            title="an image",
            axes=axes,
            query_axes={"question": (AxisRef("question", None),)},
            key_axes={
                "quarters": (AxisRef("quarters"),),
                "patches": tuple(AxisRef(f"patches.{i}", i) for i in range(4)),
            },
            outputs=tuple(
                Output(prediction.text, prediction.score, prediction.ranking_score) for prediction in predictions
            ),
            replay=lambda: model.readout(model(patches)),
            predicted_ids=torch.tensor([predictions[0].value]),
            views=("lab.views.regions",),
            extra={"pixels": parsed_input.tolist()},
        )


def box(quarter: int, size: float) -> tuple[float, float, float, float]:
    left, top = quarter % 2 * size, quarter // 2 * size
    return left, top, left + size, top + size


def patches_of(images: Tensor) -> Tensor:
    """(b 8 8) -> (b 4 4 4): quarters of patches of pixels."""
    quarters = images.unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2)  # (b 4 4 4)
    return quarters.unfold(2, 2, 2).unfold(3, 2, 2).flatten(2, 3).flatten(3)


def build(config: Config, folder: Path | None = None) -> QuarterTask:
    return QuarterTask(config) if folder is None else load(config, folder)


def load(config: Config, folder: Path) -> QuarterTask:
    return QuarterTask(config, tuple(str(folder / f"example{index}.png") for index in range(2)))
