"""Training snapshots are read back unchanged."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import examples
import numpy as np
import pytest
from safetensors.numpy import save

from regard.core.errors import CheckpointError
from regard.decoding.strategy import build
from regard.inspection import training_snapshots
from regard.inspection.collect import collect


def test_snapshots_come_back_in_the_order_of_their_steps(tmp_path):
    snapshots = examples.translation(2, 2)
    for step in (300, 20, 1000):
        training_snapshots.write_snapshot(tmp_path, step, snapshots)
    back = training_snapshots.read_snapshots(tmp_path)
    assert [item.step for item in back] == [20, 300, 1000]
    assert back[0].output == snapshots.outputs[0].text
    assert back[0].axes["output"].labels == snapshots.axes["output"].labels
    for old, new in zip(snapshots.maps, back[0].maps, strict=True):
        assert replace(old, weights=None, honesty=None, allowed=None) == replace(new, weights=None)
        assert np.abs(old.weights - new.weights).max() < 1e-3


def test_levels_come_back(tmp_path):
    training_snapshots.write_snapshot(tmp_path, 1, examples.levels())
    (back,) = training_snapshots.read_snapshots(tmp_path)
    assert [item.parent for item in back.maps] == [item.parent for item in examples.levels().maps]
    assert back.axes == examples.levels().axes


def test_snapshots_of_an_earlier_version_are_read(tmp_path):
    weights = np.full((1, 1, 2), 0.5, dtype=np.float16)
    facts = {
        "step": 4,
        "output": "a",
        "axes": {"output": {"labels": ["a"], "kind": "tokens"}, "source": {"labels": ["b", "c"], "kind": "tokens"}},
        "maps": [["attn", "cross", 0, "output", "source"]],
    }
    (tmp_path / "probes").mkdir()
    content = save({"attn": weights}, metadata={"probe": json.dumps(facts)})
    (tmp_path / "probes" / "step-000000004.safetensors").write_bytes(content)
    (back,) = training_snapshots.read_snapshots(tmp_path)
    assert back.maps[0].title == "Output → source" and back.axes["source"].labels == ("b", "c")


def test_a_run_without_snapshots_has_none(tmp_path):
    assert training_snapshots.read_snapshots(tmp_path) == ()


def test_a_damaged_snapshot_is_named(tmp_path):
    training_snapshots.write_snapshot(tmp_path, 5, examples.translation(1, 1))
    path = training_snapshots.path_of(tmp_path, 5)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(
        CheckpointError, match=r"step-000000005\.safetensors: not a snapshot of attention maps; remove it"
    ):
        training_snapshots.read_snapshots(tmp_path)


def test_snapshots_grow_sparser_as_training_goes_on():
    steps = [step for step in range(1, 20_001) if training_snapshots.is_snapshot_step(step)]
    assert steps[:8] == [1, 2, 3, 4, 6, 8, 11, 16] and len(steps) == 28


def test_the_probe_of_a_recipe_is_kept_when_it_is_time(tmp_path, subject, sentence):
    target = subject()
    recipe = SimpleNamespace(
        training=SimpleNamespace(probe_input=sentence),
        task=SimpleNamespace(name="translation"),
        model=SimpleNamespace(name="transformer"),
        decoding=target.decoding,
    )
    for step in range(1, 6):
        training_snapshots.record_snapshot(recipe, target.task, model=target.model, run=tmp_path, step=step)
    training_snapshots.record_snapshot(recipe, target.task, model=target.model, run=tmp_path, step=5, last=True)
    snapshots = training_snapshots.read_snapshots(tmp_path)
    assert [probe.step for probe in snapshots] == [1, 2, 3, 4, 5]  # including the last one
    complete = collect(target, sentence)
    assert snapshots[0].axes["source"].labels == complete.axes["source"].labels
    assert snapshots[0].text == sentence and snapshots[0].output == complete.outputs[0].text
    truth = dict(target.task.split("train"))[sentence]
    assert "".join(snapshots[0].axes["output"].labels[:-1]) == truth.replace(" ", "") and snapshots[0].fixed
    forced = replace(target, decoding=build("forced_prefix", tokens=target.task.reference(sentence)))
    for old, fresh in zip(snapshots[0].maps, collect(forced, sentence).maps, strict=True):
        assert np.abs(old.weights - fresh.weights).max() < 1e-3
    recipe.training.probe_input = "an unknown sentence"
    training_snapshots.record_snapshot(recipe, target.task, model=target.model, run=tmp_path / "other", step=1)
    assert not training_snapshots.read_snapshots(tmp_path / "other")[
        0
    ].fixed  # without a reference, the model's output is used
    recipe.training.probe_input = ""
    training_snapshots.record_snapshot(recipe, target.task, model=target.model, run=tmp_path / "none", step=1)
    recipe.training.probe_input = sentence
    training_snapshots.record_snapshot(
        recipe, target.task, model=subject("seq2seq").model, run=tmp_path / "none", step=1
    )  # no attention
    assert training_snapshots.read_snapshots(tmp_path / "none") == ()
