"""The step-by-step numbers give back the recorded weights, and the mixture that the model computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.record import record
from regard.core.registry import names
from regard.core.shown import Axis, Item
from regard.inspection import steps as steps_module
from regard.inspection.calls import allowed, calls
from regard.inspection.collect import collect
from regard.inspection.format import Inspection, Map
from regard.inspection.steps import steps
from regard.layers import positions


class Model(torch.nn.Module):
    """One use of attention, in as many calls as rows are cut into."""

    def __init__(self, score, place=None):
        super().__init__()
        self.attend = Attend(score, place=place, queries="target", keys="source")


def inspection(weights, allowed=None):
    t, s = weights.shape[1:]
    axes = {"a": Axis((Item("x"),) * t, "a"), "b": Axis((Item("y"),) * s, "b")}
    one = Map("attend", "attend", "a", "b", weights, group="g", title="t", allowed=allowed)
    return Inspection("a", "m", "t", axes, (one,))


def run(model, q, k, v, *, mask, cuts):
    parts = [model.attend(part, k, v, mask) for part in q.split(cuts, dim=2)]
    return torch.cat(parts, dim=2)


@torch.no_grad()
@pytest.mark.parametrize("name", names("regard.attention.scores"))
@pytest.mark.parametrize("cuts", [1, 4])
def test_softmax_of_the_last_stage_mixes_the_values_as_the_model_did(name, cuts):
    model = Model(scores.build(name, 6))
    q, k, v = (torch.randn(1, 2, n, 6) for n in (4, 5, 5))
    k = model.attend.project(k)
    mask = Mask.present(torch.tensor([[True, True, False, True, True]]))
    with calls(model) as seen, record(model) as maps:
        mixed = run(model, q, k, v, mask=mask, cuts=cuts)
    weights = maps["attend"].weights[0].numpy()
    found = steps(model, seen, inspection(weights, allowed(seen["attend"], 0, (4, 5))))
    assert [one.head for one in found] == [0, 1]
    for one in found:
        last = np.where(one.allowed > 0, one.stages[-1].values, -np.inf)
        powers = np.exp(last - last.max(axis=-1, keepdims=True))
        again = powers / powers.sum(axis=-1, keepdims=True)
        assert again == pytest.approx(weights[one.head], abs=1e-5)
        assert again @ one.values == pytest.approx(mixed[0, one.head].numpy(), abs=1e-4)
        assert one.formula.startswith("Softmax[") and one.normalizer == "softmax"


@torch.no_grad()
def test_positions_inside_the_score_are_a_stage_of_their_own():
    place = positions.build("relative", 6, longest=16).place(heads=2, dim=6)
    model = Model(scores.build("scaled_dot", 6), place)
    q = torch.randn(1, 2, 4, 6)
    with calls(model) as seen, record(model) as maps:
        model.attend(q, q, q, Mask.causal())
    mask = allowed(seen["attend"], 0, (4, 4))
    (first, *_) = steps(model, seen, inspection(maps["attend"].weights[0].numpy(), mask))
    assert [stage.name for stage in first.stages] == ["q·k", "score", "with places"]
    assert (first.allowed == np.tril(np.ones((4, 4)))).all()


@torch.no_grad()
def test_only_as_many_heads_as_there_is_room_for(monkeypatch):
    monkeypatch.setattr(steps_module, "ROOM", 2000)
    model = Model(scores.build("dot", 6))
    q = torch.randn(1, 8, 4, 6)
    with calls(model) as seen, record(model) as maps:
        model.attend(q, q, q)
    found = steps(model, seen, inspection(maps["attend"].weights[0].numpy()))
    assert 0 < len(found) < 8


def test_steps_are_those_of_the_maps_row_of_the_batch(documents):
    found = collect(documents, documents.task.examples[0])
    assert found.steps[0].map == "sentence_attn"  # the map that is looked at first
    sizes = {one.name: one.weights.shape for one in found.maps}
    for step in found.steps:
        _, t, s = sizes[step.map]
        assert len(step.queries) == t and len(step.keys) == len(step.values) == s
        scores = np.where(step.allowed > 0, step.stages[-1].values, -np.inf)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        assert powers / powers.sum(axis=-1, keepdims=True) == pytest.approx(step.weights, abs=1e-5)
