"""Recipes are valid, start with a description and say where external data comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from regard.training import recipe as recipes

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))


def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_valid_and_described(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ") and "\n\n[" in text
    recipes.read(tomllib.loads(text)["task"], path)


def test_external_data_says_where_to_get_it_and_how_to_point_elsewhere():
    pattern = r"^# Get it: .+\. From another place: data\.{key}=.+\n{key} = "
    keys = {path: {"path", "paths"} & set(tomllib.loads(text).get("data", {})) for path, text in texts().items()}
    missing = [
        f"{path.name}: data.{key}"
        for path, text in texts().items()
        for key in keys[path]
        if not re.search(pattern.format(key=key), text, flags=re.MULTILINE)
    ]
    assert missing == []
