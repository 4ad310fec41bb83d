"""Trained runs that ship with the package: `pretrained:NAME` stands wherever a run folder is accepted.

The folder `data/pretrained` of this package has one run folder per name, with float16 weights. The optional package
`regard_models` adds larger runs in the same form. `pretrained.json` in each run describes its origin.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from regard.core import hub
from regard.core.errors import ConfigError, did_you_mean

PREFIX = "pretrained:"
FOLDER = Path(__file__).parents[1] / "data" / "pretrained"
CARD_FILE = "pretrained.json"
LARGER_MODELS = "regard_models"  # package of the optional second wheel


@dataclass(frozen=True)
class PretrainedCard:
    """Origin and quality of a shipped run."""

    task: str
    model: str
    data: str  # training data, in words
    license: str  # license of the training data
    metric: str
    score: float  # on held-out data
    minutes: float  # training time
    recipe: str  # name of the recipe that reproduces the run
    predictions: dict[str, str]  # example input (of a file: its name) -> prediction
    log_probs: dict[str, float]  # example input -> log probability of the prediction; empty if the task has none
    options: dict[str, Any]  # options of these predictions: runs that sample predict the most likely tokens

    @classmethod
    def read(cls, run: Path) -> PretrainedCard:
        """Read the card of a shipped run folder."""
        table: dict[str, Any] = json.loads((run / CARD_FILE).read_text(encoding="utf-8"))
        return cls(**{field.name: table[field.name] for field in fields(cls)})


def pretrained_folders() -> dict[str, Path]:
    """Return name -> run folder of all shipped runs, in alphabetical order."""
    roots = [FOLDER]
    if (spec := importlib.util.find_spec(LARGER_MODELS)) is not None:
        roots += [Path(location) for location in spec.submodule_search_locations or ()]
    paths = (path for root in roots if root.is_dir() for path in root.iterdir() if (path / CARD_FILE).is_file())
    return dict(sorted((path.name, path) for path in paths))


def locate_run(run: Path | str) -> Path:
    """Return the folder of a run: a path unchanged, `pretrained:NAME` as the folder of the shipped run, and
    `hf:USER/NAME` as that of the downloaded run."""
    if hub.is_hub_name(run):
        return hub.download(str(run))
    if not str(run).startswith(PREFIX):
        return Path(run)
    name, folders = str(run).removeprefix(PREFIX), pretrained_folders()
    if name not in folders:
        raise ConfigError(f"{run}: no such pretrained run (see: regard list pretrained); {did_you_mean(name, folders)}")
    return folders[name]


def is_pretrained(run: Path) -> bool:
    """Return True for a run that ships with the package; such a run is read-only."""
    return (run / CARD_FILE).is_file() and run.resolve() in {path.resolve() for path in pretrained_folders().values()}


def check_writable(run: Path, remedy: str) -> None:
    """Raise a ConfigError for a run that ships with the package or is a copy from the Hub."""
    if is_pretrained(run):
        raise ConfigError(f"{PREFIX}{run.name}: pretrained runs are read-only; {remedy}")
    if hub.is_downloaded(run):
        raise ConfigError(f"{run}: runs of the Hub are read-only; {remedy}")


def is_read_only(run: Path) -> bool:
    """Return True for a run that ships with the package or is a copy from the Hub."""
    return is_pretrained(run) or hub.is_downloaded(run)
