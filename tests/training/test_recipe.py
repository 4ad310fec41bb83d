"""Recipes: read from a file, words or a dict, checked strictly, and written completely."""

from __future__ import annotations

from pathlib import Path

import pytest
from toys import summing

from regard.core.errors import ConfigError
from regard.decoding.strategies import beam
from regard.decoding.strategy import DecodingStrategy
from regard.training import recipe as recipes
from regard.training.recipe import from_dict, read, setting_names


def test_defaults_then_file_then_settings(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("seed = 3\n[model]\ndim = 4\n[training]\nsteps = 5\nminutes = 2\n")
    recipe = read("toys.summing", path, settings=["training.steps=9", "data.words=7"])
    assert (recipe.seed, recipe.model.name, recipe.model.config.dim) == (3, "toys.gated", 4)
    assert (recipe.training.steps, recipe.training.minutes, recipe.task.config.words) == (9, 2.0, 7)
    assert recipe.decoding is None and "decoding" not in recipe.to_dict()  # there is no default strategy


def test_what_is_written_is_read_back(toy):
    recipe = toy("model.preset=wide", "decoding=beam", "decoding.beam_width=3")
    assert from_dict(recipe.to_dict()) == recipe
    assert recipe.model.config.dim == 16 and recipe.decoding == DecodingStrategy("beam", beam.Config(beam_width=3))
    assert from_dict(toy().to_dict()) == toy()
    assert "preset" not in recipe.to_dict()["model"]


def test_another_model_does_not_inherit_the_settings_of_the_first():
    first = {"model": {"name": "toys.gated", "dim": 4}, "decoding": {"name": "beam", "beam_width": 9}}
    changed = recipes._override(first, ["decoding=greedy", "model=toys.gated"])
    assert changed == {"model": {"name": "toys.gated", "dim": 4}, "decoding": {"name": "greedy"}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["modle=transformer"], "'modle' is not a section of a recipe; did you mean 'model'"),
        (["model=transfomer"], "unknown model 'transfomer'; did you mean 'transformer'"),
        (["model.dimm=3"], "model: no setting 'dimm'; did you mean 'dim'"),
        (["model.preset=wid"], "toys.gated has no preset 'wid'; did you mean 'wide'"),
        (["model.dim=big"], r"model\.dim: expected a whole number, got 'big'"),
        (["training=5"], "training=5 is not a section; write settings as training"),
        (["seed=-1"], "seed=-1 must be an integer, 0 or more"),
        (["seed=true"], "seed=True must be an integer"),
        (["task=translation"], "task='translation', but 'toys.summing' was requested; request the task of the recipe"),
        (["model=3"], r"model\.name=3 must be a name, for example model=transformer"),
        (["decoding=no"], "unknown strategy 'no'"),
        (["decoding.beam_width=3"], r"decoding\.name=None must be a name, for example decoding=beam"),
        (["model=transformer"], "model=transformer cannot be trained on the task toys.summing; models that fit: none"),
        (["training.steps"], "not of the form key=value"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        read("toys.summing", settings=settings)


def test_a_model_and_a_task_must_be_named():
    with pytest.raises(ConfigError, match=r"model\.name=None must be a name"):
        from_dict({"task": "toys.summing"})
    with pytest.raises(ConfigError, match="task=None must be the name of a task"):
        from_dict({})


def test_a_recipe_that_says_how_long_is_not_cut_short_by_the_defaults(monkeypatch):
    monkeypatch.setitem(summing.DEFAULTS, "training", {"minutes": 3.0, "optimizer": {"lr": 0.25}})
    assert read("toys.summing").training.minutes == 3
    training = read("toys.summing", settings=["training.steps=7"]).training
    assert (training.steps, training.minutes) == (7, None)
    assert training.optimizer.lr == 0.25  # the other defaults stay


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"model.dim": 8, "model": "luong"}, ["model=luong", "model.dim=8"]),
        ({"model": {"dim": 8, "name": "luong"}}, ["model=luong", "model.dim=8"]),
        ({"model.name": "luong"}, ["model=luong"]),
        ({"data": {"dataset": "x", "path": Path("a b")}}, ['data.dataset="x"', 'data.path="a b"']),
        ({"data.path": "3"}, ['data.path="3"']),
        (
            {"training": {"optimizer": {"betas": (0.9, 0.5), "max_grad_norm": None}}, "data.joint": True},
            ["training.optimizer.betas=[0.9, 0.5]", "training.optimizer.max_grad_norm=none", "data.joint=true"],
        ),
        ({"training.optimizer": {"lr": 1}, "decoding": "beam"}, ["training.optimizer.lr=1", "decoding=beam"]),
        ({"decoding": {"name": "sample", "temperature": 2}}, ["decoding=sample", "decoding.temperature=2"]),
        ({}, []),
    ],
)  # fmt: skip
def test_a_dict_and_words_give_the_same_recipe(table, words):
    assert read("translation", settings=table) == read("translation", settings=words)


def test_a_dict_keeps_the_budget_of_the_recipe_file_as_words_do(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("[training]\nminutes = 2\n")
    training = read("toys.summing", path, settings={"training.steps": 9}).training
    assert (training.steps, training.minutes) == (9, 2.0)


def test_names_of_settings():
    assert setting_names(["model=luong", "data.path=a=b"]) == ["model", "data.path"]
    assert setting_names({"model": "luong", "data": {"path": "x", "columns.first": 1}}) == [
        "model", "data.path", "data.columns.first",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"modle": "x"}, "'modle' is not a section of a recipe"),
        ({"model": 3}, r"model\.name=3 must be a name"),
        ({"training": 5}, "training=5 is not a section"),
        ({"model": {"dimm": 3}}, "model: no setting 'dimm'; did you mean 'dim'"),
        ({"start": {"run": "x"}}, r"\[start\] was renamed; write \[pretrained\]"),
    ],
)
def test_a_wrong_setting_in_a_dict_is_named(table, message):
    with pytest.raises(ConfigError, match=message):
        read("toys.summing", settings=table)


def test_third_party_settings_may_have_old_names():
    with pytest.raises(ConfigError, match="data: no setting 'rows'"):
        read("toys.summing", settings=["data.rows=3"])
