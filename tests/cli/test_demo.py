"""The demo: what it trains is the recipe, and it runs from start to end."""

import pytest

from regard.cli import demo
from regard.training import recipe as recipes


def test_the_demo_trains_the_recipe(root):
    written = recipes.read("translation", root / "recipes" / "demo.toml")
    assert recipes.read("translation", None, settings=demo.SETTINGS) == written


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A demo of two steps and what it prints."""
    import contextlib
    import io

    folder, printed = tmp_path_factory.mktemp("demo") / "run", io.StringIO()
    small = ["training.steps=2", "training.evaluation.every=2", "data.pairs=300", "model.dim=16", "model.hidden=16"]
    with contextlib.redirect_stdout(printed):
        demo.run(folder, small)
    return folder, printed.getvalue()


def test_the_demo_scores_translates_and_draws(shown):
    folder, text = shown
    assert (folder / "model.safetensors").exists()
    assert "BLEU" in text
    assert all(sentence in text for sentence in demo.SENTENCES)
    assert "regard look" in text


def test_rows_of_the_drawn_map_are_percentages(shown):
    _, text = shown
    assert "nurse" in text
    assert "</s>" in text or "end" in text.lower()
