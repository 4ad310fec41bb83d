"""Where a captioner looked for each word, and whether it was where the word's thing is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.attention.record import attention_modules, record
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError
from regard.core.inference_mode import eval_mode
from regard.data import batching
from regard.data.builtin.scenes import Box, Word
from regard.data.captions.dataset import CaptionedImages, caption_text
from regard.data.images.image_files import Pixels
from regard.data.text.alignment import word_indices
from regard.data.text.tokenizer import Tokenizer

CELL_AXIS = "cells"  # the axis of the grid, as attention modules call it
CONTENT_WORD_KINDS = ("size", "colour", "shape", "relation")  # kinds of words that have a region of their own
BATCH_CAPTIONS = 64  # captions that are looked at at once
GREY = 128  # what covers a region
EncodeImages = Callable[[Pixels], Tensor]  # images (b h w c) of 0 … 255 -> what a model takes (b c h w)


class CaptionVocab(NamedTuple):
    """What captions are written with."""

    vocabulary: Tokenizer
    special_tokens: SpecialTokens


def grid_size(model: Any) -> tuple[int, int]:
    """Rows and columns of a captioner's cells."""
    return model.grid.plane.height, model.grid.plane.width


def cell_box(index: int, height: int, width: int) -> Box:
    """The number of a cell, counted row by row -> its box as shares of the image."""
    row, column = divmod(index, width)
    return column / width, row / height, (column + 1) / width, (row + 1) / height


class GridAttention(NamedTuple):
    """Where was looked while captions were read to a model, and how likely it found them."""

    weights: Tensor  # (b t s): for each word and the end mark, the mean of all heads of the last layer
    scores: Tensor  # (b) log p of each caption


def attention_over_grid(model: Any, images: Tensor, captions: Tensor, *, pad: int) -> GridAttention | None:
    """Images (b c h w), captions with marks (b t+1) -> where was looked; None for a model without attention."""
    if not attention_modules(model):
        return None
    with record(model) as maps:
        logits, _ = model(captions[:, :-1], model.start(images))
    labels = captions[:, 1:]
    each = logits.float().log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0]
    cells = [found.weights for found in maps.values() if found.keys == CELL_AXIS]
    return GridAttention(cells[-1].mean(dim=1), each.masked_fill(labels == pad, 0.0).sum(dim=1))


def pointing_accuracy(
    model: Any, split: CaptionedImages, caption_vocab: CaptionVocab, *, image_encoder: EncodeImages
) -> float | None:
    """Images whose captions know their regions -> the percentage of content words whose most attended cell has its
    middle in the word's region; None for a model without attention. Of the true captions of an image the one counts
    that the model finds likeliest when they are read to it: which thing to begin with is its own choice."""
    vocabulary, marks = caption_vocab
    said = [(row, each) for row, regions in enumerate(split.regions) for each in regions]
    tokens = vocabulary.encode([caption_text(each) for _, each in said])
    best: dict[int, tuple[float, list[bool]]] = {}
    with eval_mode(model) as device:
        for low in range(0, len(said), BATCH_CAPTIONS):
            few = said[low : low + BATCH_CAPTIONS]
            rows = [[marks.bos, *row, marks.eos] for row in tokens[low : low + BATCH_CAPTIONS]]
            images = image_encoder(split.images(np.array([row for row, _ in few]))).to(device)
            looked = attention_over_grid(model, images, batching.pad(rows).tokens.to(device), pad=marks.pad)
            if looked is None:
                return None
            cells = looked.weights.argmax(dim=-1).tolist()
            for (row, own), score, places in zip(few, looked.scores.tolist(), cells, strict=True):
                if row not in best or score > best[row][0]:
                    best[row] = score, list(_hits(own, places, vocabulary, grid_size(model)))
    return 100 * float(np.mean([hit for _, hits in best.values() for hit in hits]))


def _hits(words: Sequence[Word], cells: list[int], vocabulary: Tokenizer, grid: tuple[int, int]) -> Iterator[bool]:
    """For each content word, whether the cell that was attended most for its first token is in its region."""
    text = caption_text(words)
    numbers = word_indices(text, vocabulary.encode_with_offsets(text))
    for number, word in enumerate(words):
        if word.kind in CONTENT_WORD_KINDS:
            left, top, right, bottom = cell_box(cells[numbers.index(number)], *grid)
            yield box_contains((left + right) / 2, (top + bottom) / 2, word.box)


def signatures(extra_scenes: str) -> dict[str, str]:
    """How the scores of scenes are computed; `more` says which scenes have more things than those of training."""
    return {
        "exact": "percentage of captions that are one of the true ones, word for word",
        "pointing": "percentage of content words (size, colour, shape, relation) of the true caption that the model "
        "finds likeliest, read to it, whose most attended cell has its middle in the word's region; mean of heads",
        "more_exact, more_bleu4": f"the same on {extra_scenes}",
    }


def box_contains(x: float, y: float, box: Box) -> bool:
    """Whether a point lies in a box."""
    left, top, right, bottom = box
    return bool(left <= x <= right and top <= y <= bottom)


def parse_box(text: str) -> Box:
    """left,top,right,bottom as shares of an image -> a box."""
    try:
        left, top, right, bottom = (float(edge) for edge in text.split(","))
    except ValueError:
        left, top, right, bottom = 1.0, 1.0, 0.0, 0.0
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise ConfigError(f"occlude={text!r}: give left,top,right,bottom as shares of the image, as 0,0,0.5,0.5")
    return left, top, right, bottom


def occlude(pixels: Pixels, box: Box) -> Pixels:
    """An image (h w c) -> the same with a region in grey."""
    changed, (height, width) = pixels.copy(), pixels.shape[:2]
    left, top, right, bottom = box
    rows = slice(round(top * height), max(round(bottom * height), round(top * height) + 1))
    columns = slice(round(left * width), max(round(right * width), round(left * width) + 1))
    changed[rows, columns] = GREY
    return changed


def occlusion_boxes(height: int, width: int) -> list[Box]:
    """An image in parts of about a quarter of its sides: what can be greyed out."""
    rows, columns = min(4, height), min(4, width)
    return [cell_box(place, rows, columns) for place in range(rows * columns)]


def ablate_cells(model: Any, pixels: Pixels, captions: Tensor, *, image_encoder: EncodeImages) -> Tensor:
    """Logits (s t v) of one caption (1 t+1), each cell of the image (h w c) in turn in grey."""
    height, width = grid_size(model)
    logits = []
    for low in range(0, height * width, BATCH_CAPTIONS):
        boxes = [cell_box(place, height, width) for place in range(low, min(low + BATCH_CAPTIONS, height * width))]
        changed = image_encoder(np.stack([occlude(pixels, box) for box in boxes])).to(captions.device)
        logits.append(model(captions[:, :-1].expand(len(changed), -1), model.start(changed))[0])
    return torch.cat(logits)
