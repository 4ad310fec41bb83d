"""Defaults of the task base class, and predictions."""

from __future__ import annotations

import json
import math

import pytest

from regard.core.errors import ConfigError
from regard.core.protocols import TargetMetric
from regard.core.task import Prediction, Task


class Bare(Task):
    target_metric = TargetMetric("error", higher_is_better=False)


def test_optional_methods_have_defaults():
    task = Bare()
    assert task.parse_input("a text") == "a text"
    assert (task.data_warnings(), task.signatures(), task.extra_metrics(None, "test", None), task.examples) == (
        [],
        {},
        {},
        (),
    )
    for call in (
        lambda: task.epoch_batches(0, 1),
        lambda: task.collate(None),
        lambda: task.loss(None, None),
        lambda: task.evaluate(None, "valid", None),
        lambda: task.predict(None, [], None, None),
        lambda: task.inspect(None, None, None, None),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_a_prediction_has_text_json_and_files():
    prediction = Prediction("a cat", score=-1.5, files={".txt": lambda: b"cat"})
    assert json.loads(json.dumps(prediction.to_json())) == {
        "text": "a cat",
        "probability": math.exp(-1.5),
        "score": -1.5,
        "ranking_score": None,
    }
    table = Prediction(
        "<Kim:PS>", data={"entities": [{"type": "PS", "start": 0, "end": 3}]}, remarks=("cut",)
    ).to_json()
    assert table["entities"] == [{"type": "PS", "start": 0, "end": 3}] and table["remarks"] == ["cut"]
    assert prediction.render(".TXT") == b"cat"
    with pytest.raises(ConfigError, match=r"^this prediction cannot be written as \.png; available: \.txt$"):
        prediction.render(".png")
    with pytest.raises(
        ConfigError, match=r"^this prediction cannot be written as a file without a suffix; available: none$"
    ):
        Prediction("a cat").render("")
