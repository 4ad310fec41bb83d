"""From a run's parts and an input to an Inspection: read, answer, replay under `record`, and gather what is shown.

The data format is the docstring of format.py; the JSON of it is all that pages, figures and the server ever see.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from regard.attention.record import attentions, record
from regard.core.cancellation import check_cancelled
from regard.core.errors import RegardError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy
from regard.inspection import faithfulness
from regard.inspection.alignment_error import measure
from regard.inspection.attention_steps import steps
from regard.inspection.call_recorder import calls
from regard.inspection.interventions import UNCHANGED, HiddenItems, Interventions, changed
from regard.inspection.json_format import Inspection, Probe
from regard.inspection.maps import arrange, is_long
from regard.inspection.parameter_tables import Tables, tables


@dataclass(frozen=True)
class RunInfo:
    """What the parts of a run are called, and facts for the top of the page."""

    task: str
    model: str
    facts: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What is looked into: the parts of a run. `tables` are those of an earlier look at the same model, if any."""

    task: Task
    model: nn.Module
    decoding: DecodingStrategy | None
    about: RunInfo
    options: Any = None  # of the task's Options; None: its defaults
    tables: Tables | None = None
    probes: tuple[Probe, ...] = ()
    read: Callable[[str], Any] | None = None  # a text to an input; None: as the task reads it

    @property
    def attends(self) -> bool:
        """Whether there is any attention to look at."""
        return bool(attentions(self.model))

    def show(self, given: Any) -> Inspectable:
        """An input, or the text that the task reads it from -> what there is to see."""
        read = (self.read or self.task.parse_input)(given) if isinstance(given, str) else given
        options = options_of(self.task) if self.options is None else self.options
        return self.task.inspect(self.model, read, options, self.decoding)


def options_of(task: Task) -> Any:
    """The default request: a value of the dataclass `Options` in the file of the task's class."""
    options = getattr(sys.modules[type(task).__module__], "Options", None)
    return None if options is None else options()


def collect(subject: Subject, given: Any, *, changes: Interventions = UNCHANGED) -> Inspection:
    """An input -> everything worth seeing of how the model treated it. A model without attention is an error, unless
    its task has something else to show (extra values for views of its own)."""
    inspection = inspect(subject, given, changes=changes)
    if not subject.attends and not inspection.extra:
        name = subject.about.model
        raise RegardError(f"{name} has no attention to look at; regard compare shows it beside models that have")
    return inspection


def inspect(subject: Subject, given: Any, *, changes: Interventions = UNCHANGED) -> Inspection:
    """The same, but a model without attention gives an Inspection without maps."""
    with eval_mode(subject.model):
        # Only what was shown without changes says which items there are to be forbidden.
        usual = subject.show(given) if changes.forbid else None
        with changed(subject.model, changes, usual) as forbidden:
            shown = subject.show(given)
            check_cancelled()
            inspection = _described(subject, given, shown)
            if not subject.attends:
                return inspection
            return _with_maps(inspection, subject, shown=shown, off=changes.off, forbidden=forbidden)


def inspect_quickly(subject: Subject, given: Any) -> Inspection:
    """Only the output and its maps, quickly: what is kept of a probe through training."""
    with eval_mode(subject.model):
        shown = subject.show(given)
        with record(subject.model) as recorded:
            shown.replay()
    axes, maps = arrange(recorded, shown)
    return replace(_described(subject, given, shown), axes=axes, maps=maps)


def _described(subject: Subject, given: Any, shown: Inspectable) -> Inspection:
    about = subject.about
    parameters = sum(weight.numel() for weight in subject.model.parameters())
    return Inspection(
        text=given if isinstance(given, str) else shown.title,
        title=shown.title,
        model=about.model,
        task=about.task,
        axes=dict(shown.axes),
        maps=(),
        answered=shown.answered,
        outputs=shown.outputs,
        facts={**about.facts, "parameters": parameters, "seconds": round(shown.seconds, 3)},
        probes=subject.probes,
        views=shown.views,
        extra=dict(shown.extra),
    )


def _with_maps(
    inspection: Inspection,
    subject: Subject,
    *,
    shown: Inspectable,
    off: Collection[tuple[str, int]],
    forbidden: HiddenItems,
) -> Inspection:
    model = subject.model
    with calls(model) as seen, record(model) as recorded:
        shown.replay()
    axes, maps = arrange(recorded, shown, seen=seen, off=off)
    short = [attention for attention in maps if not is_long(attention.weights)]
    evidence = faithfulness.evidence(model, shown, [attention.keys for attention in short], forbidden=forbidden)
    figures = {attention.name: faithfulness.figures(attention, evidence, shown.answered) for attention in short}
    check_cancelled()
    known = subject.tables or tables(model, shown.vocabularies)
    inspection = replace(
        inspection,
        axes=axes,
        maps=tuple(replace(attention, honesty=figures.get(attention.name)) for attention in maps),
        truth=measure(short, shown),
        positions=known.positions,
        embeddings=known.embeddings,
    )
    return replace(inspection, steps=steps(model, seen, inspection))
