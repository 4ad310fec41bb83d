"""Relative pitch and time beside relative place: Huang et al. 2019, section 4.1, the chorales' best row.

A query meets a learned vector for the interval between its own note and a key's note, and one for the time between
them, in steps. Both are kept as inner products: the interval scores of a query are laid out by pitch (there are few)
and met by one-hot pitches of the keys; the time scores are skewed per step, not per token. No (t s d) tensor exists.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from regard.attention.relative_skew import distance_scores, skew, table_scores
from regard.attention.score import Dot, ScoreFunction
from regard.attention.weigh import PositionBias


class RelativePitchTime(nn.Module):
    """A place's score + q·p[interval] / √d + q·u[time] / √d.

    Queries and keys carry their note as a last feature: 0 where there is none, else 1 … pitches. There are `voices`
    notes a time step; place i stands before note i, so the key at place j holds note j - 1. Nobody looks ahead, so
    there are no vectors for times to come.
    """

    is_dot_product = False

    def __init__(
        self, position_bias: PositionBias, heads: int, dim: int, *, pitches: int, voices: int, max_distance: int
    ) -> None:
        super().__init__()
        self.place = position_bias
        self.pitches, self.voices = pitches, voices
        self.pitch = nn.Parameter(torch.randn(heads, 2 * pitches, dim) * dim**-0.5)  # the last row: no interval
        self.time = nn.Parameter(torch.randn(heads, max_distance + 1, dim) * dim**-0.5)  # from far back to now

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        """(b h t d+1), (b h s d+1) -> (b h t s)."""
        own, theirs = q[:, 0, :, -1].long(), k[:, 0, :, -1].long()  # (b t), (b s): the same for every head
        q, k = q[..., :-1], k[..., :-1]
        scaled = q * q.shape[-1] ** -0.5
        scores = self.place.score(score, q, k, query_offset, start) + self._by_pitch(scaled, own, theirs)
        if start is None:
            return scores + self._by_time(scaled, k.shape[-2], first=query_offset)
        return scores + self._by_time_of_rows(scaled, k.shape[-2], column=query_offset, start=start)

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return None

    def _by_pitch(self, q: Tensor, own: Tensor, theirs: Tensor) -> Tensor:
        notes = torch.arange(self.pitches + 1, device=q.device)
        rows = own[..., None] - notes + self.pitches - 1  # (b t n): the row of each interval
        rows = rows.masked_fill((own[..., None] == 0) | (notes == 0), 2 * self.pitches - 1)
        by_interval = table_scores(q, self.pitch)  # (b h t 2n)
        by_note = by_interval.gather(-1, rows[:, None].expand(-1, q.shape[1], -1, -1))
        return by_note @ one_hot(theirs, self.pitches + 1).to(q.dtype)[:, None].mT

    def _by_time(self, q: Tensor, s: int, *, first: int) -> Tensor:
        """Whole steps are skewed, then every key gets its step's score. Key 0, the start, is a step of its own."""
        t, voices = q.shape[-2], self.voices
        lead = first % voices
        whole = pad(q, (0, 0, lead, -(lead + t) % voices)).unflatten(2, (-1, voices)).transpose(2, 3)  # (b h v g d)
        groups, steps = whole.shape[3], -(-(s - 1) // voices) + 1
        met = distance_scores(whole, self.time, groups, steps, query_offset=first // voices + 1, max_ahead=0)
        by_step = skew(met, steps)  # (b h v g steps)
        by_step = by_step.transpose(2, 3).flatten(2, 3)[:, :, lead : lead + t]  # (b h t steps)
        by_key = by_step[..., None].expand(*by_step.shape, voices).flatten(-2)
        return by_key[..., voices - 1 : voices - 1 + s]

    def _by_time_of_rows(self, q: Tensor, s: int, *, column: int, start: Tensor) -> Tensor:
        """The same where each row's places are counted from a `start` (b) of its own: number by number, so it is slower
        and meant for decoding. A query at place i stands in step ⌊i/v⌋ + 1, a key at place j in step ⌈j/v⌉."""
        reach = self.time.shape[1] - 1
        queries = torch.arange(column, column + q.shape[-2], device=q.device) - start[:, None]  # (b t)
        keys = torch.arange(s, device=q.device) - start[:, None]  # (b s); negative: padding, which is never looked at
        steps = (queries // self.voices + 1)[:, :, None] - (keys + self.voices - 1)[:, None] // self.voices  # (b t s)
        rows = reach - steps.clamp(0, reach)
        return table_scores(q, self.time).gather(-1, rows[:, None].expand(-1, q.shape[1], -1, -1))
