"""Skip-gram with negative sampling (word2vec): Mikolov et al. 2013, section 2.2. A vector for every word.

    -log σ(v_word · u_near) - Σ log σ(-v_word · u_other)     over the words near it, and `negatives` others for each

Words are trained in rows of running text. All words of a row share the others that were drawn for it, so that both sums
are matrix products, which a CPU does many times as fast as single words. The gradient is made in the forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from regard.core.data_specs import EmbeddingSpec
from regard.core.errors import ConfigError
from regard.core.tracing import gradients, is_transforming

CHUNK_SCORES = 2**16  # scores that are computed at once: they stay in the processor's cache
MIN_PROBABILITY = 1e-7  # a probability below it counts as this much: its logarithm stays finite


@dataclass(frozen=True)
class Config:
    """What a vector is."""

    dim: int = 100  # width of the vectors

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise ConfigError(f"dim={self.dim} must be at least 1")


PRESETS = {"small": Config(dim=32)}
TINY = Config(dim=8)  # for tests


class SkipGram(nn.Module):
    """Words -> vectors; `contexts` are the vectors of the same words as neighbours, which only training needs."""

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.vectors, self.contexts = nn.Embedding(vocab_size, dim), nn.Embedding(vocab_size, dim)
        nn.init.uniform_(self.vectors.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.contexts.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """(…) -> (… d)."""
        vectors: Tensor = self.vectors(tokens)
        return vectors

    def loss(
        self, tokens: Tensor, window: Tensor, negative_samples: Tensor, *, negatives_per_pair: float
    ) -> tuple[Tensor, int]:
        """Rows of words (r t), how far each looks to both sides (r t), 0 for padding, and other words (r k) -> the loss
        summed over all pairs of near words, differentiable, and how many pairs there are."""
        apply: Any = _plain if is_transforming() else _Loss.apply
        with torch.autocast(tokens.device.type, enabled=False):  # products too small to gain from half precision
            total: Tensor = apply(
                self.vectors.weight, self.contexts.weight, tokens, window, negative_samples, negatives_per_pair
            )
        return total, int(_near(window).sum())


def build(config: Config, sizes: EmbeddingSpec) -> SkipGram:
    """The only function of this file that sees both the choices and what the data decided."""
    return SkipGram(sizes.vocab_size, config.dim)


def _near(reach: Tensor) -> Tensor:
    """How far each word looks (r t) -> (r t t): which words are near it; padding, which looks nowhere, is near none."""
    places = torch.arange(reach.shape[1], device=reach.device)
    distance = (places[:, None] - places).abs()
    return (distance <= reach[:, :, None]) & (distance > 0) & (reach > 0)[:, None, :]


def _plain(vectors: Tensor, contexts: Tensor, rows: Tensor, *drawn: Any) -> Tensor:
    """The loss in operations that have gradients of their own."""
    reach, others, negatives = drawn
    words, near, is_near = embedding(rows, vectors), embedding(rows, contexts), _near(reach)
    weight = is_near.sum(dim=-1, keepdim=True) * (negatives / max(1, others.shape[1]))
    close, far = torch.sigmoid(words @ near.mT), torch.sigmoid(words @ embedding(others, contexts).mT)
    loss: Tensor = (
        -(close.clamp_min(MIN_PROBABILITY).log() * is_near).sum()
        - ((1 - far).clamp_min(MIN_PROBABILITY).log() * weight).sum()
    )
    return loss


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        vectors, contexts, rows, reach, others, negatives = given
        words, near, drawn = embedding(rows, vectors), embedding(rows, contexts), embedding(others, contexts)
        changes = [torch.empty_like(x) for x in (words, near, drawn)]
        total: Tensor = vectors.new_zeros(())
        size = max(1, CHUNK_SCORES // max(1, rows.shape[1] * (rows.shape[1] + others.shape[1])))
        for low in range(0, len(rows), size):
            part = slice(low, low + size)
            given_part = words[part], near[part], drawn[part]
            into = [change[part] for change in changes]
            total += _chunk(*given_part, is_near=_near(reach[part]), negatives=negatives, into=into)
        d_vectors = torch.zeros_like(vectors).index_add_(0, rows.flatten(), changes[0].flatten(0, 1))
        d_contexts = torch.zeros_like(contexts).index_add_(0, rows.flatten(), changes[1].flatten(0, 1))
        d_contexts.index_add_(0, others.flatten(), changes[2].flatten(0, 1))
        ctx.save_for_backward(d_vectors, d_contexts, *given[:5])
        ctx.negatives = negatives
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_vectors, d_contexts, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            again = gradients(lambda *x: _plain(*x, *inputs[2:], ctx.negatives), inputs[:2], grad)
            return (*again, None, None, None, None)
        return d_vectors * grad, d_contexts * grad, None, None, None, None


def _chunk(
    words: Tensor, near: Tensor, drawn: Tensor, *, is_near: Tensor, negatives: float, into: list[Tensor]
) -> Tensor:
    """Vectors (r t d), (r t d), (r k d) and who is near whom (r t t) -> the loss; gradients are put `into` tensors."""
    weight = is_near.sum(dim=-1, keepdim=True) * (negatives / max(1, drawn.shape[1]))  # (r t 1) of each word drawn
    close, far = torch.bmm(words, near.mT).sigmoid_(), torch.bmm(words, drawn.mT).sigmoid_()
    loss = -(close.clamp_min(MIN_PROBABILITY).log_().mul_(is_near).sum())
    loss -= (1 - far).clamp_min_(MIN_PROBABILITY).log_().mul_(weight).sum()
    close.sub_(1).mul_(is_near)
    far.mul_(weight)
    torch.bmm(close, near, out=into[0])
    into[0].baddbmm_(far, drawn)
    torch.bmm(close.mT, words, out=into[1])
    torch.bmm(far.mT, words, out=into[2])
    return loss
