"""What is shown of a piece beforehand: in training some voices or all but a gap, so that tunes can be harmonised and
gaps filled with what comes next in view; and the loss, which counts only what is not shown."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.protocols import Announced, Decoder, Loss, Padded
from regard.core.sizes import Marks
from regard.data.music.encoding import Tokens

TUNES = 0.5  # how often voices are shown, and how often only the highest of them; else all but a gap is shown


class PieceBatch(NamedTuple):
    """What is told of pieces beforehand, and rows `start n1 … nn end` or crops of such."""

    source: Padded | Announced
    target: Padded


def loss(model: Decoder, batch: PieceBatch, *, pad: int) -> Loss:
    """A batch -> the cross entropy of its tokens and end marks, summed; padding and what was shown is not counted."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    wanted = labels != pad
    if isinstance(batch.source, Announced):
        wanted = wanted & (batch.source.given.tokens == 0)
    return Loss(model.readout.loss(features[wanted], labels[wanted]), int(wanted.sum()))


def shown_of(labels: Tokens, random: np.random.Generator, *, voices: int, bar: int) -> Tokens:
    """The tokens of a crop -> those that are shown, 0 where one is not; `bar` is in tokens."""
    steps = -(-len(labels) // voices)
    shown = draw(steps, random, voices=voices, bar=bar // voices).reshape(-1)[: len(labels)]
    return np.where(shown & (labels > Marks.end), labels, 0)


def draw(steps: int, random: np.random.Generator, *, voices: int, bar: int) -> NDArray[np.bool_]:
    """(steps voices): some whole voices, or everything but some bars of all or some of them."""
    some = random.permutation(voices)[: int(random.integers(1, voices))]
    if random.random() < TUNES:
        shown = np.zeros((steps, voices), dtype=bool)
        shown[:, [0] if random.random() < TUNES else some] = True
        return shown
    shown = np.ones((steps, voices), dtype=bool)
    bars = -(-steps // bar)
    first = int(random.integers(bars))
    last = int(random.integers(first, min(bars, first + max(1, bars // 2)))) + 1
    shown[first * bar : last * bar, some if random.random() < TUNES else slice(None)] = False
    return shown


def highest_of(tokens: Tensor, *, voices: int) -> Announced:
    """Rows (b t+1) of tokens, the first of which is given -> their highest voice shown, and no class told."""
    labels = tokens[:, 1:]
    tune = (torch.arange(labels.shape[1], device=tokens.device) % voices == 0) & (labels > Marks.end)
    lengths = (labels != Marks.pad).sum(dim=1)
    return Announced(*nothing_of(tokens), Padded(labels * tune, lengths))


def nothing_of(tokens: Tensor) -> Padded:
    """Rows of tokens -> no class is told of any."""
    return Padded(tokens.new_full((len(tokens), 1), Marks.pad), tokens.new_ones(len(tokens)))
