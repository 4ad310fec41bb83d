"""Grounding of captions: attention of each word over the image grid, compared with the true region of the word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.attention.record import attention_modules, record
from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.protocols import Decoder
from regard.data import batching
from regard.data.builtin.scenes import Box, Word
from regard.data.captions.dataset import CaptionedImages, caption_text
from regard.data.images.image_files import Pixels
from regard.data.text.alignment import word_indices
from regard.data.text.tokenizer import Tokenizer
from regard.layers.cnn_grid import GridEncoder
from regard.tasks._shared import image_inputs

CELL_AXIS = "cells"  # key axis of attention over the grid
CONTENT_WORD_KINDS = ("size", "colour", "shape", "relation")  # kinds of words that have a region
BATCH_CAPTIONS = 64
GREY = 128  # pixel value of an occluded region
MAX_OCCLUSION_SIDE = 4  # occlusion boxes along each side of an image
EncodeImages = Callable[[Pixels], Tensor]  # images (b h w c) of 0 … 255 -> model inputs (b c h w)


class CaptionModel(Decoder, Protocol):
    """A decoder of captions, whose source is a batch of images (b c h w)."""

    grid: GridEncoder

    def losses(self, images: Tensor, captions: Tensor, *, pad: int, smoothing: float = 0.0) -> Mapping[str, Tensor]:
        """Images (b c h w) and their captions (b·n t+1) -> named parts of the loss, summed."""


class CaptionVocab(NamedTuple):
    """The tokenizer and special tokens of captions."""

    vocabulary: Tokenizer
    special_tokens: SpecialTokens


def grid_size(model: CaptionModel) -> tuple[int, int]:
    """Return the number of rows and columns of the image grid of a model."""
    return model.grid.plane.height, model.grid.plane.width


def cell_box(index: int, height: int, width: int) -> Box:
    """The index of a cell in row-major order -> its box as fractions of the image."""
    row, column = divmod(index, width)
    return column / width, row / height, (column + 1) / width, (row + 1) / height


class GridAttention(NamedTuple):
    """Attention over the image grid while a model reads captions, and the log probability of each caption."""

    weights: Tensor  # (b t s): for each word and EOS, mean over the heads of the last layer
    scores: Tensor  # (b) log p of each caption


def attention_over_grid(model: Any, images: Tensor, captions: Tensor, *, pad: int) -> GridAttention | None:
    """Images (b c h w) and captions with BOS and EOS (b t+1) -> attention; None for a model without attention."""
    if not attention_modules(model):
        return None
    with record(model) as maps:
        logits, _ = model(captions[:, :-1], model.start(images))
    labels = captions[:, 1:]
    log_probs = logits.float().log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0]
    grid_weights = [attention.weights for attention in maps.values() if attention.keys == CELL_AXIS]
    return GridAttention(grid_weights[-1].mean(dim=1), log_probs.masked_fill(labels == pad, 0.0).sum(dim=1))


def pointing_accuracy(
    model: CaptionModel, split: CaptionedImages, caption_vocab: CaptionVocab, *, image_encoder: EncodeImages
) -> float | None:
    """Return the share of content words whose most attended cell has its center in the true region of the word.

    Each image is scored on the most likely of its true captions, because the model may choose which object to name
    first. None for a model without attention.
    """
    vocabulary, special_tokens = caption_vocab
    captions = [(image, words) for image, regions in enumerate(split.regions) for words in regions]
    tokens = vocabulary.encode([caption_text(words) for _, words in captions])
    best: dict[int, tuple[float, list[bool]]] = {}
    with eval_mode(model) as device:
        for low in range(0, len(captions), BATCH_CAPTIONS):
            batch = captions[low : low + BATCH_CAPTIONS]
            rows = [[special_tokens.bos, *row, special_tokens.eos] for row in tokens[low : low + BATCH_CAPTIONS]]
            images = image_encoder(split.images(np.array([image for image, _ in batch]))).to(device)
            padded = batching.pad(rows).tokens.to(device)
            attention = attention_over_grid(model, images, padded, pad=special_tokens.pad)
            if attention is None:
                return None
            most_attended = attention.weights.argmax(dim=-1).tolist()
            for (image, words), score, cells in zip(batch, attention.scores.tolist(), most_attended, strict=True):
                if image not in best or score > best[image][0]:
                    best[image] = score, list(_hits(words, cells, vocabulary, grid_size(model)))
    return float(np.mean([hit for _, hits in best.values() for hit in hits]))


def _hits(words: Sequence[Word], cells: list[int], vocabulary: Tokenizer, grid: tuple[int, int]) -> Iterator[bool]:
    """Yield for each content word True if the most attended cell of its first token is in the region of the word."""
    text = caption_text(words)
    indices = word_indices(text, vocabulary.encode_with_offsets(text))
    for index, word in enumerate(words):
        if word.kind in CONTENT_WORD_KINDS:
            left, top, right, bottom = cell_box(cells[indices.index(index)], *grid)
            yield box_contains((left + right) / 2, (top + bottom) / 2, word.box)


def signatures(extra_scenes: str) -> dict[str, str]:
    """Return how the metrics of scenes are computed; `extra_scenes` describes those with more objects than training."""
    return {
        "exact": "share of captions that match a true caption word for word",
        "pointing": "share of content words (size, colour, shape, relation) whose most attended cell has its "
        "center in the true region of the word; on the most likely true caption, teacher-forced, mean of heads",
        "more_exact, more_bleu4": f"the same on {extra_scenes}",
    }


def box_contains(x: float, y: float, box: Box) -> bool:
    """Return True if a point is in a box."""
    left, top, right, bottom = box
    return bool(left <= x <= right and top <= y <= bottom)


def occlude(pixels: Pixels, box: Box) -> Pixels:
    """Return a copy of an image (h w c) with a region of at least one pixel in grey."""
    changed = pixels.copy()
    changed[image_inputs.box_slices(box, pixels.shape[0], pixels.shape[1])] = GREY
    return changed


def occlusion_boxes(height: int, width: int) -> list[Box]:
    """Return boxes that tile an image with a grid of this size; each is about a quarter of the sides."""
    rows, columns = min(MAX_OCCLUSION_SIDE, height), min(MAX_OCCLUSION_SIDE, width)
    return [cell_box(index, rows, columns) for index in range(rows * columns)]


def ablate_cells(model: CaptionModel, pixels: Pixels, captions: Tensor, *, image_encoder: EncodeImages) -> Tensor:
    """Return logits (s t v) of one caption (1 t+1) with each grid cell of the image (h w c) in turn in grey."""
    height, width = grid_size(model)
    logits = []
    for low in range(0, height * width, BATCH_CAPTIONS):
        boxes = [cell_box(index, height, width) for index in range(low, min(low + BATCH_CAPTIONS, height * width))]
        changed = image_encoder(np.stack([occlude(pixels, box) for box in boxes])).to(captions.device)
        logits.append(model(captions[:, :-1].expand(len(changed), -1), model.start(changed))[0])
    return torch.cat(logits)
