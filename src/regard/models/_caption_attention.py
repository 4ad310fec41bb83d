"""Ways of looking at the cells of an image while a caption is told: soft, hard, or at the image as a whole.

Each maps a query (r d) and a memory to what is seen (r d), and knows the parts of the loss that belong to it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.attend import Attend, append_one_hot, fold_hypotheses, unfold_hypotheses
from regard.attention.masks import NO_MASK
from regard.attention.normalizers import SoftOrHard
from regard.attention.reinforce import cost_to_go, entropy, reinforce_loss
from regard.attention.score import ProjectedKeys
from regard.layers.kv_cache import KV
from regard.layers.readout import Readout
from regard.layers.recurrent import repeat_per_hypothesis


class CaptionTargets(NamedTuple):
    """Captions as they were told, with what was true."""

    features: Tensor  # (r t d)
    labels: Tensor  # (r t)
    mask: Tensor  # (r t) bool: False for padding
    readout: Readout
    smoothing: float

    def total_loss(self) -> Tensor:
        """Σ -log p of the true words, the logits never whole."""
        return self.readout.loss(self.features[self.mask], self.labels[self.mask], smoothing=self.smoothing)

    def token_losses(self) -> Tensor:
        """(r t): -log p of each true word, 0 for padding."""
        logits = self.readout(self.features)
        costs = cross_entropy(logits.mT, self.labels, reduction="none", label_smoothing=self.smoothing)
        return costs.masked_fill(~self.mask, 0.0)


class AttentionTrace(NamedTuple):
    """What was asked and where was looked, step by step."""

    queries: Tensor  # (r t d)
    weights: Tensor  # (r t s)


class CaptionAttention(Protocol):
    """What a captioner knows of its attention."""

    def project_kv(self, cells: Tensor) -> KV:
        """The cells of images (b s d) as they are looked at, one row an image."""

    def __call__(self, query: Tensor, memory: KV) -> Tensor:
        """Queries (r d), r a multiple of b -> what is seen (r d); over a traced memory with the weights (r d+s)."""

    def training_memory(self, memory: KV) -> KV:
        """The memory as it is in training: with the weights behind what is seen, where the loss needs them."""

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """The named parts of the loss, summed over all captions."""


def with_attention_weights(memory: KV) -> KV:
    """The same memory, over which what is seen comes with its weights."""
    return KV.of(memory.k, append_one_hot(memory.v), memory.mask)


class SoftAttention(nn.Module):
    """Deterministic attention, section 4.2: the mean of all cells by their weights, trained by its own gradient."""

    def __init__(self, attend: Attend, key: nn.Linear, *, coverage_weight: float) -> None:
        super().__init__()
        self.cross_attn, self.key, self.coverage = attend, key, coverage_weight

    def project_kv(self, cells: Tensor) -> KV:
        keys = self.cross_attn.project(self.key(cells)[:, None])
        return KV.of(keys, cells[:, None])  # one head

    def forward(self, query: Tensor, memory: KV) -> Tensor:
        seen: Tensor = self.cross_attn(query[:, None, None], memory.k, memory.v)
        return seen[:, 0, 0]

    def training_memory(self, memory: KV) -> KV:
        return with_attention_weights(memory) if self.coverage else memory

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """`words`, and `coverage`: the doubly stochastic penalty of equation 14, λ Σ (1 - Σ α)² over cells and steps,
        so that every cell is looked at about as much."""
        if not self.coverage:
            return {"words": targets.total_loss()}
        looked = (attention_trace.weights * targets.mask[..., None]).sum(dim=1)  # (r s)
        missed = (1 - looked).square().mean(dim=1) * targets.mask.sum(dim=1)
        return {"words": targets.total_loss(), "coverage": self.coverage * missed.sum()}


class HardAttention(SoftAttention):
    """Stochastic attention, section 4.1: one cell is drawn, and the choice is trained by what it led to."""

    def __init__(
        self, attend: Attend, key: nn.Linear, *, baseline: nn.Module, policy_weight: float, entropy_weight: float
    ) -> None:
        super().__init__(attend, key, coverage_weight=0.0)
        self.baseline, self.choices, self.openness = baseline, policy_weight, entropy_weight

    def training_memory(self, memory: KV) -> KV:
        return with_attention_weights(memory)

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """`words`, `choices`: λ_r (cost to go - baseline) log p(choice), and `entropy`: -λ_e times that of the choice.
        Where the expectation stood in for a choice, nothing was chosen."""
        normalizer = self.cross_attn.weigh.normalizer
        if self.training and isinstance(normalizer, SoftOrHard):
            normalizer.advance()
        costs = targets.token_losses()
        queries = attention_trace.queries[:, None]  # (r 1 t d)
        keys = memory.k.tensor
        folded = queries if len(queries) == len(keys) else fold_hypotheses(queries, keys, NO_MASK)
        scores = self.cross_attn.weigh.scores(folded, keys)
        scores = (scores if folded is queries else unfold_hypotheses(scores, len(queries)))[:, 0]  # (r t s)
        chosen = targets.mask & (attention_trace.weights.detach().amax(dim=-1) == 1)
        log_probability = (scores.log_softmax(dim=-1) * attention_trace.weights.detach()).sum(dim=-1)
        policy = reinforce_loss(log_probability, cost_to_go(costs), baseline=self.baseline, valid=chosen)
        spread = entropy(scores).masked_fill(~targets.mask, 0.0).sum()
        return {"words": costs.sum(), "choices": self.choices * policy, "entropy": -self.openness * spread}


class MeanPooling(nn.Module):
    """No attention: the mean of all cells, the same at every word. What the others are compared with."""

    def project_kv(self, cells: Tensor) -> KV:
        mean = cells.mean(dim=1)[:, None, None]
        return KV.of(ProjectedKeys(mean), mean)

    def forward(self, query: Tensor, memory: KV) -> Tensor:
        return repeat_per_hypothesis(memory.v[:, 0, 0], len(query))

    def training_memory(self, memory: KV) -> KV:
        return memory

    def losses(self, targets: CaptionTargets, attention_trace: AttentionTrace, memory: KV) -> dict[str, Tensor]:
        """`words` alone."""
        return {"words": targets.total_loss()}
