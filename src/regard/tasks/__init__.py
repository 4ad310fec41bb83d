"""One task a file (core/task.py says what such a file has), found by the file's name; and which models fit a task."""

from __future__ import annotations

from regard.core.data_specs import accepts, spec_of
from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names

DEFAULT_TASK = "translation"  # what `regard demo` shows where no task is named


def compatible_models(spec: type) -> list[str]:
    """The listed models that can be built from sizes of a family."""
    return [name for name in registered_names("regard.models") if accepts(find("regard.models", name), spec)]


def check_fit(task: str, model: str) -> None:
    """An error that lists the models which fit, unless this one does."""
    family = spec_of(find("regard.tasks", task))
    if not accepts(find("regard.models", model), family):
        known = ", ".join(compatible_models(family)) or "none is listed; give your own by a dotted name"
        raise ConfigError(f"model={model} cannot be trained on the task {task}; models that fit: {known}")
