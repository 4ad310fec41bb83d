"""Recipes: each says in its first line what it is, and where data that is not ours comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from regard.training import recipe as recipes

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_it_is_read_and_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ") and "\n\n[" in text
    recipes.read(tomllib.loads(text)["task"], path)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_data_from_outside_says_how_to_get_it_and_how_to_point_elsewhere(path):
    text = path.read_text(encoding="utf-8")
    data = tomllib.loads(text)["data"]
    for key in {"path", "paths"} & set(data):
        assert re.search(rf"^# Get it: .+\. From another place: data\.{key}=.+\n{key} = ", text, flags=re.MULTILINE)
