"""A model is evaluated in evaluation mode, and its mode is restored afterwards, also after an error."""

import pytest
import torch
from torch import nn

from regard.core.inference_mode import eval_mode


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored(training):
    model = nn.Linear(2, 2).train(training)
    with eval_mode(model) as device:
        assert not model.training
        assert not model(torch.ones(1, 2)).requires_grad
        assert device == torch.device("cpu")
    assert model.training == training


def test_the_mode_is_restored_after_an_error():
    model = nn.Linear(2, 2).train()
    with pytest.raises(ZeroDivisionError), eval_mode(model):
        _ = 1 / 0
    assert model.training
