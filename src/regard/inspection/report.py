"""Inspect an input with a loaded run and render the page; shared by `run.inspect("…")`, `regard look` and the server.

Inspection does not import training: a run is any object with a folder, a recipe, a task and a model.
"""

from __future__ import annotations

import html
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.core.files import write_text
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy
from regard.inspection import training_snapshots
from regard.inspection.collect import InspectionTarget, RunInfo, collect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, to_json

MAX_OUTPUTS = 5  # outputs of a search that are shown


class Named(Protocol):
    """A task or model with a name."""

    @property
    def name(self) -> str: ...


class RecipeLike(Protocol):
    """The parts of a recipe that inspection uses."""

    @property
    def task(self) -> Named: ...
    @property
    def model(self) -> Named: ...
    @property
    def decoding(self) -> DecodingStrategy | None: ...


class RunLike(Protocol):
    """The parts of a run that inspection uses."""

    @property
    def folder(self) -> Path: ...
    @property
    def recipe(self) -> RecipeLike: ...
    @property
    def task(self) -> Task: ...
    @property
    def model(self) -> nn.Module: ...


class InspectionReport:
    """An inspection rendered as an HTML page, in a notebook or a file."""

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection

    @cached_property
    def page(self) -> str:
        """The self-contained HTML page."""
        return bundle(to_json(self.inspection))

    def save(self, path: Path | str) -> None:
        """Write the page to a file that works offline."""
        write_text(Path(path), self.page)

    def _repr_html_(self) -> str:
        style = "width:100%;height:860px;border:0"
        title = html.escape(f"Attention of {self.inspection.model}", quote=True)
        return f'<iframe title="{title}" style="{style}" srcdoc="{html.escape(self.page, quote=True)}"></iframe>'


def inspect_run(
    run: RunLike, raw_input: Any, *, options: Any = None, decoding: DecodingStrategy | None = None
) -> InspectionReport:
    """Inspect an input; `options` and `decoding` default to those of the run."""
    return InspectionReport(collect(target_of(run, options=options, decoding=decoding), raw_input))


def target_of(
    run: RunLike, *, options: Any = None, decoding: DecodingStrategy | None = None, name: str | None = None
) -> InspectionTarget:
    """Return the target that `collect` inspects; `name` defaults to the name of the folder."""
    recipe = run.recipe
    run_info = RunInfo(recipe.task.name, recipe.model.name, {"run": name or run.folder.name or str(run.folder)})
    strategy = with_nbest_outputs(decoding or recipe.decoding)
    return InspectionTarget(
        run.task,
        run.model,
        strategy,
        run_info,
        options=options,
        probes=training_snapshots.read_snapshots(run.folder),
    )


def with_nbest_outputs(decoding: DecodingStrategy | None) -> DecodingStrategy | None:
    """Return the strategy with several outputs, if it supports them."""
    if decoding is None or not decoding.has_setting("nbest"):
        return decoding
    return decoding.with_settings(nbest=max(decoding.config.nbest, min(MAX_OUTPUTS, decoding.width)))
