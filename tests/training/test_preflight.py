"""Checks before the first step: imports of the evaluation, and decoding strategies of other packages."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import pytest

from regard.core import extras
from regard.core.errors import ConfigError, MissingExtra
from regard.decoding.constraints import OutputConstraints
from regard.decoding.strategy import DecodingStrategy
from regard.training import recipe as recipes
from regard.training.console import SilentConsole
from regard.training.preflight import check_imports
from regard.training.train import train

SMALL = ["model.layers=1", "model.dim=16", "model.ffn_dim=16", "model.heads=2", "data.pairs=60", "data.vocab_size=300"]
SMALL += ["training.steps=1"]


@pytest.fixture(autouse=True)
def importable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(root / "tests" / "third_party")


def test_a_missing_module_of_the_evaluation_is_reported_before_training(monkeypatch, tmp_path):
    def import_module(name: str) -> types.ModuleType:
        if name.startswith("seqeval"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importlib.import_module(name)

    monkeypatch.setattr(extras, "importlib", types.SimpleNamespace(import_module=import_module))
    settings = ["data.examples=40", "training.steps=1"]
    with pytest.raises(MissingExtra, match=r"seqeval.metrics is not installed; run: pip install 'regard\[text\]'"):
        train(recipes.read("tagging", settings=settings), tmp_path / "run", console=SilentConsole())
    assert not (tmp_path / "run").exists()


def test_tensorboard_is_checked_only_if_it_is_used():
    check_imports(recipes.read("translation", settings=["training.files.tensorboard=true"]))


def test_a_strategy_without_constraint_settings_decodes(tmp_path):
    recipe = recipes.read("translation", settings=[*SMALL, "decoding=lab.nth", "decoding.nth=2"])
    assert (train(recipe, tmp_path / "run", console=SilentConsole()) / "model.safetensors").exists()


def test_a_strategy_that_fails_is_found_before_anything_is_written(tmp_path):
    recipe = recipes.read("translation", settings=[*SMALL, "decoding=lab.broken_decoder"])
    with pytest.raises(ConfigError, match=r"decoding=lab.broken_decoder: fails on a small model \(AttributeError: "):
        train(recipe, tmp_path / "run", console=SilentConsole())
    assert not (tmp_path / "run").exists()


def test_constraints_of_a_strategy_without_such_settings_can_be_changed():
    from lab import nth

    strategy = DecodingStrategy("lab.nth", nth.Config()).with_constraints(min_length=3)
    assert strategy.constraints == OutputConstraints(min_length=3) and strategy.config == nth.Config()
