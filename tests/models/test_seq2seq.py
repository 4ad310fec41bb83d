"""The model without attention: reversed sources, and invalid settings."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.models.seq2seq import Config, reverse_source


def test_only_the_tokens_before_the_padding_are_reversed():
    source = Padded(torch.tensor([[5, 6, 7, 0], [5, 0, 0, 0], [5, 6, 7, 8]]), torch.tensor([3, 1, 4]))
    assert reverse_source(source).tolist() == [[7, 6, 5, 0], [5, 0, 0, 0], [8, 7, 6, 5]]


@pytest.mark.parametrize("change", [{"dim": 0}, {"embedding": 0}, {"layers": 0}])
def test_invalid_settings(change):
    with pytest.raises(ConfigError, match=r"^(dim|embedding|layers)=0 must be at least 1$"):
        Config(**change)
