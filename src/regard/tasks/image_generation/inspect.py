"""Inspection of generated images: every position with its pixel, its attention, and a replay."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.image_layout import ImageBlocks1D, ImageBlocks2D, visible_positions
from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import DataError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.protocols.image_generator import ImageCondition, ImageGenerator
from regard.data.images.image_files import Pixels
from regard.tasks._shared.teacher_forcing import with_alternatives
from regard.tasks.image_generation.levels import decode, upscale_bicubic
from regard.tasks.image_generation.prompts import PreparedRequest

MAX_POSITIONS = 1600  # positions of an image: maps of more would make a page of hundreds of megabytes


def build_inspectable(
    model: ImageGenerator, levels: Tensor, request: PreparedRequest, *, sizes: ImageGenerationSpec, title: str
) -> Inspectable:
    """An image as levels (1 n) -> its positions in the order of generation, and a replay."""
    order = model.order
    if len(order) > MAX_POSITIONS:
        raise DataError(
            f"an image of {len(order)} positions is too large to inspect; train a model of at most {MAX_POSITIONS}"
        )
    device = order.device
    levels, condition = levels.to(device), ImageCondition(*(x.to(device) for x in request.condition))
    labels = levels[:, order]  # (1 t) or (1 t c)
    tokens = torch.cat([torch.full_like(labels[:, :1], sizes.levels), labels[:, :-1]], dim=1)

    def replay() -> Tensor:
        features, _ = model.features(tokens, model.start(condition))
        return _channel_logits(model, features[0], labels[0])

    start_time = time.perf_counter()
    log_probs = replay().log_softmax(dim=-1)
    seconds = time.perf_counter() - start_time
    predicted_ids = labels[0].flatten()
    total = float(log_probs.gather(1, predicted_ids[:, None]).sum())
    items = position_items(order, levels[0], sizes)
    is_single_channel = labels.dim() == 2 or labels.shape[2] == 1
    output_tokens = (
        with_alternatives(predicted_ids.tolist(), log_probs, lambda token, _: str(token)) if is_single_channel else ()
    )
    bits = -total / len(predicted_ids) / np.log(2)
    axes = {"made": Axis(items, "made"), "seen": Axis((Item("start", special=True), *items[:-1]), "seen")}
    query_axes: dict[str, tuple[AxisRef, ...]] = {"image": (AxisRef("made"),)}
    key_axes: dict[str, tuple[AxisRef, ...]] = {"image": (AxisRef("seen"),)}
    if min(sizes.low_res_size):
        axes["small"] = Axis(_low_res_items(condition.low_res[0], sizes), "small image")
        query_axes["small image"] = key_axes["small image"] = (AxisRef("small"),)
    return Inspectable(
        title=title,
        axes=axes,
        query_axes=query_axes,
        key_axes=key_axes,
        outputs=(Output(f"{bits:.3f} bits per dimension", score=total, rank=-bits, tokens=output_tokens),),
        replay=replay,
        predicted_ids=predicted_ids,
        seconds=seconds,
        answer_axis="made" if is_single_channel else "",
        views=("canvas",),
        remarks=() if request.image is None else request.image.remarks,
        extra={"canvas": _canvas_data(model, levels, request, sizes)},
    )


def _channel_logits(model: ImageGenerator, features: Tensor, labels: Tensor) -> Tensor:
    """Features (t d) and levels (t) or (t c) -> logits (t·c levels), each channel conditioned on those before it."""
    values = labels.view(len(labels), -1)
    logits = [model.readout.logits(features, values[:, :channel]) for channel in range(values.shape[1])]
    return torch.stack(logits, dim=1).flatten(0, 1)


def position_items(order: Tensor, levels: Tensor, sizes: ImageGenerationSpec) -> tuple[Item, ...]:
    """Return an item per position, with its row, column, levels and box."""
    channel_names = ("",) if sizes.channels == 1 or order.dim() == 2 else ("r", "g", "b")
    items = []
    for position, pixels in enumerate(order.view(len(order), -1).tolist()):
        row, column = divmod(pixels[0] // sizes.channels, sizes.width)
        values = ",".join(str(int(levels[pixel])) for pixel in pixels)
        text = f"{row},{column}{channel_names[position % len(channel_names)]}={values}"
        items.append(Item(text, box=_box(row, column, sizes.height, sizes.width)))
    return tuple(items)


def _low_res_items(low_res: Tensor, sizes: ImageGenerationSpec) -> tuple[Item, ...]:
    rows, columns = sizes.low_res_size
    items = []
    for index, levels in enumerate(low_res.view(-1, sizes.channels).tolist()):
        row, column = divmod(index, columns)
        items.append(Item(f"{row},{column}={','.join(map(str, levels))}", box=_box(row, column, rows, columns)))
    return tuple(items)


def _box(row: int, column: int, height: int, width: int) -> tuple[float, float, float, float]:
    return column / width, row / height, (column + 1) / width, (row + 1) / height


def _canvas_data(model: Any, levels: Tensor, request: PreparedRequest, sizes: ImageGenerationSpec) -> dict[str, Any]:
    """Return the data of the page: the image, and the blocks of positions with the positions they attend to."""
    layouts = [getattr(attention, "layout", None) for attention in model.modules() if hasattr(attention, "layout")]
    layout: ImageBlocks2D | ImageBlocks1D | None = layouts[0] if layouts else None
    data: dict[str, Any] = {
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
        small = decode(request.condition.low_res, sizes, size=sizes.low_res_size)
        data["small"] = {"height": sizes.low_res_size[0], "width": sizes.low_res_size[1], "pixels": _flatten(small[0])}
        data["bicubic"] = _flatten(upscale_bicubic(small, sizes)[0])
    if request.ground_truth is not None:
        data["truth"] = _flatten(request.ground_truth)
    return data


def _flatten(image: Pixels) -> list[list[int]]:
    pixels: list[list[int]] = image.reshape(-1, image.shape[2]).tolist()
    return pixels
