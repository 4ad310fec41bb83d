"""The durations encoding: pitch, velocity, duration and time shift tokens, as TSD of MidiTok (Fradet et al. 2021).

    C4  velocity 80  350 ms long  +120 ms  E4  velocity 71  …

Every note has its duration when it starts. So no later token is needed to end it, and no note sounds longer than
MAX_NOTE_SECONDS.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.core.data_specs import SpecialTokens
from regard.core.errors import pluralize
from regard.data.music.encoding import LoadedPiece, PianoRollPoint, TokenArray
from regard.data.music.key import pitch_name
from regard.data.music.notes import Note
from regard.data.music.performance_encoding import PerformanceEncoding

# (end, step) in seconds: durations up to an end are multiples of its step, at least the step of the encoding.
# In 20 performances of ASAP with pedals 87 % of the notes are shorter than a second, 98.5 % than 4, 99.6 % than 8.
DURATION_RANGES = ((1.0, 0.0), (4.0, 0.05), (8.0, 0.2))
MAX_NOTE_SECONDS = DURATION_RANGES[-1][0]
OTHER, PITCH, VELOCITY, DURATION, SHIFT = range(5)  # kinds of tokens
FIRST_TOKEN = SpecialTokens().first_regular_id


class DurationEncoding(PerformanceEncoding):
    """Piano performances as notes with durations; time shifts in steps of `1/rate` seconds, up to one second each."""

    name = "durations"

    @cached_property
    def durations(self) -> list[int]:
        """The durations that have a token, in steps, ascending."""
        durations = [0]
        for end, step in DURATION_RANGES:
            steps = max(1, round(step * self.rate))
            durations += range(durations[-1] + steps, round(end * self.rate) + 1, steps)
        return durations[1:]

    @cached_property
    def velocity_values(self) -> list[int]:
        """The velocities that have a token, ascending: multiples of 127 / `velocities`, rounded down."""
        return [127 * (index + 1) // self.velocities for index in range(self.velocities)]

    @property
    def first_velocity(self) -> int:
        """The token of the lowest velocity; tokens of pitches come before, those of durations after the highest."""
        return FIRST_TOKEN + self.high - self.low + 1

    @property
    def first_duration(self) -> int:
        """The token of the shortest duration."""
        return self.first_velocity + self.velocities

    @property
    def first_shift(self) -> int:
        """The token of a time shift of one step."""
        return self.first_duration + len(self.durations)

    @property
    def size(self) -> int:
        return self.first_shift + self.rate

    @cached_property
    def token_table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Properties of each token: kind (v), pitch above `low` or 0 (v), time steps or 0 (v)."""
        kind, pitch, steps = (torch.zeros(self.size, dtype=torch.long) for _ in range(3))
        kind[FIRST_TOKEN : self.first_velocity] = PITCH
        kind[self.first_velocity : self.first_duration] = VELOCITY
        kind[self.first_duration : self.first_shift] = DURATION
        kind[self.first_shift :] = SHIFT
        pitch[FIRST_TOKEN : self.first_velocity] = torch.arange(self.high - self.low + 1)
        steps[self.first_duration : self.first_shift] = torch.tensor(self.durations)
        steps[self.first_shift :] = torch.arange(1, self.rate + 1)
        return kind, pitch, steps

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        opened = super().open(path, data)
        num_long = sum(note.end - note.start > MAX_NOTE_SECONDS for note in opened.content)
        if not num_long:
            return opened
        remark = f"{path}: {pluralize(num_long, 'note')} of more than {MAX_NOTE_SECONDS:g} seconds end after that time"
        return opened._replace(loss_remarks=(*opened.loss_remarks, remark))

    def encode(self, content: Sequence[Note]) -> TokenArray:
        tokens: list[int] = []
        now = 0
        notes = sorted(self.quantize(content), key=lambda note: (note[0], note[2]))
        for (start, length, pitch, velocity), gap in zip(notes, _gaps_to_next(notes), strict=True):
            shift, now = start - now, start
            tokens += [self.first_shift + self.rate - 1] * (shift // self.rate)
            tokens += [self.first_shift + shift % self.rate - 1] if shift % self.rate else []
            velocity_index = int(np.abs(np.array(self.velocity_values) - velocity).argmin())
            tokens += [FIRST_TOKEN + pitch - self.low, self.first_velocity + velocity_index]
            tokens.append(self.first_duration + self._duration_index(length, gap))
        return np.array(tokens, dtype=np.int64)

    def _duration_index(self, length: int, gap: int | None) -> int:
        """Return the index of the nearest duration that does not reach beyond the next note of the pitch."""
        above = bisect_right(self.durations, length)  # index of the first longer duration
        if above in (0, len(self.durations)):
            return max(0, above - 1)
        shorter, longer = self.durations[above - 1], self.durations[above]
        is_nearer = longer - length < length - shorter
        return above if is_nearer and (gap is None or longer <= gap) else above - 1

    def decode(self, tokens: TokenArray) -> list[Note]:
        """Tokens -> notes in seconds; a last note without its duration is dropped."""
        kind, pitch, steps = (table.numpy() for table in self.token_table)
        notes: list[Note] = []
        now, current_pitch, velocity = 0, 0, 0
        for token in tokens.tolist():
            if kind[token] == SHIFT:
                now += int(steps[token])
            elif kind[token] == PITCH:
                current_pitch = self.low + int(pitch[token])
            elif kind[token] == VELOCITY:
                velocity = self.velocity_values[token - self.first_velocity]
            elif kind[token] == DURATION:
                end = now + int(steps[token])
                notes.append(Note(now / self.rate, end / self.rate, current_pitch, max(1, velocity)))
        return sorted(notes)

    def transpose(self, tokens: TokenArray, semitones: int) -> TokenArray:
        return np.where(self.token_table[0].numpy()[tokens] == PITCH, tokens + semitones, tokens)

    def transpose_range(self, tokens: TokenArray) -> tuple[int, int]:
        above = tokens[self.token_table[0].numpy()[tokens] == PITCH] - FIRST_TOKEN
        return (-int(above.min()), self.high - self.low - int(above.max())) if len(above) else (0, 0)

    def grammar(self, prefix: TokenArray, *, seconds: float, min_seconds: float) -> DurationsGrammar:
        return DurationsGrammar(
            self.token_table,
            torch.from_numpy(np.asarray(prefix)),
            max_steps=round(seconds * self.rate),
            min_steps=round(min_seconds * self.rate),
            max_shift=self.rate,
        )

    def label(self, token: int, position: int) -> str:
        kind, pitch, steps = (int(table[token]) for table in self.token_table)
        if kind == PITCH:
            return pitch_name(self.low + pitch)
        if kind == VELOCITY:
            return f"velocity {self.velocity_values[token - self.first_velocity]}"
        milliseconds = 1000 * steps // self.rate
        return f"{milliseconds} ms long" if kind == DURATION else f"+{milliseconds} ms"

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        """Pitch and velocity are at the start of a note, its duration at its end."""
        now, current_pitch = 0.0, self.low
        points: list[PianoRollPoint | None] = []
        for token in tokens.tolist():
            kind, pitch, steps = (int(table[token]) for table in self.token_table)
            seconds = steps / self.rate
            now += seconds if kind == SHIFT else 0.0
            current_pitch = self.low + pitch if kind == PITCH else current_pitch
            end = now + seconds if kind == DURATION else now
            points.append(PianoRollPoint(end, current_pitch) if kind in (PITCH, VELOCITY, DURATION) else None)
        return points

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **self.pitch_settings()}


