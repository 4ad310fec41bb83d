"""Search among some of the target tokens: a model whose output layer has their rows alone. Decoders know nothing of it.

The tokens of a narrow model are places in its list. The list begins with the marks, so that they keep their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.protocols import Hypothesis, Marks, Padded, State

List = Callable[[Tensor], Tensor]  # source tokens (b s) -> the target tokens that may come (n), ascending


class Started(NamedTuple):
    """The state before the first token, and the tokens that may come."""

    state: State
    tokens: Tensor  # (n)


class Listed(nn.Module):
    """A model whose searches are narrow: they start with a list of tokens and are run by `decode`."""

    def __init__(self, model: Any, tokens: List) -> None:
        super().__init__()
        self.model, self.tokens = model, tokens
        self.train(model.training)  # what is set on this one is set on the model, so they begin alike

    def start(self, source: Padded) -> Started:
        """The source -> the model's state, and the list for all sentences of it together."""
        return Started(self.model.start(source), self.tokens(source.tokens))


class Narrow(nn.Module):
    """The model over a list of tokens: a `Decoder` in the sense of core.protocols."""

    def __init__(self, model: Any, tokens: Tensor) -> None:
        super().__init__()
        self.model, self.tokens = model, tokens
        kind = getattr(model.readout, "of", lambda layer: layer)  # such as a product of 8 bits
        self.readout: nn.Module = kind(_among(getattr(model.readout, "layer", model.readout), tokens))

    def start(self, source: Padded) -> State:
        return self.model.start(source)

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        x, state = self.model.features(self.tokens[tokens], state)
        return x, state

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t n)

    def places(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Token numbers -> their places in the list; those that are not in it cannot come and are left out."""
        found = {token: place for place, token in enumerate(self.tokens.tolist())}
        return tuple(found[token] for token in tokens if token in found)


def _among(whole: nn.Linear, tokens: Tensor) -> nn.Linear:
    """The layer with the outputs of these tokens only."""
    layer = nn.Linear(whole.in_features, len(tokens), bias=False, device="meta")  # no time for numbers of its own
    layer.weight = nn.Parameter(whole.weight.detach()[tokens], requires_grad=False)
    if whole.bias is not None:
        layer.bias = nn.Parameter(whole.bias.detach()[tokens], requires_grad=False)
    return layer


@torch.no_grad()
def decode(
    model: Listed, state: Started, *, marks: Marks, limits: Tensor, config: Any, search: Callable[..., Any]
) -> list[list[Hypothesis]]:
    """`search`, the decode of any decoder, among the tokens of the list. Scores are shares of what the list has."""
    narrow = Narrow(model.model, state.tokens)
    config = replace(config, forbid=narrow.places(config.forbid))
    found = search(narrow, state.state, marks=marks, limits=limits, config=config)
    names = narrow.tokens.tolist()
    return [[best._replace(tokens=tuple(names[place] for place in best.tokens)) for best in row] for row in found]
