"""Fixtures of the contract tests: the tasks in folders and on a server. Their examples are imported by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from task_cases import TASKS, build_task, config_of

from regard.core.registry import find
from regard.tasks import compatible_models
from regard.training import recipe as recipes


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Task name -> the folder in which the task was saved."""
    paths = {}
    for name in TASKS:
        paths[name] = tmp_path_factory.mktemp(name.replace(".", "_"))
        build_task(name).save(paths[name])
    return paths


@pytest.fixture(scope="session")
def served_runs(folders: dict[str, Path]) -> dict[str, Any]:
    """Untrained runs of every task, each with the first compatible model."""
    from regard.api.run import Run
    from regard.serve.model_runtime import ServedRun
    from regard.training.load_run import LoadedRun

    runs = {}
    for name, folder in folders.items():
        module = find("regard.tasks", name)
        torch.manual_seed(0)
        task = module.load(config_of(name), folder)
        network = find("regard.models", compatible_models(module.SPEC)[0])
        model = network.build(network.TINY, task.spec).eval()
        runs[name] = ServedRun(name, Run(LoadedRun(folder, recipes.read(name), task, model)))
    return runs


@pytest.fixture(scope="session")
def client(served_runs: dict[str, Any]) -> Any:
    """One server of all runs."""
    from fastapi.testclient import TestClient

    from regard.serve.app import create_app

    return TestClient(
        create_app(list(served_runs.values())), base_url="http://127.0.0.1", raise_server_exceptions=False
    )
