"""A caption as one picture: the image once for every word, bright where the model looked for it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.extras import require
from regard.core.inference_mode import eval_mode
from regard.data.images.image_files import Pixels
from regard.layers.fuse_for_decoding import original_model
from regard.tasks.captioning.grounding import CaptionVocab, EncodeImages, attention_over_grid, grid_size

TILE_PIXELS = 168  # pixels of the longer side of each image
LABEL_PIXELS = 24  # pixels below each for its word
GAP = 8
TILES_PER_ROW = 5  # images in a row
MIN_BRIGHTNESS = 0.25  # how much of the brightness stays where nobody looks
TINT_COLOUR = np.array([255, 170, 40])  # what the most attended cell is tinted with
TINT_STRENGTH = 0.35
# Files of fonts that have Hangul, in the order they are liked; those that are not installed are passed over.
FONTS = ("NanumGothic.ttf", "NanumSquareRoundR.ttf", "NotoSansCJK-Regular.ttc", "NotoSansKR-Regular.ttf", "malgun.ttf")


def render_overlay(
    model: Any, pixels: Pixels, tokens: Sequence[int], caption_vocab: CaptionVocab, *, image_encoder: EncodeImages
) -> bytes:
    """An image (h w c) and the tokens of a caption -> a PNG file of where the model looked for each of them."""
    vocabulary, marks = caption_vocab
    model = original_model(model)
    with eval_mode(model) as device:
        captions = torch.tensor([[marks.bos, *tokens, marks.eos]], device=device)
        looked = attention_over_grid(model, image_encoder(pixels[None]).to(device), captions, pad=marks.pad)
    said = [piece.text for piece in vocabulary.decode_with_offsets(list(tokens))]
    shares = None if looked is None else looked.weights[0, : len(said)].double().cpu().numpy()
    return render_tiles(pixels, said, shares, grid_size(model))


def render_tiles(
    pixels: Pixels, words: Sequence[str], weights: NDArray[np.float64] | None, grid: tuple[int, int]
) -> bytes:
    """An image (h w c), the words of its caption and where was looked for each (n s) -> a PNG file: the image, then
    once more for every word; without shares the image alone, with the caption below it."""
    drawing, library = require("PIL.ImageDraw", extra="vision"), require("PIL.Image", extra="vision")
    whole = _enlarged(pixels)
    tiles = [(whole, "" if weights is not None else " ".join(words))]
    if weights is not None:
        tiles += [(tint_by_attention(whole, row.reshape(grid)), word) for row, word in zip(weights, words, strict=True)]
    height, width = whole.shape[0] + LABEL_PIXELS + GAP, whole.shape[1] + GAP
    rows = -(-len(tiles) // TILES_PER_ROW)
    room = max(1, min(TILES_PER_ROW, len(tiles)))
    paper = library.new("RGB", (room * width + GAP, rows * height + GAP), (255, 255, 255))
    pen, font = drawing.Draw(paper), _font("".join(words))
    for number, (tile, word) in enumerate(tiles):
        left, top = GAP + number % TILES_PER_ROW * width, GAP + number // TILES_PER_ROW * height
        paper.paste(library.fromarray(tile), (left, top))
        pen.text((left + 2, top + whole.shape[0] + 3), word, fill=(20, 20, 20), font=font)
    target = io.BytesIO()
    paper.save(target, format="PNG")
    return target.getvalue()


def _enlarged(pixels: Pixels) -> Pixels:
    """(h w c) -> (h w 3), enlarged by a whole number to about SIDE."""
    scale = max(1, TILE_PIXELS // max(pixels.shape[:2]))
    return np.repeat(pixels.repeat(scale, axis=0).repeat(scale, axis=1), 3 // pixels.shape[2], axis=2)


def tint_by_attention(pixels: Pixels, weights: NDArray[np.float64]) -> Pixels:
    """An image (h w 3) and weights (rows columns) -> dim where nobody looks, bright and tinted where most is."""
    height, width = pixels.shape[:2]
    rows = np.arange(height) * weights.shape[0] // height
    columns = np.arange(width) * weights.shape[1] // width
    share = (weights / max(float(weights.max()), 1e-9))[rows][:, columns][..., None]
    bright = pixels * (MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * share)
    tinted: Pixels = (
        (bright * (1 - TINT_STRENGTH * share) + TINT_COLOUR * TINT_STRENGTH * share).clip(0, 255).astype(np.uint8)
    )
    return tinted


def _font(text: str) -> Any:
    """Pillow's own font, or an installed one with the letters that it lacks."""
    fonts = require("PIL.ImageFont", extra="vision")
    if text.isascii():
        return fonts.load_default(15)
    for name in FONTS:
        try:
            return fonts.truetype(name, 15)
        except OSError:
            continue
    return fonts.load_default(15)
