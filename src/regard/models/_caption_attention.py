"""Attention of a captioner over the grid cells of an image: soft, hard, or mean pooling (Xu et al. 2015, section 4).

Each maps a query (r d) and keys and values to a context (r d), and computes its parts of the loss.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.attend import Attend, append_one_hot, fold_hypotheses, unfold_hypotheses
from regard.attention.masks import NO_MASK
from regard.attention.normalizers import SoftOrHard
from regard.attention.policy_gradient import cost_to_go, entropy, reinforce_loss
from regard.attention.score import ProjectedKeys
from regard.layers.kv_cache import KV
from regard.layers.readout import Readout
from regard.layers.recurrent import repeat_per_hypothesis


class CaptionTargets(NamedTuple):
    """Decoder features of captions, with their labels."""

    features: Tensor  # (r t d)
    labels: Tensor  # (r t)
    mask: Tensor  # (r t) bool: False for padding
    readout: Readout
    smoothing: float

    def total_loss(self) -> Tensor:
        """Σ -log p of the target words; the logits are never all in memory."""
        return self.readout.loss(self.features[self.mask], self.labels[self.mask], smoothing=self.smoothing)

    def token_losses(self) -> Tensor:
        """(r t): -log p of each target word, 0 for padding."""
        logits = self.readout(self.features)
        costs = cross_entropy(logits.mT, self.labels, reduction="none", label_smoothing=self.smoothing)
        return costs.masked_fill(~self.mask, 0.0)


class AttentionTrace(NamedTuple):
    """Queries and attention weights of every step."""

    queries: Tensor  # (r t d)
    weights: Tensor  # (r t s)


class CaptionAttention(Protocol):
    """Interface of a captioner's attention."""

    def project_kv(self, cells: Tensor) -> KV:
        """Cells of images (b s d) -> keys and values, one row per image."""

    def __call__(self, query: Tensor, memory: KV) -> Tensor:
        """Queries (r d), r a multiple of b -> contexts (r d); with weights in the memory, (r d+s)."""

    def training_memory(self, memory: KV) -> KV:
        """Return the keys and values for training; the output includes the attention weights if the loss needs them."""

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """Return the named parts of the loss, summed over all captions."""


def with_attention_weights(memory: KV) -> KV:
    """Append one-hot vectors to the values, so that the attention output includes the weights."""
    return KV.of(memory.k, append_one_hot(memory.v), memory.mask)


class SoftAttention(nn.Module):
    """Deterministic attention, section 4.2: the weighted mean of all cells, trained by backpropagation."""

    def __init__(self, attend: Attend, key: nn.Linear, *, coverage_weight: float) -> None:
        super().__init__()
        self.cross_attn, self.key, self.coverage = attend, key, coverage_weight

    def project_kv(self, cells: Tensor) -> KV:
        keys = self.cross_attn.project(self.key(cells)[:, None])
        return KV.of(keys, cells[:, None])  # one head

    def forward(self, query: Tensor, memory: KV) -> Tensor:
        context: Tensor = self.cross_attn(query[:, None, None], memory.k, memory.v)
        return context[:, 0, 0]

    def training_memory(self, memory: KV) -> KV:
        return with_attention_weights(memory) if self.coverage else memory

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """`words`, and `coverage`: the doubly stochastic penalty of equation 14, λ Σ (1 - Σ α)² over cells and steps,
        so that all cells are attended to about equally."""
        if not self.coverage:
            return {"words": targets.total_loss()}
        attended = (attention_trace.weights * targets.mask[..., None]).sum(dim=1)  # (r s)
        penalty = (1 - attended).square().mean(dim=1) * targets.mask.sum(dim=1)
        return {"words": targets.total_loss(), "coverage": self.coverage * penalty.sum()}


class HardAttention(SoftAttention):
    """Stochastic attention, section 4.1: one cell is sampled, and the choice is trained by REINFORCE."""

    def __init__(
        self, attend: Attend, key: nn.Linear, *, baseline: nn.Module, policy_weight: float, entropy_weight: float
    ) -> None:
        super().__init__(attend, key, coverage_weight=0.0)
        self.baseline, self.choices, self.openness = baseline, policy_weight, entropy_weight

    def training_memory(self, memory: KV) -> KV:
        return with_attention_weights(memory)

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """`words`, `choices`: λ_r (cost to go - baseline) log p(choice), and `entropy`: -λ_e times the entropy of the
        choice. Steps at which soft attention replaced the sample have no `choices` term."""
        normalizer = self.cross_attn.weigh.normalizer
        if self.training and isinstance(normalizer, SoftOrHard):
            normalizer.advance()
        costs = targets.token_losses()
        queries = attention_trace.queries[:, None]  # (r 1 t d)
        keys = memory.k.tensor
        folded = queries if len(queries) == len(keys) else fold_hypotheses(queries, keys, NO_MASK)
        scores = self.cross_attn.weigh.scores(folded, keys)
        scores = (scores if folded is queries else unfold_hypotheses(scores, len(queries)))[:, 0]  # (r t s)
        is_sampled = targets.mask & (attention_trace.weights.detach().amax(dim=-1) == 1)
        log_probability = (scores.log_softmax(dim=-1) * attention_trace.weights.detach()).sum(dim=-1)
        policy = reinforce_loss(log_probability, cost_to_go(costs), baseline=self.baseline, valid=is_sampled)
        total_entropy = entropy(scores).masked_fill(~targets.mask, 0.0).sum()
        return {"words": costs.sum(), "choices": self.choices * policy, "entropy": -self.openness * total_entropy}


class MeanPooling(nn.Module):
    """Baseline without attention: the mean of all cells at every step."""

    def project_kv(self, cells: Tensor) -> KV:
        mean = cells.mean(dim=1)[:, None, None]
        return KV.of(ProjectedKeys(mean), mean)

    def forward(self, query: Tensor, memory: KV) -> Tensor:
        return repeat_per_hypothesis(memory.v[:, 0, 0], len(query))

    def training_memory(self, memory: KV) -> KV:
        return memory

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """`words` only."""
        return {"words": targets.total_loss()}
