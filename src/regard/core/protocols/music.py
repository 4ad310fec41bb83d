"""Interface between music models and the music task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from regard.core.protocols import Padded

if TYPE_CHECKING:
    from torch import Tensor


class MusicCondition(NamedTuple):
    """The conditioning of a batch of pieces: class tokens in the fields of `Padded`, and tokens fixed in advance."""

    tokens: Tensor  # (b c) class tokens
    lengths: Tensor  # (b)
    fixed_tokens: Padded  # (b s) the token of each position, 0 if it is not fixed
