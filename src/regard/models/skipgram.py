"""Skip-gram with negative sampling (word2vec): Mikolov et al. 2013, section 2.2. One vector per word.

    -log σ(v_word · u_context) - Σ log σ(-v_word · u_negative)     over context words and sampled negatives

Training examples are rows of running text. All words of a row share the negatives drawn for it, so that both sums are
matrix products. On a CPU these are many times as fast as single words. The gradient is computed in the forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from regard.core.config import check_fields
from regard.core.data_specs import EmbeddingSpec
from regard.core.tracing import gradients, is_transforming

CHUNK_SCORES = 2**16  # scores per chunk: they fit in the processor's cache
MIN_PROBABILITY = 1e-7  # lower bound of probabilities, so that their logarithm is finite


@dataclass(frozen=True)
class Config:
    """Width of the vectors."""

    dim: int = 100  # width of the vectors
    sparse: bool = False  # gradients of the words of a batch only, for small batches; requires training.optimizer sgd

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("dim",))


PRESETS = {"small": Config(dim=32)}
TINY = Config(dim=8)  # for tests


class SkipGram(nn.Module):
    """Words -> vectors; `contexts` are the vectors of the same words as context words, only used in training."""

    def __init__(self, vocab_size: int, dim: int, *, sparse: bool) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocab_size, dim, sparse=sparse)
        self.contexts = nn.Embedding(vocab_size, dim, sparse=sparse)
        nn.init.uniform_(self.vectors.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.contexts.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """(…) -> (… d)."""
        vectors: Tensor = self.vectors(tokens)
        return vectors

    def loss(
        self, tokens: Tensor, window: Tensor, negative_samples: Tensor, *, negatives_per_pair: float
    ) -> tuple[Tensor, int]:
        """Rows of words (r t), the window of each (r t), 0 for padding, and negative words (r k) -> the loss summed
        over all pairs of word and context word, and the number of pairs."""
        apply: Any = _plain if is_transforming() else _SparseLoss.apply if self.vectors.sparse else _Loss.apply
        with torch.autocast(
            tokens.device.type, enabled=False
        ):  # the products are too small to gain from half precision
            total: Tensor = apply(
                self.vectors.weight, self.contexts.weight, tokens, window, negative_samples, negatives_per_pair
            )
        return total, int(_context_mask(window).sum())


def build(config: Config, sizes: EmbeddingSpec) -> SkipGram:
    """Return a model for the given settings and data spec."""
    return SkipGram(sizes.vocab_size, config.dim, sparse=config.sparse)


def _context_mask(window: Tensor) -> Tensor:
    """Windows (r t) -> (r t t): True for the context words of each word; padding has an empty window and is in none."""
    positions = torch.arange(window.shape[1], device=window.device)
    distance = (positions[:, None] - positions).abs()
    return (distance <= window[:, :, None]) & (distance > 0) & (window > 0)[:, None, :]


def _plain(vectors: Tensor, contexts: Tensor, tokens: Tensor, *sampling: Any) -> Tensor:
    """The loss in differentiable operations."""
    window, negatives, negatives_per_pair = sampling
    word_vectors, context_vectors, is_context = (
        embedding(tokens, vectors),
        embedding(tokens, contexts),
        _context_mask(window),
    )
    weight = is_context.sum(dim=-1, keepdim=True) * (negatives_per_pair / max(1, negatives.shape[1]))
    context_p, negative_p = (
        torch.sigmoid(word_vectors @ context_vectors.mT),
        torch.sigmoid(word_vectors @ embedding(negatives, contexts).mT),
    )
    loss: Tensor = (
        -(context_p.clamp_min(MIN_PROBABILITY).log() * is_context).sum()
        - ((1 - negative_p).clamp_min(MIN_PROBABILITY).log() * weight).sum()
    )
    return loss


class _Loss(torch.autograd.Function):
    """The loss with dense gradients of both tables."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        vectors, contexts, tokens, _, negatives, ctx.negatives_per_pair = inputs
        total, (word_gradients, context_gradients, negative_gradients) = _loss_and_gradients(inputs)
        d_vectors = torch.zeros_like(vectors).index_add_(0, tokens.flatten(), word_gradients)
        d_contexts = torch.zeros_like(contexts).index_add_(0, tokens.flatten(), context_gradients)
        d_contexts.index_add_(0, negatives.flatten(), negative_gradients)
        ctx.save_for_backward(d_vectors, d_contexts, *inputs[:5])
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_vectors, d_contexts, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            double_backward = gradients(lambda *x: _plain(*x, *inputs[2:], ctx.negatives_per_pair), inputs[:2], grad)
            return (*double_backward, None, None, None, None)
        return d_vectors * grad, d_contexts * grad, None, None, None, None


