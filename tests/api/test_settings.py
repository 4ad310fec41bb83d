"""Settings in Python: a list of words or a dict say the same."""

from pathlib import Path

import pytest

from regard.api.settings import to_key_values
from regard.training import recipe as recipes


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["model=luong", "model.dim=8"], ["model=luong", "model.dim=8"]),
        ({"model.dim": 8, "model": "luong"}, ['model="luong"', "model.dim=8"]),
        ({"model": {"dim": 8, "name": "luong"}}, ['model="luong"', "model.dim=8"]),
        ({"data": {"name": "x", "path": Path("a b")}}, ['data.dataset="x"', 'data.path="a b"']),
        ({"training": {"optimizer": {"betas": (0.9, 0.5), "clip": None}}, "a.b": True},
         ["training.optimizer.betas=[0.9, 0.5]", "training.optimizer.max_grad_norm=none", "a.b=true"]),
        ({}, []),
    ],
)  # fmt: skip
def test_words_of_settings(settings, words):
    assert to_key_values(settings) == words


def test_a_dict_makes_the_same_recipe_as_words():
    words = ["model=luong", "model.dim=8", "data.path=3", "training.optimizer.max_grad_norm=none", "decoding=beam"]
    table = {"model": {"name": "luong", "dim": 8}, "training.optimizer": {"clip": None}, "decoding": "beam"}
    ours = recipes.read("translation", settings=to_key_values({**table, "data.path": Path("3")}))
    assert ours == recipes.read("translation", settings=[*words[:2], 'data.path="3"', *words[3:]])
