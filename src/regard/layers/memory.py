"""Keys and values, projected and split into heads: what a query looks at. An empty cache is one of length zero."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KV(NamedTuple):
    """The memory of one attention layer."""

    k: Tensor  # (b h s d), prepared for the layer's score
    v: Tensor  # (b h s e)

    @property
    def length(self) -> int:
        return self.k.shape[2]

    def append(self, new: KV) -> KV:
        """The memory with `new` behind it."""
        if self.length == 0:
            return new
        return KV(torch.cat([self.k, new.k], dim=2), torch.cat([self.v, new.v], dim=2))
