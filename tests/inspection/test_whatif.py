"""Changes from outside: exact inside the block, gone after it."""

from __future__ import annotations

import pytest
import torch
from subjects import MODELS

from regard.attention.record import attentions, record
from regard.core.errors import RegardError
from regard.inspection.whatif import Changes, changed


@pytest.fixture(params=MODELS)
def case(request, subject, task, sentence):
    """A model and one pass over a sentence."""
    model = subject(request.param).model
    source = task.encode_sources([sentence])
    tokens = torch.tensor([[task.marks.start, 7, 9, 11]])
    return model, lambda: model(tokens, model.start(source))[0]


def attention(model):
    return list(attentions(model))


@torch.no_grad()
def test_nothing_changed_is_the_same_to_the_bit(case):
    model, run = case
    usual = run()
    with changed(model, Changes()):
        assert torch.equal(run(), usual)


@torch.no_grad()
def test_a_switched_off_head_mixes_nothing(case):
    model, run = case
    usual, name = run(), attention(model)[-1]
    seen = []
    module = attentions(model)[name]
    with changed(model, Changes(off=((name, 0),))):
        hook = module.register_forward_hook(lambda m, i, output: seen.append(output))
        assert not torch.equal(run(), usual)
        hook.remove()
    assert all((output[:, 0] == 0).all() for output in seen)
    assert torch.equal(run(), usual)


@torch.no_grad()
def test_a_forbidden_token_gets_no_weight_and_rows_still_sum_to_one(case):
    model, run = case
    usual = run()
    with changed(model, Changes(forbid=(1, 3))), record(model) as maps:
        assert not torch.equal(run(), usual)
    for one in maps.values():
        if one.keys == "source":
            assert (one.weights[..., [1, 3]] == 0).all()
            torch.testing.assert_close(one.weights.sum(-1), torch.ones_like(one.weights.sum(-1)))
    assert torch.equal(run(), usual)


@torch.no_grad()
def test_temperature_flattens_or_sharpens_every_map(case):
    model, run = case

    def sharpness(temperature):
        with changed(model, Changes(temperature=temperature)), record(model) as maps:
            run()
        return torch.stack([one.weights.square().sum(-1).mean() for one in maps.values()])

    cold, usual, warm = sharpness(0.2), sharpness(1.0), sharpness(5.0)
    assert (cold > usual).all() and (usual > warm).all()
    assert (sharpness(1.0) == usual).all()


def test_what_does_not_exist_cannot_be_changed(case):
    model, run = case
    name = attention(model)[0]
    with (
        pytest.raises(RegardError, match=r"no attention module 'croos' to switch a head off in; "),
        changed(model, Changes(off=(("croos", 0),))),
    ):
        run()
    with (
        pytest.raises(RegardError, match=r"has no head 99; its heads are 0 to"),
        changed(model, Changes(off=((name, 99),))),
    ):
        run()
    with (
        pytest.raises(RegardError, match=r"cannot forbid token 99: the source has tokens 0 to"),
        changed(model, Changes(forbid=(99,))),
    ):
        run()
    with pytest.raises(RegardError, match=r"temperature=0 must lie between 0\.01 and 100"):
        Changes(temperature=0)
