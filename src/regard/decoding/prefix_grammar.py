"""Grammar of outputs that start with given tokens; any decoding strategy continues them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class PrefixGrammar(NamedTuple):
    """The first tokens of every output."""

    tokens: tuple[int, ...]
    vocab_size: int

    def allowed(self, history: Tensor) -> Tensor:
        """Tokens decoded so far (r t) -> (r v) True for the tokens that may come next."""
        num_rows, length = history.shape
        if length >= len(self.tokens):
            return history.new_ones(num_rows, self.vocab_size).bool()
        allowed = history.new_zeros(num_rows, self.vocab_size).bool()
        allowed[:, self.tokens[length]] = True
        return allowed