def _gaps_to_next(notes: Sequence[tuple[int, int, int, int]]) -> list[int | None]:
    """Quantized notes in order -> steps from the start of each to the next note of its pitch; None for the last."""
    gaps: list[int | None] = []
    next_start: dict[int, int] = {}  # by pitch
    for start, _, pitch, _ in reversed(notes):
        gaps.append(next_start[pitch] - start if pitch in next_start else None)
        next_start[pitch] = start
    return gaps[::-1]


class DurationsGrammar:
    """Grammar of duration tokens.

    A pitch is followed by its velocity and its duration. A pitch that sounds cannot start again. New notes start after
    the end of the prefix, and no note sounds longer than `max_steps` after it. A piece can end after `min_steps` of new
    notes or waiting; it must end at `max_steps`.
    """

    def __init__(
        self,
        token_table: tuple[Tensor, Tensor, Tensor],
        prefix: Tensor,
        *,
        max_steps: int,
        min_steps: int,
        max_shift: int,
    ) -> None:
        self.kind, self.pitch, self.steps = token_table
        self.prefix, self.max_shift = prefix, max_shift
        now, ends = self._times(prefix[None])
        self.start = max(int(now), int(ends.max()))  # the end of the prefix, in steps
        self.limit = self.start + max(1, max_steps)
        self.min_end = self.start + max(1, min(min_steps, max_steps))
        self.ending = torch.arange(len(self.kind)) == SpecialTokens.eos

    def allowed(self, history: Tensor) -> Tensor:
        tokens = torch.cat([self.prefix.expand(history.shape[0], -1), history.cpu()], dim=1)  # (r t)
        now, ends = self._times(tokens)  # (r 1), (r pitches)
        remaining = self.limit - now
        waiting = (self.start - now).clamp(0, self.max_shift)  # one shift must reach the end of the prefix
        can_start = (ends <= now) & (now >= self.start) & (remaining > 0)
        allowed = (self.kind == PITCH) & can_start[:, self.pitch]
        allowed = allowed | ((self.kind == SHIFT) & (self.steps <= remaining) & (self.steps >= waiting))
        allowed = allowed | (self.ending & (torch.maximum(now, ends.amax(dim=1, keepdim=True)) >= self.min_end))
        durations = (self.kind == DURATION) & (self.steps <= remaining)
        last_kind = self.kind[tokens[:, -1:]] if tokens.shape[1] else torch.zeros(len(tokens), 1, dtype=torch.long)
        allowed = torch.where(last_kind == VELOCITY, durations, allowed)
        return torch.where(last_kind == PITCH, self.kind == VELOCITY, allowed).to(history.device)

    def _times(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(r t) -> the current time (r 1), and the end of the last note of each pitch (r pitches), in steps."""
        kind, steps = self.kind[tokens], self.steps[tokens]
        times = torch.where(kind == SHIFT, steps, 0).cumsum(dim=1)
        note_ends = torch.where(kind == DURATION, times + steps, 0)
        pitches = pad(self.pitch[tokens], (2, 0))[:, : tokens.shape[1]]  # of the note that a duration belongs to
        ends = torch.zeros(len(tokens), int(self.pitch.max()) + 1, dtype=torch.long)
        ends = ends.scatter_reduce(1, pitches, note_ends, "amax")
        return pad(times, (1, 0))[:, -1:], ends
