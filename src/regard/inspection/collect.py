"""From a run's parts and an input to an Inspection: read, answer, replay under `record`, and gather what is shown.

The data format is the docstring of format.py; the JSON of it is all that pages, figures and the server ever see.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from regard.attention.record import attention_modules, record
from regard.core.cancellation import check_cancelled
from regard.core.errors import RegardError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy
from regard.inspection import faithfulness
from regard.inspection.alignment_error import measure_alignment
from regard.inspection.attention_steps import collect_steps
from regard.inspection.call_recorder import record_calls
from regard.inspection.interventions import NO_INTERVENTIONS, HiddenItems, Interventions, apply_interventions
from regard.inspection.json_format import Inspection, TrainingSnapshot
from regard.inspection.maps import is_long, to_maps
from regard.inspection.parameter_tables import ParameterTables, collect_tables


@dataclass(frozen=True)
class RunInfo:
    """What the parts of a run are called, and facts for the top of the page."""

    task: str
    model: str
    facts: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class InspectionTarget:
    """What is looked into: the parts of a run. `tables` are those of an earlier look at the same model, if any."""

    task: Task
    model: nn.Module
    decoding: DecodingStrategy | None
    run_info: RunInfo
    options: Any = None  # of the task's Options; None: its defaults
    tables: ParameterTables | None = None
    probes: tuple[TrainingSnapshot, ...] = ()
    parse_input: Callable[[str], Any] | None = None  # a text to an input; None: as the task reads it

    @property
    def has_attention(self) -> bool:
        """Whether there is any attention to look at."""
        return bool(attention_modules(self.model))

    def inspect(self, raw_input: Any) -> Inspectable:
        """An input, or the text that the task reads it from -> what there is to see."""
        read = (self.parse_input or self.task.parse_input)(raw_input) if isinstance(raw_input, str) else raw_input
        options = default_options(self.task) if self.options is None else self.options
        return self.task.inspect(self.model, read, options, self.decoding)


def default_options(task: Task) -> Any:
    """The default request: a value of the dataclass `Options` in the file of the task's class."""
    options = getattr(sys.modules[type(task).__module__], "Options", None)
    return None if options is None else options()


def collect(
    subject: InspectionTarget, raw_input: Any, *, interventions: Interventions = NO_INTERVENTIONS
) -> Inspection:
    """An input -> everything worth seeing of how the model treated it. A model without attention is an error, unless
    its task has something else to show (extra values for views of its own)."""
    inspection = inspect(subject, raw_input, interventions=interventions)
    if not subject.has_attention and not inspection.extra:
        name = subject.run_info.model
        raise RegardError(f"{name} has no attention to look at; regard compare shows it beside models that have")
    return inspection


def inspect(
    subject: InspectionTarget, raw_input: Any, *, interventions: Interventions = NO_INTERVENTIONS
) -> Inspection:
    """The same, but a model without attention gives an Inspection without maps."""
    with eval_mode(subject.model):
        # Only what was shown without changes says which items there are to be forbidden.
        usual = subject.inspect(raw_input) if interventions.forbid else None
        with apply_interventions(subject.model, interventions, usual) as forbidden:
            shown = subject.inspect(raw_input)
            check_cancelled()
            inspection = _described(subject, raw_input, shown)
            if not subject.has_attention:
                return inspection
            return _with_maps(inspection, subject, shown=shown, off=interventions.off, forbidden=forbidden)


def inspect_quickly(subject: InspectionTarget, raw_input: Any) -> Inspection:
    """Only the output and its maps, quickly: what is kept of a probe through training."""
    with eval_mode(subject.model):
        shown = subject.inspect(raw_input)
        with record(subject.model) as recorded:
            shown.replay()
    axes, maps = to_maps(recorded, shown)
    return replace(_described(subject, raw_input, shown), axes=axes, maps=maps)


def _described(subject: InspectionTarget, given: Any, shown: Inspectable) -> Inspection:
    about = subject.run_info
    parameters = sum(weight.numel() for weight in subject.model.parameters())
    return Inspection(
        text=given if isinstance(given, str) else shown.title,
        title=shown.title,
        model=about.model,
        task=about.task,
        axes=dict(shown.axes),
        maps=(),
        answered=shown.answer_axis,
        outputs=shown.outputs,
        facts={**about.facts, "parameters": parameters, "seconds": round(shown.seconds, 3)},
        probes=subject.probes,
        views=shown.views,
        extra=dict(shown.extra),
    )


def _with_maps(
    inspection: Inspection,
    subject: InspectionTarget,
    *,
    shown: Inspectable,
    off: Collection[tuple[str, int]],
    forbidden: HiddenItems,
) -> Inspection:
    model = subject.model
    with record_calls(model) as seen, record(model) as recorded:
        shown.replay()
    axes, maps = to_maps(recorded, shown, recorded_calls=seen, disabled_heads=off)
    short = [attention for attention in maps if not is_long(attention.weights)]
    evidence = faithfulness.gather_evidence(
        model, shown, [attention.keys for attention in short], hidden_items=forbidden
    )
    figures = {
        attention.name: faithfulness.measure_faithfulness(attention, evidence, shown.answer_axis) for attention in short
    }
    check_cancelled()
    known = subject.tables or collect_tables(model, shown.vocabularies)
    inspection = replace(
        inspection,
        axes=axes,
        maps=tuple(replace(attention, honesty=figures.get(attention.name)) for attention in maps),
        truth=measure_alignment(short, shown),
        positions=known.positions,
        embeddings=known.embeddings,
    )
    return replace(inspection, steps=collect_steps(model, seen, inspection))
