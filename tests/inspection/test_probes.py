"""Snapshots through training come back as they were."""

from __future__ import annotations

from types import SimpleNamespace

import examples
import numpy as np
import pytest

from regard.core.errors import CheckpointError
from regard.inspection import probes
from regard.inspection.collect import collect


def test_snapshots_come_back_in_the_order_of_their_steps(tmp_path):
    found = examples.translation(2, 2)
    for step in (300, 20, 1000):
        probes.write(tmp_path, step, found)
    back = probes.read(tmp_path)
    assert [one.step for one in back] == [20, 300, 1000]
    assert back[0].output == found.outputs[0].text
    assert back[0].axes["output"].labels == found.axes["output"].labels
    for old, new in zip(found.maps, back[0].maps, strict=True):
        assert (old.name, old.group, old.layer, old.queries, old.keys) == (
            new.name,
            new.group,
            new.layer,
            new.queries,
            new.keys,
        )
        assert np.abs(old.weights - new.weights).max() < 1e-3


def test_a_run_without_snapshots_has_none(tmp_path):
    assert probes.read(tmp_path) == ()


def test_a_damaged_snapshot_is_named(tmp_path):
    path = probes.write(tmp_path, 5, examples.translation(1, 1))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=r"step-000000005\.safetensors: not a snapshot of a probe; remove it"):
        probes.read(tmp_path)


def test_snapshots_grow_sparser_as_training_goes_on():
    steps = [step for step in range(1, 20_001) if probes.due(step)]
    assert steps[:8] == [1, 2, 3, 4, 6, 8, 11, 16] and len(steps) == 28


def test_the_probe_of_a_recipe_is_kept_when_it_is_time(tmp_path, subject, sentence):
    one = subject()
    recipe = SimpleNamespace(
        training=SimpleNamespace(probe=sentence),
        task=SimpleNamespace(name="translation"),
        model=SimpleNamespace(name="transformer"),
        decoder=lambda: one.decode,
    )
    for step in range(1, 6):
        probes.watch(recipe, one.task, model=one.model, run=tmp_path, step=step)
    found = probes.read(tmp_path)
    assert [probe.step for probe in found] == [1, 2, 3, 4]
    whole = collect(one, sentence)
    assert found[0].axes["source"].labels == whole.axes["source"].labels
    for kept, fresh in zip(found[0].maps, whole.maps, strict=True):
        assert np.abs(kept.weights - fresh.weights).max() < 1e-3
    recipe.training.probe = ""
    probes.watch(recipe, one.task, model=one.model, run=tmp_path / "none", step=1)
    assert probes.read(tmp_path / "none") == ()
