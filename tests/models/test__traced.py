"""A traced step is the step, to the bit, for other sizes than it was traced with; and it is made when it can pay."""

import pytest
import torch

from regard.core.protocols import Marks, Padded, Sizes
from regard.decoding import beam, greedy
from regard.models import _traced, transformer

SIZES = Sizes(source=19, target=23, longest=64)


@pytest.fixture
def model():
    torch.manual_seed(2)
    return transformer.build(transformer.TINY, SIZES).eval()


def source(*lengths):
    torch.manual_seed(sum(lengths))
    tokens, found = torch.randint(4, SIZES.source, (len(lengths), max(lengths))), torch.tensor(lengths)
    return Padded(tokens.where(torch.arange(max(lengths)) < found[:, None], 0), found)


def decoded(model, given, module, **settings):
    limits = torch.full((len(given.tokens),), 20)  # beyond the room of the first cache
    config = module.Config(min_length=18, **settings)
    found = module.decode(model, model.start(given), marks=Marks(), limits=limits, config=config)
    return [[(best.tokens, best.score) for best in row] for row in found]


@pytest.mark.parametrize("position", ["sinusoidal", "none"])
def test_it_finds_the_same_for_all_sizes(monkeypatch, position):
    torch.manual_seed(2)
    config = transformer.Config(layers=2, dim=16, hidden=32, heads=2, position=position)
    model = transformer.build(config, SIZES).eval()
    monkeypatch.setattr(_traced, "STEPS", 10**6)
    eager = model.prepared()
    monkeypatch.setattr(_traced, "STEPS", 1)
    traced = model.prepared()
    asked = [((5,), greedy, {}), ((5,), beam, {"width": 5}), ((17, 3), beam, {"width": 3}), ((1, 30, 9), greedy, {})]
    for lengths, module, settings in asked * 2:
        given = source(*lengths)
        assert decoded(traced, given, module, **settings) == decoded(eager, given, module, **settings)
    assert set(traced.tracing._traced) == {True, False} and not eager.tracing._traced


def test_it_is_made_after_so_many_steps_of_few_rows(model, monkeypatch):
    monkeypatch.setattr(_traced, "STEPS", 40)
    prepared = model.prepared()
    decoded(prepared, source(*[5] * (_traced.FEW + 1)), greedy)  # many rows do not count
    decoded(prepared, source(5), greedy)
    assert not prepared.tracing._traced
    decoded(prepared, source(7), greedy)
    decoded(prepared, source(7), greedy)
    assert set(prepared.tracing._traced) == {True}


def test_a_step_that_is_traced_changes_nothing(model, monkeypatch):
    monkeypatch.setattr(_traced, "STEPS", 1)
    prepared, given = model.prepared(), source(4)
    with torch.no_grad():
        _, before = prepared(torch.tensor([[2]]), prepared.start(given))  # traced here
        first, _ = prepared(torch.tensor([[5]]), before)
        other, _ = prepared(torch.tensor([[9]]), before)
        again, _ = prepared(torch.tensor([[5]]), before)
        whole, _ = model(torch.tensor([[2, 5]]), model.start(given))
    assert torch.equal(first, again) and not torch.allclose(first, other)
    torch.testing.assert_close(first[:, 0], whole[:, 1], rtol=1e-4, atol=1e-5)


def test_eight_bits_are_not_traced(model, monkeypatch):
    monkeypatch.setattr(_traced, "STEPS", 1)
    prepared = model.prepared("int8")
    assert decoded(prepared, source(5), greedy) == decoded(prepared, source(5), greedy)
    assert not prepared.tracing._traced
