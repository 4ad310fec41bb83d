"""Attention overlay of a caption as a PNG file: one tile per word, dimmed where the word attends less."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.extras import require
from regard.core.inference_mode import eval_mode
from regard.data.images.drawing import load_font
from regard.data.images.image_files import Pixels, to_image
from regard.data.images.resize import ImageShape
from regard.layers.fuse_for_decoding import original_model
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks.captioning.grounding import CaptionVocab, EncodeImages, attention_over_grid, grid_size

TILE_PIXELS = 168  # longer side of the image in a tile
LABEL_PIXELS = 24  # height of the word below a tile
GAP = 8  # pixels between tiles
TILES_PER_ROW = 5
FONT_SIZE = 15
SHADOW = np.array([60, 62, 70])  # gray, so that dark and light images are dimmed, as on the explorer page
DIMMING = 0.55  # opacity of the shadow on cells without attention
LINE_COLOR, LINE_PIXELS = np.array([255, 140, 26]), 2  # around the cells that have half of the weight


def render_overlay(
    model: Any, image: InputImage, tokens: Sequence[int], caption_vocab: CaptionVocab, *, image_encoder: EncodeImages
) -> bytes:
    """An image and the tokens of its caption -> a PNG file with the attention of each token over the image as the user
    gave it."""
    vocabulary, special_tokens = caption_vocab
    model = original_model(model)
    with eval_mode(model) as device:
        captions = torch.tensor([[special_tokens.bos, *tokens, special_tokens.eos]], device=device)
        images = image_encoder(image.pixels[None]).to(device)
        attention = attention_over_grid(model, images, captions, pad=special_tokens.pad)
    words = [span.text for span in vocabulary.decode_with_offsets(list(tokens))]
    weights = None if attention is None else attention.weights[0, : len(words)].double().cpu().numpy()
    return render_tiles(image.full_size, words, weights, grid_size(model))


def render_tiles(
    pixels: Pixels, words: Sequence[str], weights: NDArray[np.float64] | None, grid: tuple[int, int]
) -> bytes:
    """An image (h w c), the words of its caption and their attention (n s) -> a PNG file.

    The first tile is the image, followed by one tile per word. Without weights there is one tile with the caption.
    """
    drawing, library = require("PIL.ImageDraw", extra="vision"), require("PIL.Image", extra="vision")
    image = _fit_tile(pixels)
    tiles = [(image, "" if weights is not None else " ".join(words))]
    if weights is not None:
        tiles += [
            (highlight_attention(image, row.reshape(grid)), word) for row, word in zip(weights, words, strict=True)
        ]
    height, width = image.shape[0] + LABEL_PIXELS + GAP, image.shape[1] + GAP
    num_rows = -(-len(tiles) // TILES_PER_ROW)
    num_columns = max(1, min(TILES_PER_ROW, len(tiles)))
    canvas = library.new("RGB", (num_columns * width + GAP, num_rows * height + GAP), (255, 255, 255))
    draw, font = drawing.Draw(canvas), load_font("".join(words), FONT_SIZE)
    for index, (tile, word) in enumerate(tiles):
        left, top = GAP + index % TILES_PER_ROW * width, GAP + index // TILES_PER_ROW * height
        canvas.paste(library.fromarray(tile), (left, top))
        draw.text((left + 2, top + image.shape[0] + 3), word, fill=(20, 20, 20), font=font)
    buffer = io.BytesIO()
    canvas.save(buffer, format="PNG")
    return buffer.getvalue()


def _fit_tile(pixels: Pixels) -> Pixels:
    """(h w c) -> (h w 3): enlarged by an integer factor to at most TILE_PIXELS, or reduced to them."""
    height, width, channels = pixels.shape
    if max(height, width) > TILE_PIXELS:
        factor = TILE_PIXELS / max(height, width)
        shape = ImageShape(max(1, round(height * factor)), max(1, round(width * factor)), 3)
        return shape.apply(to_image(pixels))
    scale = TILE_PIXELS // max(height, width)
    return np.repeat(pixels.repeat(scale, axis=0).repeat(scale, axis=1), 3 // channels, axis=2)


def highlight_attention(pixels: Pixels, weights: NDArray[np.float64]) -> Pixels:
    """Dim the cells of an image (h w 3) by their attention weights (rows columns), and outline those with half of the
    weight."""
    height, width = pixels.shape[:2]
    rows = np.arange(height) * weights.shape[0] // height
    columns = np.arange(width) * weights.shape[1] // width
    share = (weights / max(float(weights.max()), 1e-9))[rows][:, columns][..., None]
    dimmed = pixels + (SHADOW - pixels.astype(float)) * DIMMING * (1 - share)
    dimmed[_edge(_half_of_weight(weights)[rows][:, columns])] = LINE_COLOR
    highlighted: Pixels = dimmed.round().clip(0, 255).astype(np.uint8)
    return highlighted


def _half_of_weight(weights: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return True for the fewest cells that together have half of the weight."""
    order = weights.argsort(axis=None)[::-1]
    before = weights.ravel()[order].cumsum() - weights.ravel()[order]
    chosen = np.zeros(weights.size, bool)
    chosen[order[before < weights.sum() / 2]] = True
    return chosen.reshape(weights.shape)


def _edge(region: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return True for the pixels of a region within LINE_PIXELS of a pixel outside."""
    inner = np.pad(region, 1)
    for _ in range(LINE_PIXELS):
        center = inner[1:-1, 1:-1]
        center &= inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
    return region & ~inner[1:-1, 1:-1]
