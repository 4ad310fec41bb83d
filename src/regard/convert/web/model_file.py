"""The model of a page: programs, constants, and facts of the run, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from regard.attention.attend import Attend
from regard.attention.record import attention_modules
from regard.convert.web.constants import pack
from regard.convert.web.trace import Constants
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names
from regard.inspection.attention_steps import FORMULAS, KEY_LABELS
from regard.inspection.report import with_nbest_outputs
from regard.training.load_run import LoadedRun

STRATEGIES = ("greedy", "beam", "full_beam", "sample")  # decoding strategies of js/search.js
TASKS = "regard.convert.web.tasks"


def model_file(parts: LoadedRun) -> dict[str, Any]:
    """Return the model file of a run; a run that the page cannot run is refused."""
    task = parts.recipe.task.name
    if task not in registered_names(TASKS):
        raise ConfigError(f"web: {task} runs cannot be exported; supported: {', '.join(registered_names(TASKS))}")
    decoding = with_nbest_outputs(parts.recipe.decoding)
    if decoding is not None and decoding.name not in STRATEGIES:
        raise ConfigError(f"web: decoding={decoding.name} is not supported; choose one of {', '.join(STRATEGIES)}")
    constants = Constants(parts.model)
    description = find(TASKS, task).describe(parts, constants)
    special = SpecialTokens()
    return {
        "task": task,
        "model": parts.recipe.model.name,
        "parameters": sum(weight.numel() for weight in parts.model.parameters()),
        "special": {name: getattr(special, name) for name in ("pad", "unk", "bos", "eos")},
        "decoding": None if decoding is None else {"name": decoding.name, **asdict(decoding.config)},
        "modules": {name: _module(module) for name, module in attention_modules(parts.model).items()},
        **description,
        "constants": pack(constants.tensors),
    }


def _module(attend: Attend) -> dict[str, Any]:
    """Return what the page shows of an attention module: its axes, and the formula of its score."""
    weigh = attend.weigh
    score = type(weigh.score).__module__.rpartition(".")[2]
    last = (
        "with positions"
        if weigh.depends_on_position
        else "÷ √d"
        if score == "scaled_dot"
        else FORMULAS.get(score, "score")
    )
    return {
        "queries": attend.queries,
        "keys": attend.keys,
        "normalizer": type(weigh.normalizer).__name__,
        "formula": weigh.place.formula.format(FORMULAS.get(score, "f(q, k)")),
        "dependsOnPosition": weigh.depends_on_position,
        "showsProducts": score == "scaled_dot" and not weigh.depends_on_position,
        "stage": last,
        "key": KEY_LABELS.get(score, "k, projected" if weigh.score.projects_keys else "k"),
    }
