"""A model is made ready once, and again when it has changed or is watched."""

import torch

from regard.api.ready import Ready
from regard.attention.record import record
from regard.core.protocols import Padded
from regard.core.sizes import Text
from regard.models import bahdanau, transformer

SIZES = Text(source=19, target=23, longest=64)


def test_it_is_made_once():
    ready = Ready(transformer.build(transformer.TINY, SIZES).eval())
    assert ready() is ready()


def test_changed_weights_are_seen():
    model = transformer.build(transformer.TINY, SIZES).eval()
    ready = Ready(model)
    before = ready()
    with torch.no_grad():
        model.readout.weight.mul_(2)
    assert ready() is not before
    after = ready()
    model.readout.weight = torch.nn.Parameter(model.readout.weight.detach() + 1)
    assert ready() is not after


def test_a_watched_model_is_used_itself():
    model = transformer.build(transformer.TINY, SIZES).eval()
    ready = Ready(model)
    assert ready() is not model
    source = Padded(torch.tensor([[5, 6, 3]]), torch.tensor([3]))
    with record(model), torch.no_grad():
        assert ready() is model
        ready()(torch.tensor([[2]]), ready().start(source))
    assert ready() is not model


def test_a_model_that_is_never_prepared():
    model = bahdanau.build(bahdanau.TINY, SIZES)
    assert Ready(model)() is model
