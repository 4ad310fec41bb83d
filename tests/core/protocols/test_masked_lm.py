"""Batches of masked texts."""

import torch

from regard.core.protocols.masked_lm import MaskedBatch
from regard.core.state_tree import map_tensors


def test_a_batch_can_be_mapped_and_its_inputs_are_the_masked_tokens():
    tokens = torch.tensor([[2, 5, 3]])
    batch = MaskedBatch(
        tokens + 1, tokens, torch.tensor([3]), tokens == 5, (tokens == 5).long(), torch.zeros_like(tokens)
    )
    moved = map_tensors(batch, lambda x: x.clone())
    assert torch.equal(moved.inputs.tokens, tokens + 1) and moved.inputs.lengths.tolist() == [3]
