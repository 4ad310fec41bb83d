"""Recorded weights to maps: which row of the batch, which axes, which group and layer, which parent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from regard.attention.record import AttentionMap
from regard.core.errors import ShapeError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item
from regard.inspection.call_recorder import AttentionCall, combined_mask
from regard.inspection.json_format import Map
from regard.inspection.map_tiles import TILE, FloatArray

Axes = dict[str, Axis]


class MapAxes(NamedTuple):
    """One row of the batch of a recorded map, and the axes of its queries and keys."""

    batch: int
    queries: str
    keys: str


def to_maps(
    recorded: Mapping[str, AttentionMap],
    inspectable: Inspectable,
    *,
    recorded_calls: Mapping[str, Sequence[AttentionCall]] | None = None,
    disabled_heads: Collection[tuple[str, int]] = (),
) -> tuple[Axes, tuple[Map, ...]]:
    """Recorded maps -> all axes and, for every batch row that the input names, a map; groups stay together, layers are
    numbered. With the calls of attention (`seen`), short maps have their masks. A switched-off head is zeros."""
    axes, layers, maps = dict(inspectable.axes), dict[str, int](), list[Map]()
    for module, attention in recorded.items():
        spots = _spots(module, attention, inspectable, axes)
        for spot in spots:
            name = module if len(spots) == 1 else f"{module} #{spot.batch + 1}"
            queries, keys = axes[spot.queries], axes[spot.keys]
            weights = _cut(name, attention, spot, rows=len(queries.items), columns=len(keys.items))
            weights[[head for head in range(len(weights)) if (module, head) in disabled_heads]] = 0
            group = f"{spot.queries} > {spot.keys}"
            layers[group] = layers.get(group, -1) + 1
            inward = attention.queries == attention.keys
            mask = (
                None
                if recorded_calls is None or is_long(weights)
                else combined_mask(recorded_calls[module], spot.batch, weights.shape[1:])
            )
            maps.append(
                Map(
                    name,
                    module,
                    spot.queries,
                    spot.keys,
                    weights,
                    group=group,
                    title=title_of(queries.title, keys.title, inward=inward),
                    layer=layers[group],
                    inward=inward,
                    batch=spot.batch,
                    parent=keys.parent or queries.parent,
                    allowed=mask,
                )
            )
    order = list(layers)
    return axes, tuple(sorted(maps, key=lambda one: order.index(one.group)))


def title_of(queries: str, keys: str, *, inward: bool) -> str:
    """What people call the attention between two axes."""
    title = f"{queries} self-attention" if inward else f"{queries} → {keys}"
    return title[:1].upper() + title[1:]


def is_long(weights: FloatArray) -> bool:
    """Whether a map (h t s) is too long for anything but its picture."""
    return bool(max(weights.shape[1:]) > TILE)


def _spots(module: str, attention: AttentionMap, shown: Inspectable, axes: Axes) -> list[MapAxes]:
    _, _, t, s = attention.weights.shape
    rows = shown.query_axes.get(attention.queries) or (_numbered(attention.queries, t, axes),)
    columns = shown.key_axes.get(attention.keys) or (_numbered(attention.keys, s, axes),)
    named = {place.batch for place in (*rows, *columns) if place.batch is not None} or {0}
    pairs = [(batch, _axis(rows, batch), _axis(columns, batch)) for batch in sorted(named)]
    spots = [
        MapAxes(batch, queries, keys) for batch, queries, keys in pairs if queries is not None and keys is not None
    ]
    if not spots or spots[-1].batch >= len(attention.weights):
        raise ShapeError(
            f"map {module}: of the {len(attention.weights)} rows of its batch, rows {sorted(named)} are named; name "
            f"the same rows for its queries {attention.queries!r} and keys {attention.keys!r}, counted from 0"
        )
    return spots


def _axis(places: Sequence[AxisRef], batch: int) -> str | None:
    return next((place.axis for place in places if place.batch in (None, batch)), None)


def _numbered(name: str, size: int, axes: Axes) -> AxisRef:
    """A place for what the task does not know: items with numbers for names."""
    axis = f"{name} {size}"
    axes.setdefault(axis, Axis(tuple(Item(str(number + 1)) for number in range(size)), name))
    return AxisRef(axis, None)


@torch.no_grad()
def _cut(name: str, attention: AttentionMap, spot: MapAxes, *, rows: int, columns: int) -> FloatArray:
    """(h t s) of one row of the batch, without padding. Keys of padding get no weight; queries of padding may look, but
    only a batch of several rows has them."""
    whole = attention.weights
    weights = np.array(whole[spot.batch].float().cpu().numpy(), dtype=np.float32)
    beyond = weights[:, :rows, columns:].any() or (len(whole) == 1 and weights[:, rows:].any())
    if beyond:
        _, t, s = weights.shape
        raise ShapeError(
            f"map {name}: {t} × {s} weights, but axis {spot.queries!r} has {rows} items and {spot.keys!r} {columns}, "
            "and what lies beyond is not padding; give one item per row and column"
        )
    return weights[:, :rows, :columns]
