"""The settings of a source run that its weights depend on: `pretrained.run` brings them along."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError
from regard.core.registry import find
from regard.tasks import check_fit

CONFIG_FILE = "config.json"
LENGTH_SETTINGS = ("context", "max_length")  # the number of positions in different tasks
Table = dict[str, Any]


def with_source_settings(defaults: Table, table: Table, task: str) -> Table:
    """Return the defaults of a task with the model settings of the source run of `table`, if it has the same model.

    Without a model in `table`, the model of the source run is used if the task can train it. Learned positions also
    bring their number along.
    """
    run = table.get("pretrained", {}).get("run") if isinstance(table.get("pretrained"), dict) else None
    source, chosen = read_settings(run) if isinstance(run, str) and run else {}, table.get("model", {})
    model = source.get("model", {})
    if not isinstance(model.get("name"), str) or not isinstance(chosen, dict) or "preset" in chosen:
        return defaults
    name = chosen.get("name", model["name"])
    if name != model["name"] or not _fits(task, name):
        return defaults
    known = {field.name for field in fields(find("regard.models", name).Config)}
    settings = {key: value for key, value in model.items() if key in known and value is not None}
    defaults = {**defaults, "model": {"name": name, **settings}}
    length = next((source["data"][key] for key in LENGTH_SETTINGS if key in source.get("data", {})), None)
    setting = length_setting(find("regard.tasks", task).Config)
    if model.get("position") == "learned" and length is not None and setting is not None:
        defaults["data"] = {**defaults.get("data", {}), setting: length}
    return defaults


def length_setting(config: Any) -> str | None:
    """Return the name of the task's setting for the number of positions; None if it has none."""
    names = [field.name for field in fields(config)]
    return next((name for name in LENGTH_SETTINGS if name in names), None)


def read_settings(run: str) -> Table:
    """Return config.json of a run; {} if it cannot be read, which is reported when its weights are read."""
    try:
        table = json.loads((Path(run) / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) and isinstance(table.get("model"), dict) else {}


def describe_sizes(run: str) -> str:
    """Return the integer model settings of a run: model.layers=6 model.dim=384 …."""
    model = read_settings(run).get("model", {})
    sizes = {key: value for key, value in model.items() if isinstance(value, int) and not isinstance(value, bool)}
    return " ".join(f"model.{key}={value}" for key, value in sizes.items()) or "unknown"


def _fits(task: str, model: str) -> bool:
    try:
        check_fit(task, model)
    except ConfigError:
        return False
    return True
