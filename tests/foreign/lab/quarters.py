"""A task: in which quarter of an 8 × 8 image is the bright diagonal? Images made by code, scored by the error rate."""

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
    """The sizes of this kind of data."""

    classes: int = 4
    pixels: int = 4  # of a patch


VERB = "classify"
SIZES = Quarters
DEFAULTS: dict[str, Any] = {"model": {"name": "lab.two_level"}, "training": {"steps": 60}}
DEMO = ["training.steps=60"]


@dataclass(frozen=True)
class Config:
    """How many images are made."""

    images: int = 64
    rows: int = 16  # images in a batch
    noise: float = 0.2  # how bright the background is


@dataclass(frozen=True)
class Options:
    """What one can ask for."""

    top: int = 1  # how many labels


class Batch(NamedTuple):
    patches: Tensor  # (b quarters patches pixels)
    labels: Tensor  # (b)


class Finding(Task):
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
        return {"error": "share of images whose likeliest label is wrong"}

    def save(self, folder: Path) -> None:
        images, _ = self.images("test")
        (folder / "names.json").write_text(json.dumps(NAMES))
        for number in range(2):
            pixels = (images[number].clamp(0, 1) * 255).byte().numpy()
            Image.fromarray(pixels).save(folder / f"example{number}.png")

    def parse_input(self, text: str) -> Tensor:
        try:
            with Image.open(text) as image:
                pixels = np.asarray(image.convert("L").resize((8, 8)), dtype=np.float32) / 255
        except OSError as wrong:
            raise DataError(f"{text}: not an image ({wrong})") from None
        return torch.from_numpy(pixels)

    def predict(self, model: Any, inputs: Sequence[Tensor], options: Options, decoding: Any) -> list[list[Prediction]]:
        if not inputs:
            return []
        with torch.no_grad():
            scores = model.readout(model(patches_of(torch.stack(list(inputs))))).log_softmax(dim=-1)
        best = scores.topk(options.top, dim=-1)
        return [
            [Prediction(NAMES[label], score, score, value=label) for score, label in zip(*row, strict=True)]
            for row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def inspect(self, model: Any, given: Tensor, options: Options, decoding: Any) -> Inspectable:
        answers = self.predict(model, [given], options, decoding)[0]
        patches = patches_of(given[None])
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
            outputs=tuple(Output(answer.text, answer.score, answer.rank) for answer in answers),
            replay=lambda: model.readout(model(patches)),
            predicted_ids=torch.tensor([answers[0].value]),
            views=("lab.views.regions",),
            extra={"pixels": given.tolist()},
        )


def box(number: int, size: float) -> tuple[float, float, float, float]:
    left, top = number % 2 * size, number // 2 * size
    return left, top, left + size, top + size


def patches_of(images: Tensor) -> Tensor:
    """(b 8 8) -> (b 4 4 4): quarters of patches of pixels."""
    quarters = images.unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2)  # (b 4 4 4)
    return quarters.unfold(2, 2, 2).unfold(3, 2, 2).flatten(2, 3).flatten(3)


def build(config: Config, folder: Path | None = None) -> Finding:
    return Finding(config) if folder is None else load(config, folder)


def load(config: Config, folder: Path) -> Finding:
    return Finding(config, tuple(str(folder / f"example{number}.png") for number in range(2)))
