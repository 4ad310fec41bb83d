"""The task image_classification, trained on a subset of the digits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.core.protocols import Indices
from regard.tasks import image_classification
from regard.tasks._shared import image_inputs
from regard.tasks.image_classification import DEFAULTS, SPEC, VERB, ImageClassification, Options

__all__ = ["DEFAULTS", "SPEC", "VERB", "Options"]


@dataclass(frozen=True)
class Config:
    """Number of training images, and batch size."""

    examples: int = 100
    batch_size: int = 32


class DigitsSubset(ImageClassification):
    """Image classification trained on the first `num_examples` digits."""

    def __init__(self, full_task: ImageClassification, num_examples: int, *, folder: Path | None) -> None:
        super().__init__(
            full_task.config, full_task.data_info, load_collection=lambda: full_task.collection, folder=folder
        )
        self.num_examples = num_examples

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        count = min(self.num_examples, len(self.collection.split("train")))
        return image_inputs.shuffled_batches(count, self.config.batch_size, epoch=epoch, seed=seed)


def build(config: Config, folder: Path | None = None) -> DigitsSubset:
    """Build the task for training."""
    return DigitsSubset(image_classification.build(_to_full_config(config), folder), config.examples, folder=folder)


def load(config: Config, folder: Path) -> DigitsSubset:
    """Load the task of a run."""
    return DigitsSubset(image_classification.load(_to_full_config(config), folder), config.examples, folder=folder)


def _to_full_config(config: Config) -> image_classification.Config:
    return image_classification.Config(batch_size=config.batch_size, crop=1)
