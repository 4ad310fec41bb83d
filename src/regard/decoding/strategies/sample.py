"""Sampling: tokens drawn from the model's distribution, sharpened by temperature and cut to its likely part.

In this order: temperature divides the log probabilities; `top_k` keeps the k likeliest tokens (Fan et al. 2018);
`top_p` keeps the smallest set of likeliest tokens with that share of what is left (nucleus: Holtzman et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.core.seed import combine_seeds
from regard.decoding.constraints import check_constraints
from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.topk import top_k

MIN_TEMPERATURE = 1e-30  # below, float32 knows only zero
NUCLEUS_CANDIDATES = 128  # so many tokens mostly hold the mass that top_p asks for, and the others need no sorting


@dataclass(frozen=True)
class Config:
    """How to draw, how often, and what the output may not contain."""

    temperature: float = 1.0  # divides log probabilities: above 1 flattens, below 1 sharpens
    top_k: int = 0  # only the so many likeliest tokens are drawn; 0: all
    top_p: float = 1.0  # only the likeliest tokens that have this share of the probability are drawn
    num_samples: int = 1  # hypotheses that are drawn
    seed: int = 1  # another one gives other draws
    min_length: int = 0  # tokens before the end mark may come
    no_repeat_ngram_size: int = 0  # no n-gram of this size comes twice; 0: they may
    suppress_tokens: tuple[int, ...] = ()  # tokens that never come

    def __post_init__(self) -> None:
        check_constraints(self)
        if not 0 < self.temperature < float("inf"):
            raise ConfigError(f"temperature is {self.temperature}; it must be above 0 (for 0 use the greedy decoder)")
        if self.top_k < 0:
            raise ConfigError(f"top_k is {self.top_k}; it must be a number of tokens, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; it must be above 0 and at most 1, which keeps all tokens")
        if self.num_samples < 1:
            raise ConfigError(f"samples is {self.num_samples}; at least 1 is drawn")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must be 0 or more")


def build(config: Config) -> StrategySpec:
    """`samples` hypotheses for each source, likeliest first.

    The same seed gives the same draws, and what a source gets depends on its number and not on the others. Scores are
    those of the model's own distribution, whatever the settings.
    """
    samples = config.num_samples

    def choose(scores: Tensor, running: SearchState) -> Candidates:
        flat, shape = scores.flatten(0, 1), running.cum_log_probs.shape
        steps = running.lengths[:, None, None].expand(*running.uniforms.shape[:2], 1)
        draws = running.uniforms.gather(2, steps)[..., 0].gather(1, running.root_index)  # (s w)
        tokens = sample_tokens(flat, draws.view(-1, 1), config=config)
        parents = torch.arange(shape[1], device=scores.device).expand(shape)
        sums = running.cum_log_probs + flat.gather(1, tokens).view(shape)
        return Candidates(parents, tokens=tokens.view(shape), cum_log_probs=sums)

    def draws(limits: Tensor, numbers: Tensor) -> Tensor:
        return _numbers(limits, numbers, config=config)

    return StrategySpec(choose, initial_width=samples, capacity=samples, nbest=samples, draw_uniforms=draws)


def _numbers(limits: Tensor, numbers: Tensor, *, config: Config) -> Tensor:
    """Limits and numbers of sources (s) -> random numbers in [0, 1) for every sample and step (s l n), drawn for each
    source by a generator of its own."""
    table = torch.zeros(limits.numel(), config.num_samples, max([0, *limits.tolist()]) + 1, dtype=torch.float64)
    for row, (limit, number) in enumerate(zip(limits.tolist(), numbers.tolist(), strict=True)):
        generator = torch.Generator().manual_seed(combine_seeds(config.seed, number))
        drawn = torch.rand(limit + 1, config.num_samples, generator=generator, dtype=torch.float64)
        table[row, :, : limit + 1] = drawn.T
    return table.to(limits.device)


def sample_tokens(scores: Tensor, uniforms: Tensor, *, config: Config) -> Tensor:
    """Log probabilities (r v) and a number from [0, 1) per row (r 1) -> tokens (r 1)."""
    heat = max(config.temperature, MIN_TEMPERATURE)
    sharpened = scores if heat == 1 else (scores - scores.amax(dim=1, keepdim=True)) / heat
    logits, tokens = _likely(sharpened, config=config)
    places = _places(logits.softmax(dim=1), uniforms)
    return places if tokens is None else tokens.gather(1, places)


def _places(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Probabilities (r v), draws (r 1) -> the first place (r 1) up to which there is more than the draw. By NumPy,
    whose calls are short. Rounding may push a draw to the very end, where tokens without probability are."""
    shares = probabilities.cpu().numpy().cumsum(axis=1, dtype=np.float64)
    total = shares[:, -1:]
    before = np.minimum((shares <= draws.cpu().numpy() * total).sum(axis=1), (shares < total).sum(axis=1))
    return torch.from_numpy(before[:, None]).to(probabilities.device)


def _likely(scores: Tensor, *, config: Config) -> tuple[Tensor, Tensor | None]:
    """Scores (r v) -> those that may be drawn and their tokens, likeliest first; or all, in their own order."""
    tokens: Tensor | None = None
    if config.top_k:
        scores, tokens = top_k(scores, config.top_k)
    if config.top_p == 1:
        return scores, tokens
    total = scores.logsumexp(dim=1, keepdim=True)
    for size in (NUCLEUS_CANDIDATES, scores.shape[1]):
        values, order = top_k(scores, size)
        shares = (values - total).exp().cumsum(dim=1, dtype=torch.float64)
        if bool((shares[:, -1] >= config.top_p).all()):
            break
    before = torch.cat([torch.zeros_like(shares[:, :1]), shares[:, :-1]], dim=1)
    return values.masked_fill(before >= config.top_p, -torch.inf), order if tokens is None else tokens.gather(1, order)
