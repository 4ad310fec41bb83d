"""Recording of attention calls and their masks."""

from __future__ import annotations

import numpy as np
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.inspection.call_recorder import AttentionCall, combined_mask, record_calls


def test_calls_are_noted_in_order_and_hooks_are_gone_after():
    model = torch.nn.ModuleDict({"attend": Attend(scores.build("dot", 4))})
    x = torch.randn(1, 2, 3, 4)
    with record_calls(model) as calls:
        model["attend"](x, x, x, Mask.causal())
        model["attend"](x[:, :, :1], x, x, mask=Mask())
    (noted,) = calls.values()
    assert [call.q.shape[2] for call in noted] == [3, 1]
    assert not model["attend"]._forward_hooks


def test_the_masks_of_all_calls_stand_one_below_the_other():
    q, k = torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 3, 4)
    steps = [AttentionCall(q, k[:, :, : n + 1], k[:, :, : n + 1], Mask.causal()) for n in range(3)]
    assert (combined_mask(steps, 0, (3, 3)) == np.tril(np.ones((1, 3, 3), bool))).all()


def test_each_row_of_the_batch_has_its_own_mask_and_all_allowed_is_none():
    q, k = torch.zeros(2, 1, 2, 4), torch.zeros(2, 1, 3, 4)
    call = AttentionCall(q, k, k, Mask.lengths(torch.tensor([3, 2])))
    assert combined_mask([call], 0, (2, 3)) is None
    assert combined_mask([call], 1, (2, 3)).tolist() == [[[True, True, False]] * 2]
    assert combined_mask([call], 1, (2, 2)) is None  # without the padding
    assert combined_mask([AttentionCall(q, k, k)], 1, (2, 3)) is None


def test_heads_may_differ():
    q, k = torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 2, 4)
    pairs = torch.tensor([[[[True, False]], [[True, True]]]])
    assert combined_mask([AttentionCall(q, k, k, Mask.explicit(pairs))], 0, (1, 2)).tolist() == [
        [[True, False]],
        [[True, True]],
    ]
