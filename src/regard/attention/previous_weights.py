"""Attention of recurrent decoders whose score may use the weights of the previous step (`scores/location.py`).

A query carries these weights as its last entries, so a score stays a function of queries and keys. Hypotheses can be
folded, and `record` computes the same weights again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.attend import Attend, append_one_hot
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ProjectedKeys


class PreviousWeights(NamedTuple):
    """The attention weights of the last step, one row per hypothesis: a part of the state of a decoder."""

    tensor: Tensor  # (r s), or (r 0) if the score does not use them

    @staticmethod
    def initial(attend: Attend, keys: ProjectedKeys) -> PreviousWeights:
        """Keys (b h s d) -> the weights before the first step: all of it at the first key."""
        b, _, s, _ = keys.tensor.shape
        weights = keys.tensor.new_zeros(b, s if attend.weigh.score.uses_previous_weights else 0)
        return PreviousWeights(torch.cat([torch.ones_like(weights[:, :1]), weights[:, 1:]], dim=1))

    def _join(self, other: PreviousWeights, *, shared: bool) -> PreviousWeights:
        """Implements core.state_tree: sources of a batch are padded on the right."""
        width = max(self.tensor.shape[1], other.tensor.shape[1])
        return PreviousWeights(torch.cat([pad(x, (0, width - x.shape[1])) for x in (self.tensor, other.tensor)]))


class StepAttention(NamedTuple):
    """An attention module with the keys and values of a source, for one query per step.

    Create it once per call of a decoder: it prepares the values.
    """

    attend: Attend
    keys: ProjectedKeys  # (b 1 s d)
    values: Tensor  # (b 1 s e), or (b 1 s e+s)
    mask: Mask
    width: int  # e

    @staticmethod
    def of(attend: Attend, keys: ProjectedKeys, values: Tensor, mask: Mask = NO_MASK) -> StepAttention:
        """Keys (b 1 s d) and values (b 1 s e) of one head."""
        prepared = append_one_hot(values) if attend.weigh.score.uses_previous_weights else values
        return StepAttention(attend, keys, prepared, mask, values.shape[-1])

    def __call__(self, query: Tensor, previous: PreviousWeights) -> tuple[Tensor, PreviousWeights]:
        """Queries (r d) and the weights of their previous step -> contexts (r e) and the new weights."""
        queries = torch.cat([query, previous.tensor.to(query.dtype)], dim=-1) if previous.tensor.shape[1] else query
        output: Tensor = self.attend(queries[:, None, None], self.keys, self.values, self.mask)
        context, weights = output[:, 0, 0].tensor_split([self.width], dim=-1)
        return context, PreviousWeights(weights)
