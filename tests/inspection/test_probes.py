"""Snapshots through training come back as they were."""

from __future__ import annotations

import examples
import numpy as np
import pytest

from regard.core.errors import CheckpointError
from regard.inspection import probes


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
