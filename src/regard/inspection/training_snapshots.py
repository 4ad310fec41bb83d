"""Attention maps of a fixed example during training: one small file per step in RUN/probes, shown by a slider."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import nn

from regard.core.errors import CheckpointError
from regard.core.files import write_bytes
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Axis, Item, Parent
from regard.core.task import Task
from regard.decoding.strategy import build
from regard.inspection.collect import InspectionTarget, RunInfo, inspect_quickly
from regard.inspection.json_format import Inspection, Map, TrainingSnapshot, axes_to_json, map_to_json
from regard.inspection.map_tiles import FloatArray
from regard.inspection.maps import title_of

FOLDER = "probes"


def record_snapshot(recipe: Any, task: Task, *, model: nn.Module, run: Path, step: int, last: bool = False) -> None:
    """Store the maps of training.probe_input if a snapshot is due at this step and the model has attention.

    If the data has a reference output, the model is teacher-forced with it, so that the rows are the same at every
    step; the model's own output is stored as text.
    """
    text = recipe.training.probe_input
    subject = InspectionTarget(task, model, recipe.decoding, RunInfo(recipe.task.name, recipe.model.name))
    if not text or not (is_snapshot_step(step) or last) or not subject.has_attention:
        return
    reference = None if recipe.decoding is None else task.reference(task.parse_input(text))
    if reference is None:
        write_snapshot(run, step, inspect_quickly(subject, text))
        return
    with eval_mode(model):
        outputs = subject.inspect(text).outputs
    forced = replace(subject, decoding=build("forced_prefix", tokens=reference))
    write_snapshot(run, step, replace(inspect_quickly(forced, text), outputs=outputs), fixed=True)


def is_snapshot_step(step: int) -> bool:
    """Return True for the steps 1, 2, 3, 4, 6, 8, 11, 16 …, each √2 times the previous: most is learned early."""
    return any(step == round(2 ** (half / 2)) for half in range(2 * step.bit_length() + 1))


def write_snapshot(run: Path, step: int, inspection: Inspection, *, fixed: bool = False) -> None:
    """Store the maps of an inspection at a step; `fixed`: its rows are the same at every step."""
    metadata = {
        "step": step,
        "output": inspection.outputs[0].text if inspection.outputs else "",
        "text": inspection.title or inspection.text,
        "fixed": fixed,
        "axes": axes_to_json(inspection.axes),
        "maps": [map_to_json(attention) for attention in inspection.maps],
    }
    tensors = {attention.name: attention.weights.astype(np.float16) for attention in inspection.maps}
    write_bytes(path_of(run, step), save(tensors, metadata={"probe": json.dumps(metadata, ensure_ascii=False)}))


def path_of(run: Path, step: int) -> Path:
    """Return the file of a step."""
    return run / FOLDER / f"step-{step:09d}.safetensors"


def read_snapshots(run: Path) -> tuple[TrainingSnapshot, ...]:
    """Read all snapshots of a run, ordered by step."""
    return tuple(_read(path) for path in sorted((run / FOLDER).glob("step-*.safetensors")))


def _read(path: Path) -> TrainingSnapshot:
    content = path.read_bytes()
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        metadata: dict[str, Any] = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["probe"])
    except (SafetensorError, KeyError, ValueError):
        raise CheckpointError(f"{path}: not a snapshot of attention maps; remove it to show the others") from None
    axes = {name: _axis(name, axis) for name, axis in metadata["axes"].items()}
    maps = tuple(_map(table, tensors) for table in metadata["maps"])
    return TrainingSnapshot(
        metadata["step"], axes, maps, metadata["output"], metadata.get("text", ""), metadata.get("fixed", False)
    )


def _axis(name: str, axis: dict[str, Any]) -> Axis:
    """Read an axis; earlier versions stored a list of labels."""
    items = axis.get("items") or [{"text": label} for label in axis["labels"]]
    return Axis(tuple(Item(**item) for item in items), axis.get("title", name), _parent(axis.get("parent")))


def _map(table: dict[str, Any] | list[Any], tensors: dict[str, FloatArray]) -> Map:
    """Read a map; earlier versions stored a list of names."""
    if isinstance(table, list):
        name, group, layer, queries, keys = table
        title = title_of(queries, keys, inward=group != "cross")
        table = {"name": name, "module": name, "group": group, "layer": layer, "queries": queries, "keys": keys}
        table |= {"title": title, "inward": group != "cross"}
    parent = _parent(table.get("parent"))
    return Map(**{**table, "parent": parent}, weights=tensors[table["name"]].astype(np.float32))


def _parent(parent: dict[str, Any] | None) -> Parent | None:
    return None if parent is None else Parent(**parent)
