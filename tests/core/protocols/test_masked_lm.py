import torch

from regard.core.protocols.masked_lm import MaskedBatch
from regard.core.state_tree import map_tensors


def test_texts_with_gaps_move_as_one_and_are_seen_covered():
    tokens = torch.tensor([[2, 5, 3]])
    given = MaskedBatch(
        tokens + 1, tokens, torch.tensor([3]), tokens == 5, (tokens == 5).long(), torch.zeros_like(tokens)
    )
    moved = map_tensors(given, lambda x: x.clone())
    assert torch.equal(moved.inputs.tokens, tokens + 1) and moved.inputs.lengths.tolist() == [3]
