"""A toy task: cumulative sums of a short sequence of small numbers; tiny, so that tests are fast."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from toys.gated import Sums

from regard.core.errors import DataError
from regard.core.protocols import Loss, TargetMetric
from regard.core.task import Prediction, Task

VERB = "add"
SPEC = Sums
DEFAULTS = {"model": {"name": "toys.gated"}}


@dataclass(frozen=True)
class Config:
    examples: int = 40
    batch: int = 8
    words: int = 6
    poison: int = -1  # index of the example with a non-finite loss
    fail_on_rank: int = -1


class Batch(NamedTuple):
    tokens: Tensor  # (b t)
    numbers: Tensor  # (b,) indices of the examples


@dataclass(frozen=True)
class Options:
    n: int = 1  # predictions per input


class Summing(Task):
    target_metric = TargetMetric("accuracy", higher_is_better=True)
    examples = ("1 2 3", "2 2")

    def __init__(self, config: Config, words: int) -> None:
        self.config = config
        self.spec = Sums(words)
        self.seen: list[list[int]] = []
        rng = np.random.default_rng(0)
        self.rows = rng.integers(1, words, size=(config.examples, 5))
        self.lengths = rng.integers(2, 6, size=config.examples)

    def epoch_batches(self, epoch, seed):
        order = np.random.default_rng([seed, epoch]).permutation(self.config.examples)
        return [order[i : i + self.config.batch] for i in range(0, len(order), self.config.batch)]

    def collate(self, examples):
        rows = self.rows[examples].copy()
        rows[np.arange(5)[None] >= self.lengths[examples][:, None]] = 0
        return Batch(torch.from_numpy(rows), torch.from_numpy(np.asarray(examples)))

    def loss(self, model, batch):
        self.seen.append(batch.numbers.tolist())
        if int(os.environ.get("RANK", "0")) == self.config.fail_on_rank and os.environ.get("WORLD_SIZE"):
            raise DataError("the toy data broke off at line 7")
        logits = model(batch.tokens)
        losses = functional.cross_entropy(logits.mT, self.sums(batch), reduction="none")  # (b t)
        total = losses.sum()
        if (batch.numbers == self.config.poison).any():
            total = total * float("nan")
        parts = {"later": losses[:, 1:].sum(), "first": losses[:, 0].sum()}
        return Loss(total, int((batch.tokens > 0).sum()), parts)

    def sums(self, batch):
        return (batch.tokens.cumsum(1) % self.spec.words).masked_fill(batch.tokens == 0, -100)

    def evaluate(self, model, split, decoding):
        batch = self.collate(np.arange(min(10, self.config.examples)))
        guess = model(batch.tokens).argmax(-1)
        right = (guess == self.sums(batch))[batch.tokens > 0]
        return {"accuracy": float(right.float().mean()), "loss": float(self.loss(model, batch).total)}

    def signatures(self):
        return {"accuracy": "share of right sums"}

    def parse_input(self, text):
        try:
            return [int(word) for word in text.split()]
        except ValueError:
            raise DataError(f"{text!r}: give whole numbers") from None

    def predict(self, model, inputs, options, decoding):
        sums = [model(torch.tensor([numbers])).argmax(-1)[0].tolist() for numbers in inputs]
        return [[Prediction(" ".join(map(str, numbers)))] for numbers in sums]

    def save(self, folder: Path) -> None:
        (folder / "words.json").write_text(json.dumps({"words": self.spec.words}))


def build(config: Config, folder: Path | None = None) -> Summing:
    return Summing(config, config.words) if folder is None else load(config, folder)


def load(config: Config, folder: Path) -> Summing:
    return Summing(config, json.loads((folder / "words.json").read_text())["words"])
