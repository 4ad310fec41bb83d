"""The step-by-step values reproduce the recorded weights and the output of attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.record import record
from regard.core.inspectable import Axis, Item
from regard.core.registry import registered_names
from regard.inspection import json_format as format_module
from regard.inspection.attention_steps import collect_steps
from regard.inspection.call_recorder import combined_mask, record_calls
from regard.inspection.collect import collect
from regard.inspection.interventions import Interventions, apply_interventions
from regard.inspection.json_format import Inspection, Map, to_json
from regard.layers import positions


class Model(torch.nn.Module):
    """One attention module, called once per chunk of queries."""

    def __init__(self, score, bias=None):
        super().__init__()
        self.attend = Attend(score, position_bias=bias, queries="target", keys="source")


def inspection(weights, allowed=None):
    t, s = weights.shape[1:]
    axes = {"a": Axis((Item("x"),) * t, "a"), "b": Axis((Item("y"),) * s, "b")}
    attention = Map("attend", "attend", "a", "b", weights, group="g", title="t", allowed=allowed)
    return Inspection("a", "m", "t", axes, (attention,))


def run(model, q, k, v, *, mask, cuts):
    parts = [model.attend(part, k, v, mask) for part in q.split(cuts, dim=2)]
    return torch.cat(parts, dim=2)


@torch.no_grad()
@pytest.mark.parametrize("name", registered_names("regard.attention.scores"))
@pytest.mark.parametrize("cuts", [1, 4])
def test_softmax_of_the_last_stage_mixes_the_values_as_the_model_did(name, cuts):
    model = Model(scores.build(name, 6))
    q, k, v = (torch.randn(1, 2, n, 6) for n in (4, 5, 5))
    k = model.attend.project(k)
    mask = Mask.present(torch.tensor([[True, True, False, True, True]]))
    with record_calls(model) as calls, record(model) as maps:
        mixed = run(model, q, k, v, mask=mask, cuts=cuts)
    weights = maps["attend"].weights[0].numpy()
    steps = collect_steps(model, calls, inspection(weights, combined_mask(calls["attend"], 0, (4, 5))))
    assert [item.head for item in steps] == [0, 1]
    seen_keys = np.array([True, True, False, True, True])
    for item in steps:
        last = np.where(seen_keys, item.stages[-1].values, -np.inf)
        powers = np.exp(last - last.max(axis=-1, keepdims=True))
        again = powers / powers.sum(axis=-1, keepdims=True)
        assert again == pytest.approx(weights[item.head], abs=1e-5)
        assert again @ item.values == pytest.approx(mixed[0, item.head].numpy(), abs=1e-4)
        assert item.formula.startswith("Softmax[") and item.normalizer == "softmax"


@torch.no_grad()
def test_positions_inside_the_score_are_a_stage_of_their_own():
    bias = positions.build("relative", 6, max_length=16).position_bias(heads=2, dim=6)
    model = Model(scores.build("scaled_dot", 6), bias)
    q = torch.randn(1, 2, 4, 6)
    with record_calls(model) as calls, record(model) as maps:
        model.attend(q, q, q, Mask.causal())
    mask = combined_mask(calls["attend"], 0, (4, 4))
    (first, *_) = collect_steps(model, calls, inspection(maps["attend"].weights[0].numpy(), mask))
    assert [stage.name for stage in first.stages] == ["q·k", "score", "with positions"]
    assert first.formula == "Softmax[ q·k / √d + q·e[i−j] / √d + M ] · V"  # the formula names the relative term


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "key"), [("dot", "k"), ("general", "W·k"), ("additive", "U·k"), ("cosine", "k / |k|")]
)
def test_every_head_is_there_and_its_keys_are_called_what_they_are(name, key):
    model = Model(scores.build(name, 6))
    q = torch.randn(1, 24, 70, 6)
    with record_calls(model) as calls, record(model) as maps:
        model.attend(q, model.attend.project(q), q)
    steps = collect_steps(model, calls, inspection(maps["attend"].weights[0].numpy()))
    assert [item.head for item in steps] == list(range(24)) and {item.key for item in steps} == {key}


@torch.no_grad()
def test_heads_without_room_are_listed_without_their_numbers(monkeypatch):
    model = Model(scores.build("dot", 6))
    q = torch.randn(1, 3, 4, 6)
    with record_calls(model) as calls, record(model) as maps:
        model.attend(q, q, q)
    complete = inspection(maps["attend"].weights[0].numpy())
    steps = collect_steps(model, calls, complete)
    monkeypatch.setattr(format_module, "MAX_STEP_NUMBERS", 2 * steps[0].size)
    listed = to_json(replace(complete, steps=steps))["steps"]
    assert [item["head"] for item in listed] == [0, 1, 2]
    assert [item["queries"] is None and item["stages"] is None for item in listed] == [False, False, True]


@torch.no_grad()
def test_under_a_temperature_the_scores_are_divided_before_the_softmax():
    model = Model(scores.build("scaled_dot", 6))
    q = torch.randn(1, 2, 4, 6)
    with (
        apply_interventions(model, Interventions(temperature=2.0)),
        record_calls(model) as calls,
        record(model) as maps,
    ):
        model.attend(q, q, q)
        weights = maps["attend"].weights[0].numpy()
        first, *_ = collect_steps(model, calls, inspection(weights))
    assert [stage.name for stage in first.stages] == ["q·k", "÷ √d", "÷ 2"]
    assert (first.formula, first.normalizer) == ("Softmax[ q·k / √d / 2 + M ] · V", "softmax")
    powers = np.exp(first.stages[-1].values)
    assert powers / powers.sum(axis=-1, keepdims=True) == pytest.approx(weights[0], abs=1e-5)


def test_steps_are_those_of_the_maps_row_of_the_batch(documents):
    steps = collect(documents, documents.task.examples[0])
    assert steps.steps[0].map == "sentence_attn"  # the primary map
    sizes = {item.name: item.weights.shape for item in steps.maps}
    for step in steps.steps:
        _, t, s = sizes[step.map]
        assert len(step.queries) == t and len(step.keys) == len(step.values) == s
        attention = next(item for item in steps.maps if item.name == step.map)
        may = True if attention.allowed is None else attention.allowed[min(step.head, len(attention.allowed) - 1)]
        scores = np.where(may, step.stages[-1].values, -np.inf)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        assert powers / powers.sum(axis=-1, keepdims=True) == pytest.approx(attention.weights[step.head], abs=1e-5)
