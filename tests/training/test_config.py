"""The [training] section: values are checked, and the budget has a default."""

from __future__ import annotations

import dataclasses

import pytest

from regard.core import config as configs
from regard.core.errors import ConfigError
from regard.training.config import Config


def read(**table):
    return configs.from_dict(Config, table, "training")


def test_without_a_budget_it_is_ten_epochs():
    assert read() == read(epochs=10)
    assert read(minutes=1.5).epochs is None
    assert read(steps=7).epochs is None


def test_what_is_written_is_read_back():
    config = read(
        steps=7, optimizer={"lr": 1, "max_grad_norm": "none"}, schedule={"name": "cosine"}, hardware={"compile": True}
    )
    assert read(**configs.to_dict(config)) == config


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"steps": 0}, r"training: steps=0 must be greater than 0"),
        ({"minutes": -1}, r"training: minutes=-1.0 must be greater than 0"),
        ({"optimizer": {"lr": 0}}, r"training\.optimizer: lr=0.0 must be greater than 0"),
        ({"optimizer": {"learning_rate": 1}}, r"training\.optimizer: no setting 'learning_rate'"),
        ({"evaluation": {"every": 0}}, r"training\.evaluation: every=0 must be greater than 0"),
        ({"files": {"keep_checkpoints": 0}}, r"training\.files: keep_checkpoints=0 must be greater than 0"),
        ({"hardware": {"device": "tpu"}}, r"training\.hardware\.device: 'tpu' is not one of"),
        ({"minutes": 1, "schedule": {"name": "cosine"}}, r"'cosine' needs the last step; set steps or epochs"),
        ({"schedule": {"warmup": 0}}, r"warmup=0 must be greater than 0"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(table, message):
    with pytest.raises(ConfigError, match=message):
        read(**table)


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        read().steps = 3
