"""`regard train`: with a task, with a recipe, resumed; and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_cli import call

from regard.cli.commands.train import free_folder, split_words
from regard.core.errors import ConfigError
from regard.training import recipe as recipes

QUICK = ["training.steps=4", "training.optimizer.lr=0.01", "training.schedule.warmup=4"]


@pytest.fixture(autouse=True)
def working_folder(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    monkeypatch.chdir(tmp_path)


def test_train_then_resume(tmp_path, capsys):
    call("train", "toys.summing", *QUICK, "--out", tmp_path / "run")
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'run'}: the weights of step 4, validation accuracy ")
    call("train", "--resume", tmp_path / "run", "--training.steps", 9)
    assert '"step": 9, "end": "steps"' in (tmp_path / "run" / "log.jsonl").read_text()


def test_a_recipe_names_its_task(tmp_path):
    (tmp_path / "r.toml").write_text('task = "toys.summing"\n[training]\nsteps = 3\n[model]\nname = "toys.gated"\n')
    for args in (["r.toml"], ["toys.summing", "r.toml"], ["training.steps=2", "r.toml"]):
        call("train", *args, "training.schedule.warmup=4", "--out", tmp_path / str(len(args[0])))
    steps = [
        json.loads((tmp_path / name / "config.json").read_text())["training"]["steps"] for name in ("6", "12", "16")
    ]
    assert steps == [3, 3, 2]


def test_only_the_first_process_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    call("train", "toys.summing", *QUICK, "--out", tmp_path / "run")
    assert capsys.readouterr().out == ""


def test_a_free_folder_is_chosen(tmp_path):
    recipe = recipes.read("toys.summing")
    assert str(free_folder(recipe)) == "runs/toys.summing-toys.gated"
    call("train", "toys.summing", *QUICK)
    call("train", "toys.summing", *QUICK)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "toys.summing-toys.gated",
        "toys.summing-toys.gated-2",
    ]
    assert free_folder(recipe).name == "toys.summing-toys.gated-3"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "name a task (see: regard list tasks), a recipe, or --resume RUN"),
        (["--resume", "x", "--out", "y"], "--resume x uses the recipe and folder of the run; leave out"),
        (["empty.toml"], "empty.toml: no task is named; add: task = …"),
        (["gone.toml"], "gone.toml: no such recipe"),
        (["poetry"], "'poetry' is neither a task nor a recipe; known: captioning, classification"),
        (["translaton"], "'translaton' is neither a task nor a recipe; did you mean 'translation'?"),
        (["tatoeba_en_kr"], "did you mean 'tatoeba_en_ko'?"),
        (["translation", "model.presett=small"], "model: no setting 'presett'; did you mean 'preset'?"),
        (["translation", "--steps", "5"], "no setting 'steps'; did you mean 'training.steps'?"),
        (["translation", "vocab_siz=5"], "no setting 'vocab_siz'; did you mean 'data.vocab_size'?"),
        (["translation", "data.path="], "data.path= is empty (an unset shell variable?); give a path, or leave"),
        (["translation", "model=transformr"], "unknown model 'transformr'; did you mean 'transformer'?"),
        (["translation", "model=transformer", "model.dims=8"], "model: no setting 'dims'; did you mean 'dim'?"),
        (["translation", "model=transformer", "data.path=none.here"], "none.here"),
        (["translation", "training.steps"], "'training.steps' is not of the form key=value"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_one_line_error_with_exit_code_1(args, message, capsys, tmp_path):
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(SystemExit) as stop:
        call("train", *args)
    error = capsys.readouterr().err.strip()
    assert stop.value.code == 1
    assert error.startswith("regard: ") and message in error and "\n" not in error
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in ("lock", "empty.toml")]
    assert files == []


def test_two_recipes_are_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        call("train", "demo", "nsmc.toml")
    assert stop.value.code == 2 and "nsmc.toml; give one" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["demo", "demo.toml", "recipes/demo.toml", "recipes/demo"])
def test_a_recipe_is_found_by_its_name_from_anywhere(word, root):
    assert split_words([word]) == ([], root / "recipes" / "demo.toml")


def test_a_recipe_of_the_working_directory_comes_first(tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "demo.toml").write_text('task = "toys.summing"')
    assert split_words(["demo"]) == ([], Path("recipes/demo.toml"))


def test_a_run_is_not_a_recipe(tmp_path):
    call("train", "toys.summing", *QUICK, "--out", tmp_path / "run")
    for word in (tmp_path / "run", tmp_path / "run" / "config.json"):
        with pytest.raises(ConfigError, match=r"is a run, not a recipe; continue it with: regard train --resume .*run"):
            split_words([str(word)])


def test_resuming_a_finished_run_says_so_and_names_the_remedy(tmp_path, capsys):
    call("train", "toys.summing", *QUICK, "--out", tmp_path / "run")
    call("train", "--resume", tmp_path / "run")
    printed = capsys.readouterr().err
    assert f"{tmp_path / 'run'} is finished and was not trained further: all 4 steps are done" in printed
    assert f"regard train --resume {tmp_path / 'run'} training.steps=8" in printed


@pytest.mark.parametrize("args", [["translation"], ["r.toml"], ["--out", "x", "translation"]])
def test_help_has_the_settings_of_the_task(args, capsys, tmp_path):
    (tmp_path / "r.toml").write_text('task = "translation"')
    call("train", *args, "model=luong", "--help")
    printed = capsys.readouterr().out
    names = ("data.vocab_size", "model.input_feeding", "training.optimizer.lr", "decoding.beam_width")
    assert all(name in printed for name in names)
    call("train", "--help")
    assert "regard train TASK --help" in capsys.readouterr().out


def test_quiet_prints_only_the_run_folder(tmp_path, capsys):
    sizes = ["model=transformer", "model.layers=1", "model.dim=16", "model.ffn_dim=16", "model.heads=2"]
    sizes += ["data.pairs=40", "data.vocab_size=300", "data.max_length=40", "decoding=greedy", "training.steps=1"]
    call("train", "translation", *sizes, "--out", tmp_path / "run", "--quiet")
    printed = capsys.readouterr()
    assert printed.err == "" and printed.out.startswith(f"{tmp_path / 'run'}: the weights of step 1")
