"""`regard demo`: every task has a demo, and it runs from start to end."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from run_cli import call

from regard.api.run import load
from regard.attention.record import attention_modules
from regard.cli.commands import demo
from regard.core.pretrained_runs import PREFIX, PretrainedCard, locate_run
from regard.core.registry import find, registered_names
from regard.training import recipe as recipes

TINY = {
    "translation": ["data.pairs=300", "model.dim=16", "model.ffn_dim=16"],
    "music": ["data.limit=3", "model.dim=16", "model.ffn_dim=16", "model.layers=1", "data.crop=64", "data.window=64"],
    "image_generation": ["model.dim=16", "data.valid=8"],
    "image_classification": ["model.dim=16"],
    "speech_recognition": ["data.strings=12", "data.bands=8", "model.dim=16", "model.encoder=8"],
    "captioning": ["data.scenes=24", "data.height=24", "data.width=24", "model.dim=16"],
    "detection": ["data.scenes=24", "data.height=32", "model.dim=16"],
}
SHORT = ["training.steps=1", "training.evaluation.every=1"]


@pytest.mark.parametrize("task", registered_names("regard.tasks"))
def test_every_task_has_a_demo_that_is_a_recipe(task):
    assert recipes.read(task, settings=find("regard.tasks", task).DEMO).task.name == task


def test_the_demo_of_the_default_task_is_the_recipe_of_the_repository(root):
    recipe = recipes.read(demo.DEFAULT_TASK, root / "recipes" / "demo.toml")
    assert recipes.read(demo.DEFAULT_TASK, settings=find("regard.tasks", demo.DEFAULT_TASK).DEMO) == recipe


@pytest.mark.parametrize("task", registered_names("regard.tasks"))
def test_every_task_has_a_shipped_run_that_its_demo_tries(task, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    call("demo", task, "--page", tmp_path / "page.html")
    text = capsys.readouterr().out
    module, card = find("regard.tasks", task), PretrainedCard.read(locate_run(f"{PREFIX}{task}"))
    assert f"pretrained:{task}: {card.model}, trained for" in text and f"{card.metric} {card.score:.4g}" in text
    assert f"regard demo {task} --train" in text and f"regard {module.VERB} {PREFIX}{task}" in text
    assert not any(load(f"{PREFIX}{task}").task.examples) or (tmp_path / "page.html").exists()


@pytest.mark.parametrize("task", registered_names("regard.tasks"))
def test_the_demo_evaluates_predicts_draws_and_prints_next_commands(task, tmp_path, capsys, monkeypatch):
    if task == "music":
        pytest.importorskip("music21", reason="the extra music is not installed")
    monkeypatch.setenv("COLUMNS", "160")
    folder = tmp_path / "run"
    call("demo", task, *SHORT, *TINY.get(task, []), "--out", folder)
    text = capsys.readouterr().out
    module = find("regard.tasks", task)
    assert (folder / "model.safetensors").exists()
    assert "On the test data: " in text
    assert f"regard {module.VERB} {folder}" in text and f"regard evaluate {folder}" in text
    assert f"regard train {task} --help" in text
    drawn = any(part in text for part in ("in percent, averaged over layers and heads", "│", "─", "█"))
    assert drawn or not attention_modules(load(folder).model)  # a model with attention has a drawing


def test_an_old_task_name_is_refused_with_the_new_name(capsys):
    with pytest.raises(SystemExit) as stop:
        call("demo", "images")
    message = "regard: task=images was renamed; write task=image_generation\n"
    assert stop.value.code == 1 and capsys.readouterr().err == message


def test_a_map_over_time_is_merged_and_other_maps_are_not():
    weights = np.full((2, 30), 1 / 30)
    labels, merged = demo.merge_times([f"{i / 25:.2f}" for i in range(30)], weights)
    assert len(labels) == merged.shape[1] == 10 and labels[1] == "0.12" and merged.sum() == pytest.approx(2)
    words = [f"word {i}" for i in range(30)]
    assert demo.merge_times(words, weights) == (words, weights)


def test_commands_start_with_the_program_that_was_called(monkeypatch, tmp_path):
    program = tmp_path / "bin" / "regard"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.program_name() == str(program)
    monkeypatch.setenv("PATH", str(program.parent))
    assert demo.program_name() == "regard"
    monkeypatch.setattr(sys, "argv", ["/some/site-packages/regard/__main__.py"])
    assert demo.program_name().endswith(" -m regard")
