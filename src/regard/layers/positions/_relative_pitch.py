"""Relative pitch and time in addition to relative position: Huang et al. 2019, section 4.1 (best result on the
chorales).

The score gets a learned vector for the interval between the query's and the key's note, and one for the time between
them in steps. Both are inner products. The interval scores of a query are arranged by pitch (there are few) and
multiplied by one-hot pitches of the keys. The time scores are skewed per step, not per token. No (t s d) tensor is
created.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from regard.attention.relative_skew import distance_scores, skew, table_scores
from regard.attention.score import Dot, ScoreFunction
from regard.attention.weigh import PositionBias


class RelativePitchTime(nn.Module):
    """The score with relative position, plus q·p[interval] / √d + q·u[time] / √d.

    Queries and keys have their note as last feature: 0 for none, else 1 … pitches. There are `voices` notes per time
    step. Position i precedes note i, so the key at position j has note j - 1. The layer is causal, so there are no
    vectors for later times.
    """

    is_dot_product = False
    formula = "{} + q·e[i−j] / √d + q·p[interval] / √d + q·u[time] / √d"

    def __init__(
        self, position_bias: PositionBias, heads: int, dim: int, *, pitches: int, voices: int, max_distance: int
    ) -> None:
        super().__init__()
        self.place = position_bias
        self.pitches, self.voices = pitches, voices
        self.pitch = nn.Parameter(torch.randn(heads, 2 * pitches, dim) * dim**-0.5)  # the last row: no interval
        self.time = nn.Parameter(torch.randn(heads, max_distance + 1, dim) * dim**-0.5)  # from the farthest past to now

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        """(b h t d+1), (b h s d+1) -> (b h t s)."""
        query_notes, key_notes = q[:, 0, :, -1].long(), k[:, 0, :, -1].long()  # (b t), (b s): the same for every head
        q, k = q[..., :-1], k[..., :-1]
        scaled = q * q.shape[-1] ** -0.5
        scores = self.place.score(score, q, k, query_offset, start) + self._by_pitch(scaled, query_notes, key_notes)
        if start is None:
            return scores + self._by_time(scaled, k.shape[-2], first=query_offset)
        return scores + self._by_time_of_rows(scaled, k.shape[-2], column=query_offset, start=start)

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return None

    def _by_pitch(self, q: Tensor, query_notes: Tensor, key_notes: Tensor) -> Tensor:
        notes = torch.arange(self.pitches + 1, device=q.device)
        rows = query_notes[..., None] - notes + self.pitches - 1  # (b t n): table row of each interval
        rows = rows.masked_fill((query_notes[..., None] == 0) | (notes == 0), 2 * self.pitches - 1)
        by_interval = table_scores(q, self.pitch)  # (b h t 2n)
        by_note = by_interval.gather(-1, rows[:, None].expand(-1, q.shape[1], -1, -1))
        return by_note @ one_hot(key_notes, self.pitches + 1).to(q.dtype)[:, None].mT

    def _by_time(self, q: Tensor, s: int, *, first: int) -> Tensor:
        """Skew complete time steps, then give every key the score of its step. Key 0 (BOS) is a step of its own."""
        t, voices = q.shape[-2], self.voices
        lead = first % voices
        padded = pad(q, (0, 0, lead, -(lead + t) % voices)).unflatten(2, (-1, voices)).transpose(2, 3)  # (b h v g d)
        groups, steps = padded.shape[3], -(-(s - 1) // voices) + 1
        scores = distance_scores(padded, self.time, groups, steps, query_offset=first // voices + 1, max_ahead=0)
        by_step = skew(scores, steps)  # (b h v g steps)
        by_step = by_step.transpose(2, 3).flatten(2, 3)[:, :, lead : lead + t]  # (b h t steps)
        by_key = by_step[..., None].expand(*by_step.shape, voices).flatten(-2)
        return by_key[..., voices - 1 : voices - 1 + s]

    def _by_time_of_rows(self, q: Tensor, s: int, *, column: int, start: Tensor) -> Tensor:
        """The same for positions counted from a `start` (b) per row, element by element: slower, for decoding. A query
        at position i is in step ⌊i/v⌋ + 1, a key at position j in step ⌈j/v⌉."""
        max_distance = self.time.shape[1] - 1
        queries = torch.arange(column, column + q.shape[-2], device=q.device) - start[:, None]  # (b t)
        keys = torch.arange(s, device=q.device) - start[:, None]  # (b s); negative: padding, which is masked
        steps = (queries // self.voices + 1)[:, :, None] - (keys + self.voices - 1)[:, None] // self.voices  # (b t s)
        rows = max_distance - steps.clamp(0, max_distance)
        return table_scores(q, self.time).gather(-1, rows[:, None].expand(-1, q.shape[1], -1, -1))
