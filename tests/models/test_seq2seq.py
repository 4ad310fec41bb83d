"""The model without attention: how it reads backwards, and settings that cannot be."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.models.seq2seq import Config, reverse_source


def test_only_the_true_part_is_read_backwards():
    source = Padded(torch.tensor([[5, 6, 7, 0], [5, 0, 0, 0], [5, 6, 7, 8]]), torch.tensor([3, 1, 4]))
    assert reverse_source(source).tolist() == [[7, 6, 5, 0], [5, 0, 0, 0], [8, 7, 6, 5]]


@pytest.mark.parametrize("change", [{"dim": 0}, {"embedding": 0}, {"layers": 0}])
def test_settings_that_cannot_be(change):
    with pytest.raises(ConfigError, match=r"^dim, embedding and layers must be at least 1$"):
        Config(**change)
