"""Sequence tagging layers: a linear-chain CRF (Lafferty et al. 2001; Lample et al. 2016, section 2.2), or an
independent softmax per tag, and Viterbi decoding over the allowed transitions.

Only sequences with allowed transitions have a probability, so the best sequence is always valid.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.data_specs import TagTransitions
from regard.core.errors import ConfigError
from regard.layers.linear import Linear

NEG_INF = float("-inf")


class Transitions(NamedTuple):
    """Scores of the first tag, of consecutive tags and of the last tag; -inf if not allowed."""

    first: Tensor  # (v)
    follows: Tensor  # (v v), from row to column
    last: Tensor  # (v)


class AllowedTransitions(nn.Module):
    """The allowed transitions as buffers; they are recreated with the model and not saved."""

    def __init__(self, allowed_transitions: TagTransitions) -> None:
        super().__init__()
        if (
            not any(allowed_transitions.first)
            or not any(allowed_transitions.last)
            or not all(any(row) for row in allowed_transitions.follows)
        ):
            raise ConfigError(
                "allowed transitions: no sequence is possible; every tag needs at least one tag that may follow it"
            )
        for name, flags in vars(allowed_transitions).items():
            is_allowed = torch.tensor(flags)
            self.register_buffer(
                name, torch.zeros(is_allowed.shape).masked_fill_(~is_allowed, NEG_INF), persistent=False
            )

    def forward(self) -> Transitions:
        return Transitions(self.first, self.follows, self.last)  # type: ignore[arg-type]  # buffers are tensors


class IndependentTags(nn.Module):
    """An independent softmax per tag; the allowed transitions are only used in Viterbi decoding."""

    def __init__(self, allowed_transitions: TagTransitions) -> None:
        super().__init__()
        self.allowed = AllowedTransitions(allowed_transitions)

    def log_probability(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(b): log p of each tag sequence."""
        mask = _token_mask(logits, lengths)
        selected = logits.log_softmax(dim=-1).gather(2, tags.masked_fill(~mask, 0)[..., None])[..., 0]
        return torch.where(mask, selected, 0.0).sum(dim=1)

    def marginals(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """(b t v): probability of each tag at each position; zeros at padding."""
        return logits.softmax(dim=-1) * _token_mask(logits, lengths)[..., None]

    def transitions(self) -> Transitions:
        """Return the transition scores for Viterbi decoding."""
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
        """Return the transition scores for Viterbi decoding."""
        allowed: Transitions = self.allowed()
        return Transitions(self.first + allowed.first, self.follows + allowed.follows, self.last + allowed.last)

    def log_probability(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(b): log p of each tag sequence."""
        total = self.log_partition(logits, lengths)
        is_possible = total != NEG_INF  # the rules may allow no sequence of this length
        return torch.where(is_possible, self.score(logits, tags, lengths) - total.where(is_possible, 0.0), NEG_INF)

    def log_partition(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """(b): log of the sum over all allowed sequences; 0 for an empty sequence."""
        if logits.shape[1] == 0:
            return logits.sum(dim=(1, 2))
        first, follows, last = self.transitions()
        sums = first + logits[:, 0]  # (b v): log Σ over the sequences that end with each tag
        for step in range(1, logits.shape[1]):
            after = _logsumexp(sums[:, :, None] + follows) + logits[:, step]
            sums = torch.where((step < lengths)[:, None], after, sums)
        total = _logsumexp(sums + last)
        return torch.where(lengths > 0, total, 0.0)

    def score(self, logits: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """(b): sum of the logits and transition scores of a sequence."""
        if logits.shape[1] == 0:
            return logits.sum(dim=(1, 2))
        first, follows, last = self.transitions()
        mask = _token_mask(logits, lengths)
        tags = tags.masked_fill(~mask, 0)
        selected = logits.gather(2, tags[..., None])[..., 0]
        steps = torch.where(mask[:, 1:], follows[tags[:, :-1], tags[:, 1:]], 0.0).sum(dim=1)
        ends = last[tags.gather(1, (lengths - 1).clamp_min(0)[:, None])[:, 0]]
        return torch.where(
            lengths > 0, torch.where(mask, selected, 0.0).sum(dim=1) + steps + first[tags[:, 0]] + ends, 0.0
        )

    def marginals(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """(b t v): marginal probabilities, as the gradient of log Z, which equals the result of the forward-backward
        algorithm."""
        with torch.enable_grad():
            leaf_logits = logits.detach().requires_grad_()
            return torch.autograd.grad(self.log_partition(leaf_logits, lengths).sum(), leaf_logits)[0]


class TagReadout(nn.Module):
    """Features (b t d) -> logits (b t v), with the loss of tag sequences and Viterbi decoding."""

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
        """(b): log p of each tag sequence."""
        return self.chain.log_probability(self(features), tags, lengths)

    def decode(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(b t): the best allowed sequence; 0 at padding."""
        return viterbi(self(features), self.chain.transitions(), lengths)

    def marginals(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(b t v): marginal probability of each tag at each position."""
        return self.chain.marginals(self(features), lengths)


@torch.no_grad()
def viterbi(logits: Tensor, transitions: Transitions, lengths: Tensor) -> Tensor:
    """Logits (b t v), lengths (b) -> the tag sequence (b t) with the largest score; 0 at padding."""
    if logits.shape[1] == 0:
        return lengths.new_zeros(logits.shape[:2])
    first, follows, last = transitions
    sums, backpointers = first + logits[:, 0], []
    for step in range(1, logits.shape[1]):
        best, before = (sums[:, :, None] + follows).max(dim=1)
        is_inside = (step < lengths)[:, None]
        sums = torch.where(is_inside, best + logits[:, step], sums)
        backpointers.append(torch.where(is_inside, before, torch.arange(sums.shape[1], device=sums.device)))
    tags = [(sums + last).argmax(dim=1)]
    for before in reversed(backpointers):
        tags.append(before.gather(1, tags[-1][:, None])[:, 0])
    return torch.stack(tags[::-1], dim=1).masked_fill(~_token_mask(logits, lengths), 0)


def _logsumexp(scores: Tensor) -> Tensor:
    """Scores (b v …) -> log Σ exp over v; -inf with a gradient of zero, not NaN, if all are -inf."""
    is_impossible = (scores == NEG_INF).all(dim=1, keepdim=True)
    sums = scores.masked_fill(is_impossible, 0.0).logsumexp(dim=1)
    return sums.masked_fill(is_impossible.squeeze(1), NEG_INF)


def _token_mask(logits: Tensor, lengths: Tensor) -> Tensor:
    """(b t): True for tokens, False for padding."""
    return torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]


CHAINS: dict[str, type[IndependentTags] | type[LinearChain]] = {"crf": LinearChain, "softmax": IndependentTags}
