"""From a run's parts and an input to an Inspection: read, decode, replay under `record`, and gather what is shown.

The data format is the docstring of format.py; the JSON of it is all that pages, figures and the server ever see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.attention.record import AttentionMap, attentions, record
from regard.core.errors import RegardError, nearest
from regard.core.registry import find, names
from regard.inspection import alignment, honesty
from regard.inspection.example import Example
from regard.inspection.format import Inspection, Map, Probe
from regard.inspection.steps import calls, steps
from regard.inspection.tables import Tables, tables
from regard.inspection.whatif import Changes, changed

LONG = 256  # tokens beyond which only the maps are gathered: the other views would be too large to read
READERS = "regard.inspection.readers"


@dataclass(frozen=True)
class About:
    """What the parts of a run are called, and facts for the top of the page."""

    task: str
    model: str
    facts: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What is looked into: the parts of a run. `tables` are those of an earlier look at the same model, if any."""

    task: Any
    model: nn.Module
    decode: Callable[..., Any]
    about: About
    tables: Tables | None = None
    probes: tuple[Probe, ...] = ()

    @property
    def attends(self) -> bool:
        """Whether there is any attention to look at."""
        return bool(attentions(self.model))


def collect(subject: Subject, text: str, *, changes: Changes | None = None) -> Inspection:
    """An input -> everything worth seeing of how the model treated it. A model without attention is an error."""
    if not subject.attends:
        name = subject.about.model
        raise RegardError(f"{name} has no attention to look at; regard compare shows it beside models that have")
    return inspect(subject, text, changes=changes)


def inspect(subject: Subject, text: str, *, changes: Changes | None = None) -> Inspection:
    """The same, but a model without attention gives an Inspection without maps."""
    changes = changes or Changes()
    with _evaluating(subject.model), changed(subject.model, changes):
        example = _read(subject, text)
        found = _described(subject, text, example)
        return _with_maps(found, subject, example=example, off=set(changes.off)) if subject.attends else found


def glance(subject: Subject, text: str) -> Inspection:
    """Only the output and its maps, quickly: what is kept of a probe through training."""
    with _evaluating(subject.model):
        example = _read(subject, text)
        with torch.no_grad(), record(subject.model) as recorded:
            example.replay()
    return replace(_described(subject, text, example), maps=arrange(recorded, example, off=set()))


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


def _read(subject: Subject, text: str) -> Example:
    name, known = subject.about.task, names(READERS)
    if name not in known:
        raise RegardError(f"task {name!r} has no reader to look inside with; {nearest(name, known)}")
    with torch.no_grad():
        example: Example = find(READERS, name).read(subject.task, subject.model, text, decode=subject.decode)
    return example


def _described(subject: Subject, text: str, example: Example) -> Inspection:
    about = subject.about
    parameters = sum(weight.numel() for weight in subject.model.parameters())
    return Inspection(
        title=text,
        model=about.model,
        task=about.task,
        axes=example.axes,
        maps=(),
        outputs=example.outputs,
        facts={**about.facts, "parameters": parameters, "seconds": round(example.seconds, 3)},
        shown=example.shown,
        probes=subject.probes,
    )


def _with_maps(found: Inspection, subject: Subject, *, example: Example, off: set[tuple[str, int]]) -> Inspection:
    model = subject.model
    with torch.no_grad(), calls(model) as seen, record(model) as recorded:
        example.replay()
    maps = arrange(recorded, example, off=off)
    known = subject.tables or tables(model, example.vocabularies)
    found = replace(found, maps=maps, positions=known.positions, embeddings=known.embeddings)
    if max(max(one.weights.shape[1:]) for one in maps) > LONG:
        return found
    if example.pair is not None:
        evidence = honesty.evidence(model, example.pair, subject.task.marks)
        maps = tuple(
            one if one.group == "other" else replace(one, honesty=honesty.figures(one.group, one.weights, evidence))
            for one in maps
        )
    judged = None if example.truth is None else alignment.judge(maps, example.truth)
    return replace(found, maps=maps, steps=steps(model, seen, maps), alignment=judged)


def arrange(recorded: dict[str, AttentionMap], example: Example, *, off: set[tuple[str, int]]) -> tuple[Map, ...]:
    """Recorded maps -> ours: of the first row of the batch, grouped, layers numbered; a switched-off head is zeros."""
    layers: dict[str, int] = {}
    maps = []
    for name, one in recorded.items():
        group = _group(one)
        layer = layers[group] = layers.get(group, -1) + 1
        weights = np.array(one.weights[0].float().cpu().numpy(), dtype=np.float32)
        for head in range(len(weights)):
            if (name, head) in off:
                weights[head] = 0
        maps.append(Map(name, group, layer, example.rows[one.queries], example.columns[one.keys], weights))
    return tuple(sorted(maps, key=lambda one: ("encoder", "decoder", "cross", "other").index(one.group)))


def _group(one: AttentionMap) -> str:
    known = {("source", "source"): "encoder", ("target", "target"): "decoder", ("target", "source"): "cross"}
    return known.get((one.queries, one.keys), "other")
