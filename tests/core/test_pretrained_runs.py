"""Shipped runs: their names, their cards, their predictions, and that they are read-only."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

import regard
from regard.core.errors import ConfigError
from regard.core.pretrained_runs import PREFIX, PretrainedCard, is_pretrained, locate_run, pretrained_folders
from regard.core.registry import registered_names
from regard.training import train as training
from regard.training.recipe_files import packaged_recipes

NAMES = sorted(pretrained_folders())
MAX_MEGABYTES = 13.3  # of the compressed files in the wheel


def test_a_path_stays_a_path():
    assert locate_run("runs/first") == Path("runs/first") and not is_pretrained(Path("runs/first"))


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match=re.escape("pretrained:translaton: no such pretrained run")):
        locate_run("pretrained:translaton")


@pytest.mark.parametrize("name", NAMES)
def test_a_card_names_what_exists(name):
    card = PretrainedCard.read(pretrained_folders()[name])
    assert card.task in registered_names("regard.tasks") and card.task == name.partition("-")[0]
    assert card.recipe in packaged_recipes() and card.license and card.minutes > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_run_gives_the_predictions_of_its_card(name):
    folder = locate_run(f"{PREFIX}{name}")
    run, card = regard.load(f"{PREFIX}{name}"), PretrainedCard.read(folder)
    assert run.folder == folder and is_pretrained(folder)
    files = {path.name: str(path) for path in folder.iterdir()}
    inputs = [files.get(example, example) for example in card.predictions]
    best = {name: ranked[0] for name, ranked in zip(card.predictions, run.predict(inputs, **card.options), strict=True)}
    assert {name: prediction.text for name, prediction in best.items()} == card.predictions and card.predictions
    scores = {name: prediction.score for name, prediction in best.items() if prediction.score is not None}
    assert scores == pytest.approx(card.log_probs, abs=1e-2)


def test_a_shipped_run_is_not_trained_further():
    with pytest.raises(ConfigError, match="pretrained runs are read-only"):
        training.resume(f"{PREFIX}{NAMES[0]}")


def test_all_runs_fit_into_the_wheel():
    files = [path for folder in pretrained_folders().values() for path in folder.rglob("*") if path.is_file()]
    assert sum(len(zlib.compress(path.read_bytes())) for path in files) < MAX_MEGABYTES * 1e6
