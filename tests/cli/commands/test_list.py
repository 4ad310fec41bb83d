"""`regard list`: all registered names with their settings; every setting is documented."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from run_cli import call

from regard.cli import help
from regard.cli.commands.list import PACKAGES
from regard.core.describe import source_path
from regard.core.registry import registered_names


@pytest.mark.parametrize("kind", PACKAGES)
def test_every_registered_name_is_listed(kind, capsys):
    call("list")
    everything = capsys.readouterr().out
    call("list", kind)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == registered_names(PACKAGES[kind])
    assert all(len(line.split()) > 3 for line in lines)  # every line has a description
    assert all(name in everything for name in registered_names(PACKAGES[kind]))


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, package in PACKAGES.items() for name in registered_names(package)]
)
def test_one_name_with_its_settings(kind, name, capsys):
    call("list", kind.removesuffix("s"), name)
    printed = capsys.readouterr().out
    rows = help.of_class(source_path(PACKAGES[kind], name), "Config")
    assert name in printed and all(row[0] in printed and row[3] in printed for row in rows)


@pytest.mark.parametrize(
    ("package", "name", "part"),
    [
        (PACKAGES[kind], name, "Config")
        for kind in ("models", "tasks", "decoders")
        for name in registered_names(PACKAGES[kind])
    ]
    + [("regard.tasks", name, "Options") for name in registered_names("regard.tasks")]
    + [("regard.training", "config", "Config")],
)
def test_every_setting_is_documented(package, name, part):
    rows = help.of_class(source_path(package, name), part)
    assert [row[0] for row in rows if not row[3]] == []


def test_a_task_has_its_verb_and_options(capsys):
    call("list", "task", "translation")
    printed = capsys.readouterr().out
    assert "Verb: regard translate RUN …" in printed and "n" in printed and "training.optimizer.lr" in printed


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
    ("args", "message"),
    [
        (["modls"], "cannot list 'modls'; did you mean 'models'?"),
        (["model", "transfrmer"], "unknown model 'transfrmer'; did you mean 'transformer'?"),
        (["recipe", "dem.o"], "unknown recipe 'dem.o'; did you mean 'demo'?"),
        (["model", "nowhere.at_all"], "no module 'nowhere.at_all' to describe"),
    ],
)
def test_mistakes_are_one_line_errors(args, message, capsys, root, monkeypatch):
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit):
        call("list", *args)
    assert capsys.readouterr().err == f"regard: {message}\n"


def test_torch_is_not_imported():
    code = (
        "import sys; from regard.cli.main import build_app\n"
        "for args in (['list'], ['list', 'tasks'], ['list', 'model', 'transformer'], ['list', 'decoders']):\n"
        "    build_app()(args, standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_lists_as_json(capsys):
    call("list", "--json")
    assert "translation" in json.loads(capsys.readouterr().out)["tasks"]
    call("list", "models", "--json")
    assert json.loads(capsys.readouterr().out)["models"]["transformer"].startswith("The Transformer")
    call("list", "model", "transformer", "--json")
    settings = {row["name"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert settings["model.activation"]["type"] == "relu, gelu, gelu_tanh, silu"
    call("list", "recipe", "demo", "--json")
    assert json.loads(capsys.readouterr().out)["recipe"]["task"] == "translation"
