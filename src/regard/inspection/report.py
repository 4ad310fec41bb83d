"""From a loaded run and an input to a page: what `run.look("…")`, `regard look` and the server share.

Inspection does not import training: a run is anything with a folder, a recipe, a task and a model.
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

NBEST = 5


class Named(Protocol):
    """A task or a model by its name."""

    @property
    def name(self) -> str: ...


class RecipeLike(Protocol):
    """The parts of a recipe that looking needs."""

    @property
    def task(self) -> Named: ...
    @property
    def model(self) -> Named: ...
    @property
    def decoding(self) -> DecodingStrategy | None: ...


class RunLike(Protocol):
    """The parts of a run that looking needs."""

    @property
    def folder(self) -> Path: ...
    @property
    def recipe(self) -> RecipeLike: ...
    @property
    def task(self) -> Task: ...
    @property
    def model(self) -> nn.Module: ...


class InspectionReport:
    """An inspection that shows itself: as a page inside a notebook, or as a file."""

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection

    @cached_property
    def page(self) -> str:
        """The whole page, self-contained."""
        return bundle(to_json(self.inspection))

    def save(self, path: Path | str) -> None:
        """Write the page to a file that works from disk with the network off."""
        write_text(Path(path), self.page)

    def _repr_html_(self) -> str:
        style = "width:100%;height:860px;border:0"
        title = html.escape(f"Attention of {self.inspection.model}", quote=True)
        return f'<iframe title="{title}" style="{style}" srcdoc="{html.escape(self.page, quote=True)}"></iframe>'


def inspect_run(
    run: RunLike, raw_input: Any, *, options: Any = None, decoding: DecodingStrategy | None = None
) -> InspectionReport:
    """An input through a run -> its page; `options` and `decoding` are those of the request, or else the run's own."""
    return InspectionReport(collect(target_of(run, options=options, decoding=decoding), raw_input))


def target_of(
    run: RunLike, *, options: Any = None, decoding: DecodingStrategy | None = None, name: str | None = None
) -> InspectionTarget:
    """A run -> what `collect` looks into; `name` is what it is called, the folder's own unless told."""
    recipe = run.recipe
    about = RunInfo(recipe.task.name, recipe.model.name, {"run": name or run.folder.name or str(run.folder)})
    chosen = with_nbest_outputs(decoding or recipe.decoding)
    return InspectionTarget(
        run.task, run.model, chosen, about, options=options, probes=training_snapshots.read_snapshots(run.folder)
    )


def with_nbest_outputs(decoding: DecodingStrategy | None) -> DecodingStrategy | None:
    """The same decoder, asked for several outputs where it can give them."""
    if decoding is None or not decoding.has_setting("nbest"):
        return decoding
    return decoding.with_settings(nbest=max(decoding.config.nbest, min(NBEST, decoding.width)))
