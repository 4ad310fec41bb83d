"""What a shell offers: run folders, tasks, recipes, settings."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard.cli import completion
from regard.core.registry import registered_names


class Called:
    """A context that knows the words typed so far."""

    def __init__(self, *words):
        self.meta = {completion.ARGS_META_KEY: list(words)}


def test_run_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/first", "runs/second", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs" / "first" / "config.json").write_text("{}")
    assert completion.runs("runs/f") == ["runs/first"]
    assert completion.runs("") == ["other/", "runs/", "runs/first", "runs/second/"]


def test_a_task_or_a_recipe_then_its_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('task = "tagging"\n')
    assert completion.complete_train(Called(), "t") == [
        name for name in registered_names("regard.tasks") if name.startswith("t")
    ]
    assert completion.complete_train(Called(), "mi") == ["mine.toml"]
    assert completion.complete_train(Called("translation"), "training.st") == ["training.steps="]
    assert "data.format=" in completion.complete_train(Called("mine.toml"), "data.")
    assert "model.window=" in completion.complete_train(Called("translation", "model=luong"), "model.")
    assert completion.complete_train(Called("translation"), "model=lu") == ["model=luong"]
    assert completion.complete_train(Called("translation"), "model.score=ad") == ["model.score=additive"]
    assert "model.preset=small" in completion.complete_train(Called("translation"), "model.p")
    assert completion.complete_train(Called("translation"), "data.path=x") == []


def test_what_can_be_asked_of_a_run(small):
    assert completion.complete_predict(Called(str(small)), "nb") == ["n="]
    assert completion.complete_compare(Called(str(small)), "nb") == ["n="]


@pytest.mark.parametrize(("words", "offered"), [("regard tra", "train"), ("regard train trans", "translation")])
def test_a_shell_asks_the_program(words, offered):
    """As bash does it; the script that it needs is printed by `regard --show-completion bash`."""
    environment = {
        **os.environ,
        "_REGARD_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = "from regard.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert offered in done.stdout.split()
