"""Images that were made, as answers and as they are shown: every place with its pixel, and what it looked at."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.image_layout import ImageBlocks1D, ImageBlocks2D, visible_positions
from regard.core.data_specs import ImageGenerationSpec as PixelSizes
from regard.core.errors import DataError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.protocols.image_generator import ImageCondition, ImageGenerator
from regard.core.task import Prediction
from regard.data.images import drawing
from regard.data.images.image_files import Pixels, encode_png
from regard.data.images.resize import ImageShape, to_levels
from regard.tasks._shared.image_inputs import InputImage, format_remarks, resize_image, title_with_remarks
from regard.tasks._shared.teacher_forcing import with_alternatives
from regard.tasks.image_generation.generate import UNKNOWN
from regard.tasks.image_generation.levels import decode, downscale, image_condition, upscale_bicubic

MAX_POSITIONS = 1600  # places: maps of more would make a page of hundreds of megabytes


def prepare_completion(image: InputImage, sizes: PixelSizes, *, keep_rows: int) -> tuple[InputImage, Tensor]:
    """An image whose upper rows are kept -> the same as wide as the canvas, and levels (1 n), UNKNOWN where they are to
    be made."""
    height, width, channels = image.pixels.shape
    if height > sizes.height or width > sizes.width:
        size, canvas = f"{height}x{width}", f"{sizes.height}x{sizes.width}"
        raise DataError(f"{image.name}: {size} pixels, larger than the canvas of {canvas}; scale it down first")
    if width < sizes.width:
        high = max(1, round(height * sizes.width / width))
        image = resize_image(image, ImageShape(min(high, sizes.height), sizes.width, channels))
    there = len(image.pixels)
    kept = keep_rows or (there if there < sizes.height else sizes.height // 2)
    if kept > there:
        raise DataError(f"{image.name}: {kept} rows are to be kept, but it has {there}")
    known = torch.full((sizes.height, sizes.width, channels), UNKNOWN)
    known[:kept] = torch.from_numpy(to_levels(image.pixels[:kept], sizes.levels).astype(np.int64))
    return image, known.view(1, -1)


class PreparedRequest(NamedTuple):
    """A request as the model takes it."""

    image: InputImage | None  # what was made of the image
    condition: ImageCondition
    known_levels: Tensor | None = None  # levels (b n), UNKNOWN where they are to be made
    ground_truth: Pixels | None = None  # (h w c), where the image that is made small and enlarged again is known


def prepare(
    image: InputImage | None, sizes: PixelSizes, *, keep_rows: int, labels: NDArray[np.int64]
) -> PreparedRequest:
    """An image to be completed or enlarged, or none. One that is as large as the result of enlarging is made small:
    so what is made can be compared with it."""
    if image is None or not min(sizes.low_res_size):
        used, known = (None, None) if image is None else prepare_completion(image, sizes, keep_rows=keep_rows)
        return PreparedRequest(used, image_condition(labels, np.zeros((len(labels), 0), np.uint8), sizes), known)
    height, width, channels = image.pixels.shape
    if (height, width) == (sizes.height, sizes.width):
        remark = f"{height}x{width} pixels, as the result has: made small first"
        used = image._replace(remarks=(*image.remarks, remark))
        return PreparedRequest(
            used, image_condition(labels, downscale(image.pixels[None], sizes), sizes), ground_truth=image.pixels
        )
    used = resize_image(image, ImageShape(*sizes.low_res_size, channels))
    return PreparedRequest(used, image_condition(labels, to_levels(used.pixels[None], sizes.levels), sizes))


def prediction_title(image: InputImage | None, size: tuple[int, int], *, label: str, count: int) -> str:
    """What was made of what, in a line."""
    size_text, of = f"{size[0]}x{size[1]}", f" of class {label}" if label else ""
    if image is None:
        return f"{count} images of {size_text}{of}" if count > 1 else f"an image of {size_text}{of}"
    return f"{image.name} made to {size_text}{of}"


def to_prediction(images: Pixels, image: InputImage | None, *, scale: int, label: str) -> Prediction:
    """Images (n h w c) on one sheet."""
    sheet = drawing.make_grid(images)
    scale = scale or drawing.display_scale(*sheet.shape[:2])
    return Prediction(
        prediction_title(image, (images.shape[1], images.shape[2]), label=label, count=len(images)),
        value=images,
        remarks=format_remarks(image),
        files={".png": partial(encode_png, sheet, scale=scale), ".txt": lambda: drawing.to_text(sheet).encode()},
    )


def build_inspectable(
    model: ImageGenerator, levels: Tensor, request: PreparedRequest, *, sizes: PixelSizes, title: str
) -> Inspectable:
    """An image as levels (1 n) -> its places in the order of making, and the model run again over them."""
    subject = request.condition
    order = model.order
    if len(order) > MAX_POSITIONS:
        raise DataError(
            f"an image of {len(order)} places is too large to be looked into; train one of at most {MAX_POSITIONS}"
        )
    device = order.device
    levels, subject = levels.to(device), ImageCondition(*(x.to(device) for x in subject))
    labels = levels[:, order]  # (1 t) or (1 t c)
    tokens = torch.cat([torch.full_like(labels[:, :1], sizes.levels), labels[:, :-1]], dim=1)

    def replay() -> Tensor:
        features, _ = model.features(tokens, model.start(subject))
        return _every_channel(model, features[0], labels[0])

    begun = time.perf_counter()
    scores = replay().log_softmax(dim=-1)
    seconds = time.perf_counter() - begun
    chosen = labels[0].flatten()
    total = float(scores.gather(1, chosen[:, None]).sum())
    items = _items(order, levels[0], sizes)
    single = labels.dim() == 2 or labels.shape[2] == 1
    each = with_alternatives(chosen.tolist(), scores, lambda token, _: str(token)) if single else ()
    bits = -total / len(chosen) / np.log(2)
    axes = {"made": Axis(items, "made"), "seen": Axis((Item("start", special=True), *items[:-1]), "seen")}
    rows: dict[str, tuple[AxisRef, ...]] = {"image": (AxisRef("made"),)}
    columns: dict[str, tuple[AxisRef, ...]] = {"image": (AxisRef("seen"),)}
    if min(sizes.low_res_size):
        axes["small"] = Axis(_cells(subject.low_res[0], sizes), "small image")
        rows["small image"] = columns["small image"] = (AxisRef("small"),)
    return Inspectable(
        title=title_with_remarks(title, request.image),
        axes=axes,
        query_axes=rows,
        key_axes=columns,
        outputs=(Output(f"{bits:.3f} bits per dimension", score=total, rank=-bits, tokens=each),),
        replay=replay,
        predicted_ids=chosen,
        seconds=seconds,
        answer_axis="made" if single else "",
        views=("canvas",),
        extra={"canvas": _extra(model, levels, request, sizes)},
    )


def _every_channel(model: ImageGenerator, features: Tensor, labels: Tensor) -> Tensor:
    """Features (t d) and levels (t) or (t c) -> logits (t·c levels), each channel given those before it."""
    values = labels.view(len(labels), -1)
    each = [model.readout.logits(features, values[:, :channel]) for channel in range(values.shape[1])]
    return torch.stack(each, dim=1).flatten(0, 1)


def _items(order: Tensor, levels: Tensor, sizes: PixelSizes) -> tuple[Item, ...]:
    """Every place with its level(s), row, column and box."""
    names = ("",) if sizes.channels == 1 or order.dim() == 2 else ("r", "g", "b")
    items = []
    for place, spots in enumerate(order.view(len(order), -1).tolist()):
        row, column = divmod(spots[0] // sizes.channels, sizes.width)
        values = ",".join(str(int(levels[spot])) for spot in spots)
        text = f"{row},{column}{names[place % len(names)]}={values}"
        items.append(Item(text, box=_box(row, column, sizes.height, sizes.width)))
    return tuple(items)


def _cells(small: Tensor, sizes: PixelSizes) -> tuple[Item, ...]:
    rows, columns = sizes.low_res_size
    values = small.view(-1, sizes.channels).tolist()
    return tuple(
        Item(f"{place // columns},{place % columns}={','.join(map(str, value))}",
             box=_box(place // columns, place % columns, rows, columns))
        for place, value in enumerate(values)
    )  # fmt: skip


def _box(row: int, column: int, height: int, width: int) -> tuple[float, float, float, float]:
    return column / width, row / height, (column + 1) / width, (row + 1) / height


def _extra(model: Any, levels: Tensor, asked: PreparedRequest, sizes: PixelSizes) -> dict[str, Any]:
    """Plain values for the view: the image, and of every place its block and what the block may look at."""
    layouts = [getattr(attention, "layout", None) for attention in model.modules() if hasattr(attention, "layout")]
    layout: ImageBlocks2D | ImageBlocks1D | None = layouts[0] if layouts else None
    extra: dict[str, Any] = {
        "height": sizes.height,
        "width": sizes.width,
        "channels": sizes.channels,
        "pixels": decode(levels, sizes)[0].reshape(-1, sizes.channels).tolist(),
        "blocks": [] if layout is None else [list(layout.bounds(block)) for block in range(layout.num_blocks)],
        "memories": []
        if layout is None
        else [visible_positions(layout, block).tolist() for block in range(layout.num_blocks)],
    }
    if min(sizes.low_res_size):
        small = decode(asked.condition.low_res, sizes, size=sizes.low_res_size)
        extra["small"] = {"height": sizes.low_res_size[0], "width": sizes.low_res_size[1], "pixels": _flat(small[0])}
        extra["bicubic"] = _flat(upscale_bicubic(small, sizes)[0])
    if asked.ground_truth is not None:
        extra["truth"] = _flat(asked.ground_truth)
    return extra


def _flat(image: Pixels) -> list[list[int]]:
    flat: list[list[int]] = image.reshape(-1, image.shape[2]).tolist()
    return flat
