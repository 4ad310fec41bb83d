"""Inspect an input: predict, replay the prediction under `record`, and collect maps, metrics and tables.

The docstring of json_format.py defines the result. Pages, figures and the server use only its JSON.
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
    """Names of a run's task and model, and facts for the header of the page."""

    task: str
    model: str
    facts: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class InspectionTarget:
    """The parts of a run that are inspected. `tables` are those of an earlier inspection of the same model, if any."""

    task: Task
    model: nn.Module
    decoding: DecodingStrategy | None
    run_info: RunInfo
    options: Any = None  # an instance of the task's Options; None: the defaults
    tables: ParameterTables | None = None
    probes: tuple[TrainingSnapshot, ...] = ()
    parse_input: Callable[[str], Any] | None = None  # text -> input; None: the task's parse_input

    @property
    def has_attention(self) -> bool:
        """True if the model has attention modules."""
        return bool(attention_modules(self.model))

    def inspect(self, raw_input: Any) -> Inspectable:
        """Run the model on an input, or on a text that the task parses."""
        parse_text = self.parse_input or self.task.parse_input
        parsed = parse_text(raw_input) if isinstance(raw_input, str) else self.task.parse_object(raw_input)
        options = default_options(self.task) if self.options is None else self.options
        return self.task.inspect(self.model, parsed, options, self.decoding)


def default_options(task: Task) -> Any:
    """Return the default request: an instance of the dataclass `Options` in the module of the task."""
    options = getattr(sys.modules[type(task).__module__], "Options", None)
    return None if options is None else options()


def collect(
    subject: InspectionTarget, raw_input: Any, *, interventions: Interventions = NO_INTERVENTIONS
) -> Inspection:
    """Return the complete inspection of an input.

    A model without attention raises a RegardError, unless its task provides data for its own views.
    """
    inspection = inspect(subject, raw_input, interventions=interventions)
    if not subject.has_attention and not inspection.extra:
        name = subject.run_info.model
        raise RegardError(
            f"{name} has no attention to inspect; regard compare shows it next to models that have attention"
        )
    return inspection


def inspect(
    subject: InspectionTarget, raw_input: Any, *, interventions: Interventions = NO_INTERVENTIONS
) -> Inspection:
    """Return the inspection of an input; for a model without attention, without maps."""
    with eval_mode(subject.model):
        # The items that can be hidden are those of the run without interventions.
        unchanged = subject.inspect(raw_input) if interventions.forbid else None
        with apply_interventions(subject.model, interventions, unchanged) as hidden_items:
            inspectable = subject.inspect(raw_input)
            check_cancelled()
            inspection = _without_maps(subject, raw_input, inspectable)
            if not subject.has_attention:
                return inspection
            return _with_maps(
                inspection,
                subject,
                inspectable=inspectable,
                disabled_heads=interventions.off,
                hidden_items=hidden_items,
            )


def inspect_quickly(subject: InspectionTarget, raw_input: Any) -> Inspection:
    """Return only the output and its maps, which are stored for the probe input during training."""
    with eval_mode(subject.model):
        inspectable = subject.inspect(raw_input)
        if not subject.has_attention:
            return _without_maps(subject, raw_input, inspectable)
        with record(subject.model) as recorded:
            inspectable.replay()
    axes, maps = to_maps(recorded, inspectable)
    return replace(_without_maps(subject, raw_input, inspectable), axes=axes, maps=maps)


def _without_maps(subject: InspectionTarget, raw_input: Any, inspectable: Inspectable) -> Inspection:
    run_info = subject.run_info
    parameters = sum(weight.numel() for weight in subject.model.parameters())
    return Inspection(
        text=raw_input if isinstance(raw_input, str) else inspectable.title,
        title=inspectable.title,
        model=run_info.model,
        task=run_info.task,
        axes=dict(inspectable.axes),
        maps=(),
        answered=inspectable.answer_axis,
        outputs=inspectable.outputs,
        facts={**run_info.facts, "parameters": parameters, "seconds": round(inspectable.seconds, 3)},
        probes=subject.probes,
        views=inspectable.views,
        extra=dict(inspectable.extra),
        remarks=inspectable.remarks,
    )


def _with_maps(
    inspection: Inspection,
    subject: InspectionTarget,
    *,
    inspectable: Inspectable,
    disabled_heads: Collection[tuple[str, int]],
    hidden_items: HiddenItems,
) -> Inspection:
    model = subject.model
    with record_calls(model) as calls, record(model) as recorded:
        inspectable.replay()
    axes, maps = to_maps(recorded, inspectable, recorded_calls=calls, disabled_heads=disabled_heads)
    short = [attention for attention in maps if not is_long(attention.weights)]
    evidence = faithfulness.gather_evidence(
        model, inspectable, [attention.keys for attention in short], hidden_items=hidden_items
    )
    metrics = {
        attention.name: faithfulness.measure_faithfulness(attention, evidence, inspectable.answer_axis)
        for attention in short
    }
    check_cancelled()
    tables = subject.tables or collect_tables(model, inspectable.vocabularies)
    inspection = replace(
        inspection,
        axes=axes,
        maps=tuple(replace(attention, honesty=metrics.get(attention.name)) for attention in maps),
        truth=measure_alignment(short, inspectable),
        positions=tables.positions,
        embeddings=tables.embeddings,
    )
    return replace(inspection, steps=collect_steps(model, calls, inspection))
