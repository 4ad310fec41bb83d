"""The base of tasks, and answers."""

from __future__ import annotations

import json

import pytest

from regard.core.errors import ConfigError
from regard.core.protocols import TargetMetric
from regard.core.task import Prediction, Task


class Bare(Task):
    target_metric = TargetMetric("error", higher_is_better=False)


def test_what_a_task_need_not_say():
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


def test_an_answer_is_a_line_json_and_files():
    answer = Prediction("a cat", score=-1.5, files={".txt": lambda: b"cat"})
    assert json.loads(json.dumps(answer.to_json())) == {"text": "a cat", "score": -1.5, "rank": None}
    found = Prediction(
        "<Kim:PS>", data={"entities": [{"type": "PS", "start": 0, "end": 3}]}, remarks=("cut",)
    ).to_json()
    assert found["entities"] == [{"type": "PS", "start": 0, "end": 3}] and found["remarks"] == ["cut"]
    assert answer.render(".TXT") == b"cat"
    with pytest.raises(ConfigError, match=r"^this answer cannot be written as \.png; kinds: \.txt$"):
        answer.render(".png")
    with pytest.raises(ConfigError, match=r"^this answer cannot be written as a file without a suffix; kinds: none$"):
        Prediction("a cat").render("")
