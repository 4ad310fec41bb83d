"""Bahdanau's model: its GRU equals PyTorch's, and invalid settings."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.models.bahdanau import Config, gru_step


def test_the_gru_equals_pytorchs():
    cell, x, hidden = torch.nn.GRUCell(3, 4), torch.randn(2, 3), torch.randn(2, 4)
    inputs = x @ cell.weight_ih.mT + cell.bias_ih
    torch.testing.assert_close(gru_step(inputs, hidden @ cell.weight_hh.mT + cell.bias_hh, hidden), cell(x, hidden))


@pytest.mark.parametrize("change", [{"dim": 0}, {"embedding": 0}])
def test_invalid_settings(change):
    with pytest.raises(ConfigError, match=r"^(dim|embedding)=0 must be at least 1$"):
        Config(**change)
