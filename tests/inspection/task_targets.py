"""An untrained model for every task of the registry, as an inspection target."""

from __future__ import annotations

import sys
from pathlib import Path

import tiny_runs
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))
from task_cases import TASKS, ShortOutputs, build_task, config_of

from regard.attention.record import attention_modules
from regard.core.registry import find
from regard.inspection.collect import InspectionTarget, RunInfo
from regard.tasks import compatible_models
from regard.training import recipe as recipes

SHORT_OPTIONS = {"language": {"tokens": 4}, "image_generation": {"n": 1}}


def target_of(name, folder):
    """Return an untrained model for a task, which is loaded from a folder; a model with attention, if there is one."""
    module = find("regard.tasks", name)
    build_task(name).save(folder)
    task = module.load(config_of(name), folder)
    recipe = recipes.read(name)
    decoding = None if recipe.decoding is None else ShortOutputs(recipe.decoding.name, recipe.decoding.config)
    models = []
    for model_name in compatible_models(module.SPEC):
        network = find("regard.models", model_name)
        torch.manual_seed(3)
        models.append((model_name, network.build(network.TINY, task.spec).eval()))
        if attention_modules(models[-1][1]):
            break
    model_name, model = models[-1]
    options = module.Options(**SHORT_OPTIONS.get(name, {}))
    return InspectionTarget(task, model, decoding, RunInfo(name, model_name), options=options, tables=tiny_runs.TABLES)


def with_attention():
    """Return the tasks whose models have attention."""
    return [name for name in TASKS if name != "embeddings"]
