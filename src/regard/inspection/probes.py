"""Snapshots of fixed examples through training: one small file a step in RUN/probes, read back for the slider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import nn

from regard.core.errors import CheckpointError
from regard.core.files import write_bytes
from regard.inspection.collect import About, Subject, glance
from regard.inspection.format import Axis, Inspection, Map, Probe

FOLDER = "probes"


def watch(recipe: Any, task: Any, *, model: nn.Module, run: Path, step: int) -> None:
    """Keep the maps of the recipe's probe if this is a step at which to."""
    text = recipe.training.probe
    if text and due(step):
        about = About(recipe.task.name, recipe.model.name)
        write(run, step, glance(Subject(task, model, recipe.decoder(), about), text))


def due(step: int) -> bool:
    """The steps 1, 2, 3, 4, 6, 8, 11, 16 …, each √2 times the last: much is learnt early, little late."""
    return any(step == round(2 ** (half / 2)) for half in range(2 * step.bit_length() + 1))


def write(run: Path, step: int, found: Inspection) -> Path:
    """Keep the maps of an inspection made at a step."""
    facts = {
        "step": step,
        "output": found.outputs[0].text if found.outputs else "",
        "axes": {name: {"labels": list(axis.labels), "kind": axis.kind} for name, axis in found.axes.items()},
        "maps": [[one.name, one.group, one.layer, one.queries, one.keys] for one in found.maps],
    }
    tensors = {one.name: one.weights.astype(np.float16) for one in found.maps}
    path = run / FOLDER / f"step-{step:09d}.safetensors"
    write_bytes(path, save(tensors, metadata={"probe": json.dumps(facts, ensure_ascii=False)}))
    return path


def read(run: Path) -> tuple[Probe, ...]:
    """All snapshots of a run in the order of their steps; none if it kept none."""
    return tuple(_read(path) for path in sorted((run / FOLDER).glob("step-*.safetensors")))


def _read(path: Path) -> Probe:
    content = path.read_bytes()
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        facts: dict[str, Any] = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["probe"])
    except (SafetensorError, KeyError, ValueError):
        raise CheckpointError(f"{path}: not a snapshot of a probe; remove it, the others can still be shown") from None
    axes = {name: Axis(tuple(axis["labels"]), axis["kind"]) for name, axis in facts["axes"].items()}
    maps = tuple(_map(names, tensors) for names in facts["maps"])
    return Probe(facts["step"], axes, maps, facts["output"])


def _map(names: list[Any], tensors: dict[str, Any]) -> Map:
    name, group, layer, queries, keys = names
    return Map(name, group, layer, queries, keys, tensors[name].astype(np.float32))
