"""Skewing: scores by distance become scores by place without a (t s d) tensor. Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.tracing import is_exporting


def table_scores(q: Tensor, table: Tensor) -> Tensor:
    """Queries (b h … d) and a table for each head (h n d) -> (b h … n). The rows of a batch are more queries of one
    product a head: the table is neither copied for each nor its gradient added up over them."""
    if is_exporting() or q.shape[0] == 1:
        return q @ (table if q.dim() == 4 else table[:, None]).mT
    heads_first = q.transpose(0, 1)  # (h b … d)
    met = torch.bmm(heads_first.flatten(1, -2), table.mT)
    return met.view(*heads_first.shape[:-1], table.shape[1]).transpose(0, 1)


def distance_scores(q: Tensor, table: Tensor, t: int, s: int, *, query_offset: int, max_ahead: int) -> Tensor:
    """Queries (b h … d) and a table (h r+most+1 d) of distances r … -most -> (b h … t+s-1): their products with the
    vector of every distance that occurs between `t` queries at first, first+1, … and `s` keys, from the farthest back
    to the farthest ahead; beyond r back and `most` ahead the last vector serves for all. Every vector is met once: a
    slice, a product and two repetitions; no gather, whose gradient would be slow."""
    reach = table.shape[1] - 1 - max_ahead
    if is_exporting():
        distances = torch.arange(query_offset + t - 1, query_offset - s, -1, device=table.device)
        return table_scores(q, table.index_select(1, reach - distances.clamp(-max_ahead, reach)))
    back, ahead = query_offset + t - 1, s - 1 - query_offset  # distances back … -ahead
    count = max(0, t + s - 1)
    low, high = (
        max(min(back, reach), -max_ahead),
        min(max(-ahead, -max_ahead), reach),
    )  # distances of the table that occur
    met = table_scores(q, table[:, reach - low : reach - high + 1])  # (b h … n)
    before = min(max(back - low, 0), count)
    behind = max(0, count - before - met.shape[-1])
    if before + behind == 0:
        return met[..., :count]
    shape = q.shape[:-1]
    parts = [met[..., :1].expand(*shape, before), met, met[..., -1:].expand(*shape, behind)]
    return torch.cat(parts, dim=-1)[..., :count]


def skew(scores: Tensor, s: int) -> Tensor:
    """(… t t+s-1) scores of queries by distance -> (… t s) scores by key.

    Query i meets key j at column t-1-i+j. Read in rows shorter by one, each row starts one column earlier than the
    last, which is just that shift: a view, no copy.
    """
    t, n = scores.shape[-2:]
    if is_exporting():
        rows, columns = torch.arange(t, device=scores.device), torch.arange(s, device=scores.device)
        return scores.gather(-1, (t - 1 - rows[:, None] + columns).expand(*scores.shape[:-1], s))
    if t <= 1:
        return scores if t else scores.new_zeros(*scores.shape[:-1], s)
    flat = scores.flatten(-2)[..., t - 1 : t - 1 + t * (n - 1)]
    return flat.reshape(*flat.shape[:-1], t, n - 1)[..., :s]
