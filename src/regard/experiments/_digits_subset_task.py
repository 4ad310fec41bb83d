"""The task image_classification, trained on some of the digits alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.core.protocols import Indices
from regard.tasks import image_classification as usual
from regard.tasks._shared import image_inputs
from regard.tasks.image_classification import DEFAULTS, SPEC, VERB, ImageClassification, Options

__all__ = ["DEFAULTS", "SPEC", "VERB", "Options"]


@dataclass(frozen=True)
class Config:
    """How many images there are to learn from."""

    examples: int = 100
    rows: int = 32


class DigitsSubset(ImageClassification):
    """The digits, of which the first so many are learned."""

    def __init__(self, full_task: ImageClassification, num_examples: int, *, folder: Path | None) -> None:
        super().__init__(
            full_task.config, full_task.data_info, load_collection=lambda: full_task.collection, folder=folder
        )
        self.few = num_examples

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of the first images, in random order."""
        few = min(self.few, len(self.collection.split("train")))
        return image_inputs.shuffled_batches(few, self.config.batch_size, epoch=epoch, seed=seed)


def build(config: Config, folder: Path | None = None) -> DigitsSubset:
    """A config -> the task."""
    return DigitsSubset(usual.build(_config(config), folder), config.examples, folder=folder)


def load(config: Config, folder: Path) -> DigitsSubset:
    """A config and a run folder -> the task of that run."""
    return DigitsSubset(usual.load(_config(config), folder), config.examples, folder=folder)


def _config(config: Config) -> usual.Config:
    return usual.Config(batch_size=config.rows, crop=1)
