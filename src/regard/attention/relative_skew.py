"""Skewing: scores by distance -> scores by key, without a (t s d) tensor. Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.tracing import is_exporting


def table_scores(q: Tensor, table: Tensor) -> Tensor:
    """Queries (b h … d) and a table per head (h n d) -> inner products (b h … n).

    The rows of the batch are folded into the queries of one product per head. So the table is not copied for each row,
    and its gradient is not summed over rows.
    """
    if is_exporting() or q.shape[0] == 1:
        return q @ (table if q.dim() == 4 else table[:, None]).mT
    heads_first = q.transpose(0, 1)  # (h b … d)
    scores = torch.bmm(heads_first.flatten(1, -2), table.mT)
    return scores.view(*heads_first.shape[:-1], table.shape[1]).transpose(0, 1)


def distance_scores(q: Tensor, table: Tensor, t: int, s: int, *, query_offset: int, max_ahead: int) -> Tensor:
    """Queries (b h … d) and a table (h r+max_ahead+1 d) -> inner products (b h … t+s-1), one per distance.

    The table has a vector for each distance r … -max_ahead. The result has the distances that occur between `t` queries
    at positions query_offset, query_offset + 1, … and `s` keys, from the farthest back to the farthest ahead. Distances
    beyond the table use its first or last vector. Each vector is multiplied once, by a slice, a product and two
    expansions. A gather is avoided, because its gradient would be slow.
    """
    reach = table.shape[1] - 1 - max_ahead
    if is_exporting():
        distances = torch.arange(query_offset + t - 1, query_offset - s, -1, device=table.device)
        return table_scores(q, table.index_select(1, reach - distances.clamp(-max_ahead, reach)))
    back, ahead = query_offset + t - 1, s - 1 - query_offset  # the distances are back … -ahead
    count = max(0, t + s - 1)
    low, high = max(min(back, reach), -max_ahead), min(max(-ahead, -max_ahead), reach)  # those inside the table
    scores = table_scores(q, table[:, reach - low : reach - high + 1])  # (b h … n)
    num_before = min(max(back - low, 0), count)
    num_after = max(0, count - num_before - scores.shape[-1])
    if num_before + num_after == 0:
        return scores[..., :count]
    shape = q.shape[:-1]
    parts = [scores[..., :1].expand(*shape, num_before), scores, scores[..., -1:].expand(*shape, num_after)]
    return torch.cat(parts, dim=-1)[..., :count]


def skew(scores: Tensor, s: int) -> Tensor:
    """(… t t+s-1) scores of queries by distance -> (… t s) scores by key.

    The score of query i and key j is in column t-1-i+j. Viewed with rows shorter by one, each row starts one column
    earlier than the previous one, which is exactly that shift: a view, no copy.
    """
    t, n = scores.shape[-2:]
    if is_exporting():
        rows, columns = torch.arange(t, device=scores.device), torch.arange(s, device=scores.device)
        return scores.gather(-1, (t - 1 - rows[:, None] + columns).expand(*scores.shape[:-1], s))
    if t <= 1:
        return scores if t else scores.new_zeros(*scores.shape[:-1], s)
    flat = scores.flatten(-2)[..., t - 1 : t - 1 + t * (n - 1)]
    return flat.reshape(*flat.shape[:-1], t, n - 1)[..., :s]