class _SparseLoss(torch.autograd.Function):
    """The loss with sparse gradients: a step costs as much as its words, not as much as the vocabulary."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        total, parts = _loss_and_gradients(inputs)
        ctx.save_for_backward(inputs[2], inputs[4], *parts)
        ctx.table_size = inputs[0].shape
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tokens, negatives, word_gradients, context_gradients, negative_gradients = ctx.saved_tensors
        both = torch.cat([tokens.flatten(), negatives.flatten()])
        d_vectors = _sparse_rows(tokens.flatten(), word_gradients * grad, ctx.table_size)
        d_contexts = _sparse_rows(both, torch.cat([context_gradients, negative_gradients]) * grad, ctx.table_size)
        return d_vectors, d_contexts, None, None, None, None


def _sparse_rows(rows: Tensor, values: Tensor, size: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(rows[None], values, size, check_invariants=False)


def _loss_and_gradients(inputs: tuple[Any, ...]) -> tuple[Tensor, list[Tensor]]:
    """Return the loss, and its gradients (n d) at each word, each context word and each negative word of the rows."""
    vectors, contexts, tokens, window, negatives, negatives_per_pair = inputs
    parts = embedding(tokens, vectors), embedding(tokens, contexts), embedding(negatives, contexts)
    gradient_buffers = [torch.empty_like(x) for x in parts]
    total: Tensor = vectors.new_zeros(())
    size = max(1, CHUNK_SCORES // max(1, tokens.shape[1] * (tokens.shape[1] + negatives.shape[1])))
    for low in range(0, len(tokens), size):
        rows = slice(low, low + size)
        word_vectors, context_vectors, negative_vectors = (x[rows] for x in parts)
        total += _chunk(
            word_vectors,
            context_vectors,
            negative_vectors,
            is_context=_context_mask(window[rows]),
            negatives_per_pair=negatives_per_pair,
            into=[buffer[rows] for buffer in gradient_buffers],
        )
    return total, [buffer.flatten(0, 1) for buffer in gradient_buffers]


def _chunk(
    word_vectors: Tensor,
    context_vectors: Tensor,
    negative_vectors: Tensor,
    *,
    is_context: Tensor,
    negatives_per_pair: float,
    into: list[Tensor],
) -> Tensor:
    """Vectors (r t d), (r t d), (r k d) and the context mask (r t t) -> the loss; gradients are written `into`
    tensors."""
    weight = is_context.sum(dim=-1, keepdim=True) * (
        negatives_per_pair / max(1, negative_vectors.shape[1])
    )  # (r t 1) weight of each negative
    context_p, negative_p = (
        torch.bmm(word_vectors, context_vectors.mT).sigmoid_(),
        torch.bmm(word_vectors, negative_vectors.mT).sigmoid_(),
    )
    loss = -(context_p.clamp_min(MIN_PROBABILITY).log_().mul_(is_context).sum())
    loss -= (1 - negative_p).clamp_min_(MIN_PROBABILITY).log_().mul_(weight).sum()
    context_p.sub_(1).mul_(is_context)
    negative_p.mul_(weight)
    torch.bmm(context_p, context_vectors, out=into[0])
    into[0].baddbmm_(negative_p, negative_vectors)
    torch.bmm(context_p.mT, word_vectors, out=into[1])
    torch.bmm(negative_p.mT, word_vectors, out=into[2])
    return loss
