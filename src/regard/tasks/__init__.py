"""Tasks, one folder each (core/task.py describes its contents), registered by folder name; and the models of a task."""

from __future__ import annotations

from regard.core.data_specs import accepts, spec_of
from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names

DEFAULT_TASK = "translation"  # of `regard demo` without a task


def compatible_models(spec: type) -> list[str]:
    """Return the names of the registered models that can be built from a data spec of this class."""
    return [name for name in registered_names("regard.models") if accepts(find("regard.models", name), spec)]


def check_fit(task: str, model: str) -> None:
    """Raise a ConfigError that lists the models that fit the task, if this model does not."""
    spec = spec_of(find("regard.tasks", task))
    if not accepts(find("regard.models", model), spec):
        names = ", ".join(compatible_models(spec)) or "none is registered; give your own by its dotted name"
        raise ConfigError(f"model={model} cannot be trained on the task {task}; models that fit: {names}")
