"""`regard list`: all there is to choose from, with its settings; every setting has a meaning."""

from __future__ import annotations

import subprocess
import sys

import pytest
from run_cli import call

from regard.cli import help
from regard.cli.commands.list import PACKAGES
from regard.core.describe import source_path
from regard.core.registry import registered_names


@pytest.mark.parametrize("kind", PACKAGES)
def test_everything_that_is_registered_is_listed(kind, capsys):
    call("list")
    everything = capsys.readouterr().out
    call("list", kind)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == registered_names(PACKAGES[kind])
    assert all(len(line.split()) > 3 for line in lines)  # each says what it is
    assert all(name in everything for name in registered_names(PACKAGES[kind]))


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, package in PACKAGES.items() for name in registered_names(package)]
)
def test_one_of_them_with_its_settings(kind, name, capsys):
    call("list", kind.removesuffix("s"), name)
    said = capsys.readouterr().out
    rows = help.of_class(source_path(PACKAGES[kind], name), "Config")
    assert name in said and all(row[0] in said and row[3] in said for row in rows)


@pytest.mark.parametrize(
    ("package", "name", "part"),
    [(PACKAGES[kind], name, "Config") for kind in ("models", "tasks", "decoders") for name in registered_names(PACKAGES[kind])]
    + [("regard.tasks", name, "Options") for name in registered_names("regard.tasks")]
    + [("regard.training", "config", "Config")],
)  # fmt: skip
def test_every_setting_has_a_meaning(package, name, part):
    rows = help.of_class(source_path(package, name), part)
    assert [row[0] for row in rows if not row[3]] == []


def test_a_task_has_its_verb_and_options(capsys):
    call("list", "task", "translation")
    said = capsys.readouterr().out
    assert "Verb: regard translate RUN …" in said and "n" in said and "training.optimizer.lr" in said


def test_recipes(root, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(root)
    call("list", "recipes")
    assert "demo " in capsys.readouterr().out
    call("list", "recipe", "demo")
    assert capsys.readouterr().out == (root / "recipes" / "demo.toml").read_text(encoding="utf-8")
    (tmp_path / "recipes").mkdir()
    monkeypatch.chdir(tmp_path)
    call("list", "recipes")
    assert "none found; the folder recipes/ of the repository has one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["modls"], "cannot list 'modls'; did you mean 'models'?"),
        (["model", "transfrmer"], "unknown model 'transfrmer'; did you mean 'transformer'?"),
        (["recipe", "dem.o"], "unknown recipe 'dem.o'; did you mean 'demo'?"),
        (["model", "nowhere.at_all"], "no module 'nowhere.at_all' to describe"),
    ],
)
def test_mistakes_are_one_line(words, said, capsys, root, monkeypatch):
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit):
        call("list", *words)
    assert capsys.readouterr().err == f"regard: {said}\n"


def test_nothing_of_torch_is_needed():
    code = (
        "import sys; from regard.cli.main import app\n"
        "for words in (['list'], ['list', 'tasks'], ['list', 'model', 'transformer'], ['list', 'decoders']):\n"
        "    app(words, standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
