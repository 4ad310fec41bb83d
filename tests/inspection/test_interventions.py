"""Interventions: exact inside the block, removed after it."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import MODELS

from regard.attention.record import attention_modules, record
from regard.core.errors import RegardError
from regard.inspection.interventions import NO_INTERVENTIONS, Interventions, apply_interventions


@pytest.fixture(params=MODELS)
def case(request, subject, sentence):
    """A model and its inspectable prediction of a sentence."""
    target = subject(request.param)
    with torch.no_grad():
        return target.model, target.inspect(sentence)


@torch.no_grad()
def test_nothing_changed_is_the_same_to_the_bit(case):
    model, shown = case
    usual = shown.replay()
    with apply_interventions(model, NO_INTERVENTIONS):
        assert torch.equal(shown.replay(), usual)


@torch.no_grad()
def test_a_disabled_head_outputs_zeros(case):
    model, shown = case
    usual, name = shown.replay(), list(attention_modules(model))[-1]
    outputs = []
    module = attention_modules(model)[name]
    with apply_interventions(model, Interventions(off=((name, 0),))):
        hook = module.register_forward_hook(lambda m, i, output: outputs.append(output))
        assert not torch.equal(shown.replay(), usual)
        hook.remove()
    assert all((output[:, 0] == 0).all() for output in outputs)
    assert torch.equal(shown.replay(), usual)


@torch.no_grad()
def test_a_hidden_item_gets_no_weight_and_rows_still_sum_to_one(case):
    model, shown = case
    usual = shown.replay()
    forbid = (("source", 1), ("source", 3), ("read", 2))
    with apply_interventions(model, Interventions(forbid=forbid), shown), record(model) as maps:
        assert not torch.equal(shown.replay(), usual)
    for item in maps.values():
        assert (item.weights[..., [1, 3] if item.keys == "source" else [2]] == 0).all()
        sums = item.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
    assert torch.equal(shown.replay(), usual)


@torch.no_grad()
def test_an_item_of_one_row_of_the_batch_is_forbidden_there_alone(documents):
    shown = documents.inspect(documents.task.examples[0])
    forbid = Interventions(forbid=(("words.1", 2),))
    with record(documents.model) as usual:
        shown.replay()
    with apply_interventions(documents.model, forbid, shown), record(documents.model) as maps:
        shown.replay()
    weights, before = maps["word_attn"].weights, usual["word_attn"].weights
    assert (weights[1, ..., 2] == 0).all()
    assert torch.equal(weights[[0, 2]], before[[0, 2]]) and not torch.equal(weights[1], before[1])


@torch.no_grad()
def test_temperature_flattens_or_sharpens_every_map(case):
    model, shown = case

    def sharpness(temperature):
        with apply_interventions(model, Interventions(temperature=temperature)), record(model) as maps:
            shown.replay()
        return torch.stack([item.weights.square().sum(-1).mean() for item in maps.values()])

    cold, usual, warm = sharpness(0.2), sharpness(1.0), sharpness(5.0)
    assert (cold > usual).all() and (usual > warm).all()
    assert (sharpness(1.0) == usual).all()


@torch.no_grad()
def test_what_is_mixed_at_a_temperature_is_what_the_map_says(case):
    model, shown = case
    usual = shown.replay()
    mixed = []
    name, module = list(attention_modules(model).items())[-1]
    with apply_interventions(model, Interventions(temperature=3.0)), record(model) as maps:
        hook = module.register_forward_hook(lambda m, inputs, output: mixed.append((inputs[2], output)))
        assert not torch.equal(shown.replay(), usual)
        hook.remove()
    weights = maps[name].weights
    values = mixed[-1][0]
    torch.testing.assert_close(torch.cat([output for _, output in mixed], dim=2), weights @ values)
    assert torch.equal(shown.replay(), usual)


def test_what_does_not_exist_cannot_be_changed(case):
    model, shown = case
    name = next(iter(attention_modules(model)))
    for changes, message in (
        (Interventions(off=(("croos", 0),)), r"cannot disable a head of 'croos': no such attention module; "),
        (Interventions(off=((name, 99),)), r"has no head 99; its heads are 0 to"),
        (Interventions(forbid=(("source", 99),)), r"cannot hide item 99 of 'source': it has items 0 to"),
        (
            Interventions(forbid=(("sourec", 0),)),
            r"cannot hide an item of 'sourec': no such axis; did you mean 'source'\?",
        ),
    ):
        with pytest.raises(RegardError, match=message), apply_interventions(model, changes, shown):
            shown.replay()
    with pytest.raises(RegardError, match=r"temperature=0 must be between 0\.01 and 100"):
        Interventions(temperature=0)
