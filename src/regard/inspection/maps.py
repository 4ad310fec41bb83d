"""Convert recorded attention weights to maps with batch row, axes, group, layer and parent."""

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
    """One batch row of recorded weights, and the axes of its queries and keys."""

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
    """Return all axes and a map for every batch row that the axes name, ordered by group, with layer indices.

    With `recorded_calls`, short maps have their masks. The weights of disabled heads are zero.
    """
    axes, layers, maps = dict(inspectable.axes), dict[str, int](), list[Map]()
    for module, attention in recorded.items():
        rows = _batch_rows(module, attention, inspectable, axes)
        for row in rows:
            name = module if len(rows) == 1 else f"{module} #{row.batch + 1}"
            queries, keys = axes[row.queries], axes[row.keys]
            weights = _unpadded(name, attention, row, rows=len(queries.items), columns=len(keys.items))
            weights[[head for head in range(len(weights)) if (module, head) in disabled_heads]] = 0
            group = f"{row.queries} > {row.keys}"
            layers[group] = layers.get(group, -1) + 1
            inward = attention.queries == attention.keys
            mask = (
                None
                if recorded_calls is None or is_long(weights)
                else combined_mask(recorded_calls[module], row.batch, weights.shape[1:])
            )
            maps.append(
                Map(
                    name,
                    module,
                    row.queries,
                    row.keys,
                    weights,
                    group=group,
                    title=title_of(queries.title, keys.title, inward=inward),
                    layer=layers[group],
                    inward=inward,
                    batch=row.batch,
                    parent=keys.parent or queries.parent,
                    allowed=mask,
                )
            )
    order = list(layers)
    return axes, tuple(sorted(maps, key=lambda attention: order.index(attention.group)))


def title_of(queries: str, keys: str, *, inward: bool) -> str:
    """Return the title of the attention between two axes."""
    title = f"{queries} self-attention" if inward else f"{queries} → {keys}"
    return title[:1].upper() + title[1:]


def is_long(weights: FloatArray) -> bool:
    """Return True if a map (h t s) is too long for anything except its image."""
    return bool(max(weights.shape[1:]) > TILE)


def _batch_rows(module: str, attention: AttentionMap, inspectable: Inspectable, axes: Axes) -> list[MapAxes]:
    _, _, t, s = attention.weights.shape
    query_refs = inspectable.query_axes.get(attention.queries) or (_numbered(attention.queries, t, axes),)
    key_refs = inspectable.key_axes.get(attention.keys) or (_numbered(attention.keys, s, axes),)
    named = {ref.batch for ref in (*query_refs, *key_refs) if ref.batch is not None} or {0}
    candidates = [(batch, _axis(query_refs, batch), _axis(key_refs, batch)) for batch in sorted(named)]
    rows = [
        MapAxes(batch, queries, keys) for batch, queries, keys in candidates if queries is not None and keys is not None
    ]
    if not rows or rows[-1].batch >= len(attention.weights):
        raise ShapeError(
            f"map {module}: axes name the batch rows {sorted(named)}, but the batch has {len(attention.weights)} rows; "
            f"name the same rows, from 0, for queries {attention.queries!r} and keys {attention.keys!r}"
        )
    return rows


def _axis(refs: Sequence[AxisRef], batch: int) -> str | None:
    return next((ref.axis for ref in refs if ref.batch in (None, batch)), None)


def _numbered(name: str, size: int, axes: Axes) -> AxisRef:
    """Add an axis with numbered items, for a name that the task does not describe."""
    axis = f"{name} {size}"
    axes.setdefault(axis, Axis(tuple(Item(str(index + 1)) for index in range(size)), name))
    return AxisRef(axis, None)


@torch.no_grad()
def _unpadded(name: str, attention: AttentionMap, row: MapAxes, *, rows: int, columns: int) -> FloatArray:
    """Return the weights (h t s) of one batch row, without padding. Padding keys have no weight. Padding queries may
    have weights, but only in a batch of several rows."""
    batch = attention.weights
    weights = np.array(batch[row.batch].float().cpu().numpy(), dtype=np.float32)
    beyond = weights[:, :rows, columns:].any() or (len(batch) == 1 and weights[:, rows:].any())
    if beyond:
        _, t, s = weights.shape
        raise ShapeError(
            f"map {name}: {t} × {s} weights, but axis {row.queries!r} has {rows} items and {row.keys!r} {columns}, "
            "and the rest is not padding; provide one item per row and column"
        )
    return weights[:, :rows, :columns]
