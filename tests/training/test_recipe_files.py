"""Recipes as files: TOML of any values, and where names are looked up."""

from __future__ import annotations

import tomllib

import pytest

from regard.core.errors import ConfigError
from regard.training.recipe_files import find_recipe, packaged_recipes, to_toml

TABLE = {
    "task": "translation",
    "seed": 3,
    "data": {"path": 'C:\\data\\"quoted"\n한국어\x7f', "columns": ["a", "b"], "empty": [], "header": True},
    "training": {"minutes": 1.5, "schedule": {"warmup": 4, "low": 1e-9}},
}


def test_toml_is_read_back_as_the_same_table() -> None:
    text = to_toml(TABLE, comment="first\nsecond")
    assert text.startswith("# first\n# second\n") and tomllib.loads(text) == TABLE


def test_none_is_written_as_a_word_that_settings_accept() -> None:
    assert to_toml({"training": {"steps": None}}) == '[training]\nsteps = "none"\n'


def test_every_recipe_of_the_repository_is_packaged(root) -> None:
    assert packaged_recipes().keys() == {path.stem for path in (root / "recipes").glob("*.toml")}
    assert '"recipes" = "regard/recipes"' in (root / "pyproject.toml").read_text(encoding="utf-8")


def test_a_file_that_does_not_exist_is_an_error_with_the_closest_name() -> None:
    with pytest.raises(ConfigError, match=r"dem.toml: no such recipe; did you mean 'demo'\?"):
        find_recipe("dem.toml")
    assert find_recipe("no_recipe_of_this_name") is None
