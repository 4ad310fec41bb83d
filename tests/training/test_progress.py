"""Progress: plain values that come back as they were; data that changed is noticed."""

from __future__ import annotations

import json

import numpy as np
from toys import summing

from regard.training.progress import Best, Progress, Window, fingerprint, from_dict


def test_it_survives_json_to_the_last_digit():
    window, best = Window(1 / 3, 5, 1), Best(4, 2 / 3, 1, {"loss": 1e-17})
    now = Progress(step=7, epoch=1, index=2, seconds=0.1 + 0.2, window=window, best=best, snapshots=[3, 6], data="x")
    assert from_dict(json.loads(json.dumps(now.to_dict())), "here") == now


def test_the_fingerprint_changes_with_data_and_batching():
    task = summing.build(summing.Config())
    plan = task.plan(0, 1)
    same = fingerprint(summing.build(summing.Config()), plan)
    assert fingerprint(task, plan) == same
    assert fingerprint(task, plan[:-1]) != same
    assert fingerprint(task, [plan[1], *plan[1:]]) != same
    task.rows[plan[0][0], 0] = 5 - task.rows[plan[0][0], 0] % 5
    assert fingerprint(task, plan) != same
    assert fingerprint(task, []) != same
    assert fingerprint(task, [np.array([], dtype=np.int64)]) != same
