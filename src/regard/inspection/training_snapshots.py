"""Snapshots of a fixed example through training: one small file a step in RUN/probes, read back for the slider."""

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
    """Keep the maps of the recipe's probe if this is a step at which to, and there are any.

    The model is shown the true answer where the data has it, so that the rows are the same at every step; what it
    answers itself by then is kept in words.
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
        own = subject.inspect(text).outputs
    forced = replace(subject, decoding=build("prefix", tokens=reference))
    write_snapshot(run, step, replace(inspect_quickly(forced, text), outputs=own), fixed=True)


def is_snapshot_step(step: int) -> bool:
    """The steps 1, 2, 3, 4, 6, 8, 11, 16 …, each √2 times the last: much is learnt early, little late."""
    return any(step == round(2 ** (half / 2)) for half in range(2 * step.bit_length() + 1))


def write_snapshot(run: Path, step: int, inspection: Inspection, *, fixed: bool = False) -> None:
    """Keep the maps of an inspection made at a step; `fixed`: its rows are the same at every step."""
    facts = {
        "step": step,
        "output": inspection.outputs[0].text if inspection.outputs else "",
        "text": inspection.title or inspection.text,
        "fixed": fixed,
        "axes": axes_to_json(inspection.axes),
        "maps": [map_to_json(attention) for attention in inspection.maps],
    }
    tensors = {attention.name: attention.weights.astype(np.float16) for attention in inspection.maps}
    write_bytes(path_of(run, step), save(tensors, metadata={"probe": json.dumps(facts, ensure_ascii=False)}))


def path_of(run: Path, step: int) -> Path:
    """The file of a step."""
    return run / FOLDER / f"step-{step:09d}.safetensors"


def read_snapshots(run: Path) -> tuple[TrainingSnapshot, ...]:
    """All snapshots of a run in the order of their steps; none if it kept none."""
    return tuple(_read(path) for path in sorted((run / FOLDER).glob("step-*.safetensors")))


def _read(path: Path) -> TrainingSnapshot:
    content = path.read_bytes()
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        facts: dict[str, Any] = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["probe"])
    except (SafetensorError, KeyError, ValueError):
        raise CheckpointError(f"{path}: not a snapshot of a probe; remove it, the others can still be shown") from None
    axes = {name: _axis(name, axis) for name, axis in facts["axes"].items()}
    maps = tuple(_map(names, tensors) for names in facts["maps"])
    return TrainingSnapshot(
        facts["step"], axes, maps, facts["output"], facts.get("text", ""), facts.get("fixed", False)
    )


def _axis(name: str, axis: dict[str, Any]) -> Axis:
    """An axis as it was written; in snapshots of an earlier version it was a list of labels."""
    items = axis.get("items") or [{"text": label} for label in axis["labels"]]
    return Axis(tuple(Item(**item) for item in items), axis.get("title", name), _parent(axis.get("parent")))


def _map(names: dict[str, Any] | list[Any], tensors: dict[str, FloatArray]) -> Map:
    """A map as it was written; in snapshots of an earlier version a list of names stood for it."""
    if isinstance(names, list):
        name, group, layer, queries, keys = names
        title = title_of(queries, keys, inward=group != "cross")
        names = {"name": name, "module": name, "group": group, "layer": layer, "queries": queries, "keys": keys}
        names |= {"title": title, "inward": group != "cross"}
    parent = _parent(names.get("parent"))
    return Map(**{**names, "parent": parent}, weights=tensors[names["name"]].astype(np.float32))


def _parent(parent: dict[str, Any] | None) -> Parent | None:
    return None if parent is None else Parent(**parent)
