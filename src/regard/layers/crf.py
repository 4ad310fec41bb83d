"""Tags of a sequence, chosen together: a linear-chain CRF (Lafferty et al. 2001; Lample et al. 2016, section 2.2), or
independent softmaxes, and the best sequence by Viterbi over the transitions that are allowed.

Only sequences that keep the rules have a probability, so no invalid one can be the best.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.core.data_specs import TagTransitions
from regard.core.errors import ConfigError
from regard.layers.linear import Linear

NEG_INF = float("-inf")


class Transitions(NamedTuple):
    """What the tags of a sequence add to its score by following each other; -inf for what may not be."""

    first: Tensor  # (v)
    follows: Tensor  # (v v), from row to column
    last: Tensor  # (v)


class TagDistribution(Protocol):
    """What a readout of tags asks of a distribution over sequences, given logits (b t v) and lengths (b)."""

    def log_probability(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(b): log p(tags) of each sequence."""

    def marginals(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """(b t v): the probability of each tag at each place; zeros at padding."""

    def transitions(self) -> Transitions:
        """What the best sequence is searched with."""


class AllowedTransitions(nn.Module):
    """The rules as tensors, made anew with the model and not saved with it."""

    def __init__(self, allowed_transitions: TagTransitions) -> None:
        super().__init__()
        if (
            not any(allowed_transitions.first)
            or not any(allowed_transitions.last)
            or not all(any(row) for row in allowed_transitions.follows)
        ):
            raise ConfigError("the rules of the tags allow no sequence: some tag has nothing that may follow it")
        for name, part in vars(allowed_transitions).items():
            may = torch.tensor(part)
            self.register_buffer(name, torch.zeros(may.shape).masked_fill_(~may, NEG_INF), persistent=False)

    def forward(self) -> Transitions:
        return Transitions(self.first, self.follows, self.last)  # type: ignore[arg-type]  # buffers are tensors


class IndependentTags(nn.Module):
    """Each tag for itself, by a softmax; the rules count when the best sequence is searched."""

    def __init__(self, allowed_transitions: TagTransitions) -> None:
        super().__init__()
        self.allowed = AllowedTransitions(allowed_transitions)

    def log_probability(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        there = _there(logits, lengths)
        picked = logits.log_softmax(dim=-1).gather(2, tags.masked_fill(~there, 0)[..., None])[..., 0]
        return torch.where(there, picked, 0.0).sum(dim=1)

    def marginals(self, logits: Tensor, lengths: Tensor) -> Tensor:
        return logits.softmax(dim=-1) * _there(logits, lengths)[..., None]

    def transitions(self) -> Transitions:
        return self.allowed()  # type: ignore[no-any-return]  # nn.Module's call is untyped


class LinearChain(nn.Module):
    """A conditional random field: p(tags) ∝ exp(Σ logit of each tag + Σ weight of each transition)."""

    def __init__(self, allowed_transitions: TagTransitions) -> None:
        super().__init__()
        size = len(allowed_transitions.first)
        self.allowed = AllowedTransitions(allowed_transitions)
        self.first = nn.Parameter(torch.zeros(size))
        self.follows = nn.Parameter(torch.zeros(size, size))
        self.last = nn.Parameter(torch.zeros(size))

    def transitions(self) -> Transitions:
        allowed: Transitions = self.allowed()
        return Transitions(self.first + allowed.first, self.follows + allowed.follows, self.last + allowed.last)

    def log_probability(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        return self.score(logits, tags, lengths) - self.log_partition(logits, lengths)

    def log_partition(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """(b): log Σ over all sequences that keep the rules; 0 for an empty sequence."""
        first, follows, last = self.transitions()
        sums = first + logits[:, 0]  # (b v): log Σ over sequences that end in each tag
        for step in range(1, logits.shape[1]):
            after = torch.logsumexp(sums[:, :, None] + follows, dim=1) + logits[:, step]
            sums = torch.where((step < lengths)[:, None], after, sums)
        total = torch.logsumexp(sums + last, dim=1)
        return torch.where(lengths > 0, total, 0.0)

    def score(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(b): the sum of a sequence's logits and transitions."""
        first, follows, last = self.transitions()
        there = _there(logits, lengths)
        tags = tags.masked_fill(~there, 0)
        picked = logits.gather(2, tags[..., None])[..., 0]
        steps = torch.where(there[:, 1:], follows[tags[:, :-1], tags[:, 1:]], 0.0).sum(dim=1)
        ends = last[tags.gather(1, (lengths - 1).clamp_min(0)[:, None])[:, 0]]
        return torch.where(
            lengths > 0, torch.where(there, picked, 0.0).sum(dim=1) + steps + first[tags[:, 0]] + ends, 0.0
        )

    def marginals(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """The gradient of log Z, which is what forward and backward sums would give."""
        with torch.enable_grad():
            given = logits.detach().requires_grad_()
            return torch.autograd.grad(self.log_partition(given, lengths).sum(), given)[0]


class TagReadout(nn.Module):
    """Features (b t d) -> logits (b t v), with the loss of whole sequences of tags and the search for the best."""

    def __init__(self, dim: int, tags: int, chain: IndependentTags | LinearChain) -> None:
        super().__init__()
        self.linear = Linear(dim, tags)
        self.chain = chain

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits

    def loss(self, features: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Features (b t d), tags (b t) and lengths (b) -> the sum of -log p over the sequences."""
        return -self.chain.log_probability(self(features), tags, lengths).sum()

    def log_probability(self, features: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(b): log p of each sequence of tags."""
        return self.chain.log_probability(self(features), tags, lengths)

    def decode(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(b t): the best sequence that keeps the rules; 0 at padding."""
        return viterbi(self(features), self.chain.transitions(), lengths)

    def marginals(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(b t v): the probability of each tag at each place."""
        return self.chain.marginals(self(features), lengths)


@torch.no_grad()
def viterbi(logits: Tensor, transitions: Transitions, lengths: Tensor) -> Tensor:
    """Logits (b t v), lengths (b) -> the sequence of tags (b t) with the greatest sum; 0 at padding."""
    first, follows, last = transitions
    sums, chosen = first + logits[:, 0], []
    for step in range(1, logits.shape[1]):
        best, before = (sums[:, :, None] + follows).max(dim=1)
        here = (step < lengths)[:, None]
        sums = torch.where(here, best + logits[:, step], sums)
        chosen.append(torch.where(here, before, torch.arange(sums.shape[1], device=sums.device)))
    tags = [(sums + last).argmax(dim=1)]
    for before in reversed(chosen):
        tags.append(before.gather(1, tags[-1][:, None])[:, 0])
    return torch.stack(tags[::-1], dim=1).masked_fill(~_there(logits, lengths), 0)


def _there(logits: Tensor, lengths: Tensor) -> Tensor:
    """(b t): True where there is no padding."""
    return torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]


CHAINS: dict[str, type[IndependentTags] | type[LinearChain]] = {"crf": LinearChain, "softmax": IndependentTags}
