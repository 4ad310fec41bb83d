"""Drawing of detections: the original image with a box, class and score for each object, and a legend of classes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.core.extras import require
from regard.data.images import drawing
from regard.data.images.image_files import Pixels, to_image

Colour = tuple[int, int, int]
LINE_SHARE = 1 / 200  # width of a line as a share of the longer side
MIN_FONT_SIZE, FONT_SHARE = 12, 1 / 40  # of the longer side
PADDING = 3  # pixels around a text
PAPER, INK = (255, 255, 255), (20, 20, 20)


class LabelledBox(NamedTuple):
    """A box in pixels of the image, its text, and the colour of its class."""

    box: tuple[int, int, int, int]  # left, top, right, bottom
    text: str
    colour: Colour


def render_boxes(pixels: Pixels, boxes: Sequence[LabelledBox], legend: Sequence[tuple[str, Colour]]) -> bytes:
    """An image (h w c), its labelled boxes, and (class, colour) of the legend -> a PNG file.

    A small image is enlarged by an integer factor; the legend is below the image.
    """
    drawings = require("PIL.ImageDraw", extra="vision")
    height, width = pixels.shape[:2]
    scale = drawing.display_scale(height, width)
    image = to_image(pixels.repeat(scale, axis=0).repeat(scale, axis=1)).convert("RGB")
    font = drawing.load_font(
        "".join(name for name, _ in legend), max(MIN_FONT_SIZE, round(max(image.size) * FONT_SHARE))
    )
    line = max(1, round(max(image.size) * LINE_SHARE))
    draw = drawings.Draw(image)
    for labelled in boxes:
        corners = [edge * scale for edge in labelled.box]
        draw.rectangle(
            (*corners[:2], max(corners[2], corners[0] + 1), max(corners[3], corners[1] + 1)),
            outline=labelled.colour,
            width=line,
        )
    for labelled in boxes:  # texts above all lines
        _draw_label(draw, labelled, image.size, scale=scale, font=font)
    return _encode(_with_legend(image, legend, font))


def _draw_label(draw: Any, labelled: LabelledBox, size: tuple[int, int], *, scale: int, font: Any) -> None:
    """Write the text of a box on its upper edge, moved into the image if it would be cut."""
    width, height = _text_size(draw, labelled.text, font)
    left = max(0, min(labelled.box[0] * scale, size[0] - width))
    above = labelled.box[1] * scale - height
    top = above if above >= 0 else max(0, min(labelled.box[1] * scale, size[1] - height))
    draw.rectangle((left, top, left + width, top + height), fill=labelled.colour)
    draw.text((left + PADDING, top + PADDING), labelled.text, fill=_readable(labelled.colour), font=font, anchor="lt")


def _with_legend(image: Any, legend: Sequence[tuple[str, Colour]], font: Any) -> Any:
    """Return the image with a line below it that names the class of each colour."""
    if not legend:
        return image
    library, drawings = require("PIL.Image", extra="vision"), require("PIL.ImageDraw", extra="vision")
    draw = drawings.Draw(image)
    sizes = [_text_size(draw, name, font) for name, _ in legend]
    side = max(height for _, height in sizes)
    places, left, top = [], PADDING, 0
    for width, _ in sizes:
        if left > PADDING and left + side + width > image.width:
            left, top = PADDING, top + side + PADDING
        places.append((left, top))
        left += side + width + 2 * PADDING
    canvas = library.new("RGB", (image.width, image.height + top + side + 2 * PADDING), PAPER)
    canvas.paste(image, (0, 0))
    draw = drawings.Draw(canvas)
    for (name, colour), (left, top) in zip(legend, places, strict=True):
        y = image.height + PADDING + top
        draw.rectangle((left, y, left + side - PADDING, y + side - PADDING), fill=colour, outline=INK)
        draw.text((left + side, y + PADDING), name, fill=INK, font=font, anchor="lt")
    return canvas


def _text_size(draw: Any, text: str, font: Any) -> tuple[int, int]:
    """Return width and height of a text with padding."""
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font, anchor="lt")
    return int(right - left) + 2 * PADDING, int(bottom - top) + 2 * PADDING


def _readable(colour: Colour) -> Colour:
    """Return black or white, whichever is readable on a colour."""
    red, green, blue = colour
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 128 else PAPER


def _encode(image: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()
