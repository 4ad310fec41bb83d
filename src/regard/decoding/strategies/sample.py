"""Sampling: tokens are drawn from the model's distribution, adjusted by temperature, top-k and top-p.

In this order: temperature divides the log probabilities; `top_k` keeps the k most likely tokens (Fan et al. 2018);
`top_p` keeps the smallest set of most likely tokens with that share of the remaining probability (nucleus sampling:
Holtzman et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.errors import ConfigError
from regard.core.seed import combine_seeds
from regard.decoding.constraints import check_constraints
from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.topk import top_k

MIN_TEMPERATURE = 1e-30  # smaller values are 0 in float32
NUCLEUS_CANDIDATES = 128  # this many tokens usually have the mass top_p; then the others need not be sorted


@dataclass(frozen=True)
class Config:
    """Distribution, number of samples and constraints."""

    temperature: float = 1.0  # divides log probabilities: above 1 flattens, below 1 sharpens the distribution
    top_k: int = 0  # sample from the k most likely tokens; 0: all
    top_p: float = 1.0  # sample from the most likely tokens with this share of the probability
    num_samples: int = 1  # samples per input
    seed: int = 1  # seed of the random numbers
    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        check_constraints(self)
        if not 0 < self.temperature < float("inf"):
            raise ConfigError(f"temperature={self.temperature} must be greater than 0 and finite; for 0 use greedy")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p={self.top_p} must be greater than 0 and at most 1; 1 keeps all tokens")
        check_fields(self, at_least_1=("num_samples",), at_least_0=("top_k", "seed"))


def build(config: Config) -> StrategySpec:
    """Return `num_samples` hypotheses per source, most likely first.

    The same seed gives the same samples, and the samples of a source depend on its index and not on the other sources.
    Scores are those of the unmodified distribution of the model, whatever the settings.
    """
    samples = config.num_samples

    def choose(scores: Tensor, search_state: SearchState) -> Candidates:
        flat, shape = scores.flatten(0, 1), search_state.cum_log_probs.shape
        steps = search_state.lengths[:, None, None].expand(*search_state.uniforms.shape[:2], 1)
        uniforms = search_state.uniforms.gather(2, steps)[..., 0].gather(1, search_state.root_index)  # (s w)
        tokens = sample_tokens(flat, uniforms.view(-1, 1), config=config)
        parents = torch.arange(shape[1], device=scores.device).expand(shape)
        sums = search_state.cum_log_probs + flat.gather(1, tokens).view(shape)
        return Candidates(parents, tokens=tokens.view(shape), cum_log_probs=sums)

    def draw_uniforms(limits: Tensor, sample_indices: Tensor) -> Tensor:
        return _uniforms(limits, sample_indices, config=config)

    return StrategySpec(choose, initial_width=samples, capacity=samples, nbest=samples, draw_uniforms=draw_uniforms)


def _uniforms(limits: Tensor, sample_indices: Tensor, *, config: Config) -> Tensor:
    """Limits and sample indices of the sources (s) -> random numbers in [0, 1) per sample and step (s l n). Every
    source has its own generator."""
    table = torch.zeros(limits.numel(), config.num_samples, max([0, *limits.tolist()]) + 1, dtype=torch.float64)
    for row, (limit, index) in enumerate(zip(limits.tolist(), sample_indices.tolist(), strict=True)):
        generator = torch.Generator().manual_seed(combine_seeds(config.seed, index))
        uniforms = torch.rand(limit + 1, config.num_samples, generator=generator, dtype=torch.float64)
        table[row, :, : limit + 1] = uniforms.T
    return table.to(limits.device)


def sample_tokens(scores: Tensor, uniforms: Tensor, *, config: Config) -> Tensor:
    """Log probabilities (r v) and a random number in [0, 1) per row (r 1) -> tokens (r 1)."""
    temperature = max(config.temperature, MIN_TEMPERATURE)
    scaled = scores if temperature == 1 else (scores - scores.amax(dim=1, keepdim=True)) / temperature
    logits, tokens = _candidates(scaled, config=config)
    columns = _invert_cdf(logits.softmax(dim=1), uniforms)
    return columns if tokens is None else tokens.gather(1, columns)


def _invert_cdf(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Probabilities (r v), random numbers (r 1) -> the first column (r 1) at which the cumulative probability exceeds
    the number. Uses NumPy, whose calls have less overhead. Columns of probability zero at the end are never returned,
    even after rounding."""
    cumulative = probabilities.cpu().numpy().cumsum(axis=1, dtype=np.float64)
    total = cumulative[:, -1:]
    columns = np.minimum((cumulative <= uniforms.cpu().numpy() * total).sum(axis=1), (cumulative < total).sum(axis=1))
    return torch.from_numpy(columns[:, None]).to(probabilities.device)


def _candidates(scores: Tensor, *, config: Config) -> tuple[Tensor, Tensor | None]:
    """Scores (r v) -> the scores that may be sampled and their tokens, most likely first; or all scores in their order,
    and None."""
    tokens: Tensor | None = None
    if config.top_k:
        scores, tokens = top_k(scores, config.top_k)
    if config.top_p == 1:
        return scores, tokens
    total = scores.logsumexp(dim=1, keepdim=True)
    for size in (NUCLEUS_CANDIDATES, scores.shape[1]):
        values, order = top_k(scores, size)
        cumulative = (values - total).exp().cumsum(dim=1, dtype=torch.float64)
        if bool((cumulative[:, -1] >= config.top_p).all()):
            break
    before = torch.cat([torch.zeros_like(cumulative[:, :1]), cumulative[:, :-1]], dim=1)
    return values.masked_fill(before >= config.top_p, -torch.inf), order if tokens is None else tokens.gather(1, order)
