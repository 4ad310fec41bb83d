"""Hard attention with what its Monte Carlo gradient needs: Xu et al. 2015, section 4.1, equations 11 and 12."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import Attend
from regard.attention.masks import EVERYTHING, Mask
from regard.attention.normalizers import Hard, log_probability
from regard.attention.score import Projected
from regard.core.errors import ConfigError


class Choice(NamedTuple):
    """What was mixed, which key it came from, and how likely that was."""

    mixed: Tensor  # (b h t e)
    place: Tensor  # (b h t) the chosen key, -1 where there was none to choose
    log_probability: Tensor  # (b h t), differentiable in the scores; 0 where there was none to choose


def choose(attend: Attend, q: Tensor, k: Tensor | Projected, v: Tensor, mask: Mask = EVERYTHING) -> Choice:
    """Attend with a hard normaliser: one value per query, and the log probability of each choice.

    Every value carries its own place along as two further features, so what comes back says where it came from, and
    the attention is called like any other: whoever records it sees it.
    """
    if not isinstance(attend.weigh.normalizer, Hard):
        kind = type(attend.weigh.normalizer).__name__
        raise ConfigError(f"choose: the normaliser is {kind}, which does not choose; make Attend(…, normalizer=Hard())")
    t, s = q.shape[-2], v.shape[-2]
    places = torch.arange(s, device=v.device, dtype=v.dtype)  # exact in float32 up to 16 million keys
    marks = torch.stack([places, torch.ones_like(places)], dim=-1).expand(*v.shape[:-1], 2)
    mixed = attend(q, k, torch.cat([v, marks], dim=-1), mask)
    place, weight = mixed[..., -2:].detach().unbind(dim=-1)
    chosen = weight > 0  # dropout of the one weight leaves nothing
    place = torch.where(chosen, (place / torch.where(chosen, weight, 1.0)).round(), -1.0).long()
    keys = k.tensor if isinstance(k, Projected) else k
    scores = attend.weigh.scores(q, keys, start=mask.start)
    allowed = mask.dense(t, s, device=q.device)
    return Choice(mixed[..., :-2], place, log_probability(scores, allowed, place))
