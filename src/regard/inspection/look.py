"""From a loaded run and an input to a page: what `run.look("…")`, `regard look` and the server share.

Inspection does not import training: a run is anything with a folder, a recipe, a task and a model.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.core.errors import RegardError
from regard.core.files import write_bytes
from regard.inspection import probes
from regard.inspection.bundle import bundle
from regard.inspection.collect import About, Subject, collect
from regard.inspection.format import Inspection, to_json

NBEST = 5


class RunLike(Protocol):
    """The parts of a run that looking needs."""

    @property
    def folder(self) -> Path: ...
    @property
    def recipe(self) -> Any: ...
    @property
    def task(self) -> Any: ...
    @property
    def model(self) -> nn.Module: ...


class Look:
    """An inspection that shows itself: as a page inside a notebook, or as a file."""

    def __init__(self, found: Inspection) -> None:
        self.found = found

    @cached_property
    def page(self) -> str:
        """The whole page, self-contained."""
        return bundle(to_json(self.found))

    def save(self, path: Path | str) -> None:
        """Write the page to a file that works from disk with the network off."""
        write_bytes(Path(path), self.page.encode())

    def _repr_html_(self) -> str:
        style = "width:100%;height:860px;border:0"
        title = html.escape(f"Attention of {self.found.model}", quote=True)
        return f'<iframe title="{title}" style="{style}" srcdoc="{html.escape(self.page, quote=True)}"></iframe>'


def look(run: RunLike, text: str) -> Look:
    """An input through a run -> its page."""
    return Look(collect(subject(run), text))


def subject(run: RunLike) -> Subject:
    """A run -> what `collect` looks into."""
    recipe = run.recipe
    about = About(recipe.task.name, recipe.model.name, {"run": run.folder.name or str(run.folder)})
    return Subject(run.task, run.model, decoder(recipe), about, probes=probes.read(run.folder))


def decoder(recipe: Any) -> Callable[..., Any]:
    """The recipe's decoder, asked for several outputs where it can give them."""
    decode = recipe.decoder()
    if decode is None:
        raise RegardError(f"task {recipe.task.name!r} has no decoder in its recipe, so there is no output to look at")
    config = recipe.decoding.config
    if hasattr(config, "nbest") and hasattr(config, "width"):
        config = dataclasses.replace(config, nbest=max(config.nbest, min(NBEST, config.width)))
    return partial(decode, config=config)
