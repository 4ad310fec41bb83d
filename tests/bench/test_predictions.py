"""The benchmark of predictions: the plain loop gives the same predictions as regard."""

import comparisons
import predictions
import pytest

from regard.decoding import strategy


@pytest.mark.parametrize("work", ["documents", "tags", "recommendation"])
def test_the_loop_and_regard_do_the_same_work(work, monkeypatch):
    monkeypatch.setattr(predictions, "BATCH", 8)
    seen = {}

    def systems(task, model, inputs, loop, options):
        seen["loop"] = loop(inputs)
        seen["regard"] = task.predict(model, inputs, options, strategy.build("greedy"))
        return {}

    monkeypatch.setattr(predictions, "_systems", systems)
    comparisons.find(work).systems(True)
    assert len(seen["loop"]) == len(seen["regard"]) == 8
    if work == "documents":
        assert seen["loop"] == [best.text for best, *_ in seen["regard"]]
    if work == "recommendation":
        assert seen["loop"] == [[item.text for item in row] for row in seen["regard"]]
