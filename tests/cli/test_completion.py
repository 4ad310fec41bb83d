"""Shell completion: run folders, tasks, recipes, settings."""

from __future__ import annotations

import pytest
from run_cli import call

from regard.cli import completion
from regard.core.registry import registered_names


class Context:
    """A command context with the arguments typed so far."""

    def __init__(self, *args):
        self.meta = {completion.ARGS_META_KEY: list(args)}


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
    tasks = [name for name in registered_names("regard.tasks") if name.startswith("t")]
    assert completion.complete_train(Context(), "t") == [*tasks, "tatoeba_en_ko"]
    assert "data.vocab_size=" in completion.complete_train(Context("tatoeba_en_ko"), "data.")
    assert completion.complete_train(Context(), "mi") == ["mine.toml"]
    assert completion.complete_train(Context("translation"), "training.st") == ["training.steps="]
    assert "data.format=" in completion.complete_train(Context("mine.toml"), "data.")
    assert "model.window=" in completion.complete_train(Context("translation", "model=luong"), "model.")
    assert completion.complete_train(Context("translation"), "model=lu") == ["model=luong"]
    assert completion.complete_train(Context("translation"), "model.score=ad") == ["model.score=additive"]
    assert "model.preset=small" in completion.complete_train(Context("translation"), "model.p")
    assert completion.complete_train(Context("translation"), "data.path=x") == []


def test_options_of_a_run(small):
    assert completion.complete_predict(Context(str(small)), "n") == ["n="]
    assert completion.complete_compare(Context(str(small)), "n") == ["n="]


@pytest.mark.parametrize(("typed", "completed"), [("regard tra", "train"), ("regard train trans", "translation")])
def test_a_shell_calls_the_program(typed, completed, monkeypatch, capsys):
    """Set the variables that bash sets; its script is printed by `regard --show-completion bash`."""
    monkeypatch.setenv("_REGARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    call()
    assert completed in capsys.readouterr().out.split()
