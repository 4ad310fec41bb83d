"""Skewing: scores by distance become scores by place without a (t s d) tensor. Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.transforms import unsized


def meet(q: Tensor, table: Tensor) -> Tensor:
    """Queries (b h … d) and a table for each head (h n d) -> (b h … n). The rows of a batch are more queries of one
    product a head: the table is neither copied for each nor its gradient added up over them."""
    if unsized() or q.shape[0] == 1:
        return q @ (table if q.dim() == 4 else table[:, None]).mT
    heads_first = q.transpose(0, 1)  # (h b … d)
    met = torch.bmm(heads_first.flatten(1, -2), table.mT)
    return met.view(*heads_first.shape[:-1], table.shape[1]).transpose(0, 1)


def by_distance(table: Tensor, t: int, s: int, *, first: int, most: int) -> Tensor:
    """A table (h r+most+1 d) of distances r … -most -> (h t+s-1 d): its rows for every distance that occurs between the
    queries at first, first+1, … and `s` keys, from the farthest back to the farthest ahead; beyond r back and `most`
    ahead the last row is repeated. A slice and two repetitions: no gather, whose gradient would be slow."""
    reach = table.shape[1] - 1 - most
    if unsized():
        distances = torch.arange(first + t - 1, first - s, -1, device=table.device)
        return table.index_select(1, reach - distances.clamp(-most, reach))
    back, ahead = first + t - 1, s - 1 - first  # distances back … -ahead
    count = max(0, t + s - 1)
    before, behind = min(max(back - reach, 0), count), min(max(ahead - most, 0), count)
    inside = slice(reach - min(back, reach), reach + min(ahead, most) + 1) if before + behind < count else slice(0)
    parts = [table[:, :1].expand(-1, before, -1), table[:, inside], table[:, -1:].expand(-1, behind, -1)]
    return torch.cat(parts, dim=1)


def skew(scores: Tensor, s: int) -> Tensor:
    """(… t t+s-1) scores of queries by distance -> (… t s) scores by key.

    Query i meets key j at column t-1-i+j. Read in rows shorter by one, each row starts one column earlier than the
    last, which is just that shift: a view, no copy.
    """
    t, n = scores.shape[-2:]
    if unsized():
        rows, columns = torch.arange(t, device=scores.device), torch.arange(s, device=scores.device)
        return scores.gather(-1, (t - 1 - rows[:, None] + columns).expand(*scores.shape[:-1], s))
    if t <= 1:
        return scores if t else scores.new_zeros(*scores.shape[:-1], s)
    flat = scores.flatten(-2)[..., t - 1 : t - 1 + t * (n - 1)]
    return flat.reshape(*flat.shape[:-1], t, n - 1)[..., :s]
