"""The events encoding: note on, velocity, note off and time shift tokens, with the vocabulary and codec of MidiTok.

Notes are in seconds, as played: the score passed to MidiTok has the fixed tempo 120, so that a step is 10 ms at every
tempo of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.extras import require
from regard.data.music.encoding import PianoRollPoint, TokenArray
from regard.data.music.key import pitch_name
from regard.data.music.notes import Note
from regard.data.music.performance_encoding import PerformanceEncoding

SPECIAL_TOKENS = ["PAD", "UNK", "BOS", "EOS"]  # in the order of core.data_specs.SpecialTokens
MAX_NOTE_SECONDS = 8.0  # a note must end then: models omit some note-offs, and those notes would sound until the end
SCORE_TEMPO = 120.0  # of scores passed to MidiTok: a beat is half a second
OTHER, ON, OFF, SHIFT, VELOCITY = range(5)  # kinds of tokens


class EventEncoding(PerformanceEncoding):
    """Piano performances as events; time shifts in steps of `1/rate` seconds, up to one second each."""

    name = "events"

    @cached_property
    def tokenizer(self) -> Any:
        """The MidiTok tokenizer, with our special tokens first."""
        miditok = require("miditok", extra="music")
        settings = miditok.TokenizerConfig(
            pitch_range=(self.low, self.high + 1),
            beat_res={(0, 2): self.rate // 2},
            num_velocities=self.velocities,
            special_tokens=SPECIAL_TOKENS,
            use_time_signatures=False,
            use_tempos=False,
            use_programs=False,
            use_pitchdrum_tokens=False,
            encode_ids_split="no",
        )
        return miditok.MIDILike(settings)

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    @cached_property
    def token_table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Properties of each token: kind (v), pitch above `low` or 0 (v), time steps or 0 (v)."""
        kind, pitch, steps = (torch.zeros(self.size, dtype=torch.long) for _ in range(3))
        for token, token_id in self.tokenizer.vocab.items():
            name, _, value = token.partition("_")
            if name in ("NoteOn", "NoteOff"):
                kind[token_id], pitch[token_id] = ON if name == "NoteOn" else OFF, int(value) - self.low
            elif name == "TimeShift":
                beats, part, steps_per_beat = map(int, re.split(r"\.", value))
                kind[token_id], steps[token_id] = SHIFT, beats * steps_per_beat + part
            elif name == "Velocity":
                kind[token_id] = VELOCITY
        return kind, pitch, steps

    def encode(self, content: Sequence[Note]) -> TokenArray:
        symusic = require("symusic", extra="music")
        score = symusic.Score(self.rate // 2)
        score.tempos.append(symusic.Tempo(0, SCORE_TEMPO))
        track = symusic.Track(program=0)
        for note in self.quantize(content):
            track.notes.append(symusic.Note(*note))
        score.tracks.append(track)
        sequence = self.tokenizer.encode(score)
        sequence = sequence[0] if isinstance(sequence, list) else sequence
        return np.asarray(sequence.ids, dtype=np.int64)

    def decode(self, tokens: TokenArray) -> list[Note]:
        """Tokens -> notes in seconds; notes that still sound at the end are ended there."""
        kind, pitch = (table.numpy() for table in self.token_table[:2])
        events = [int(token) for token in tokens if kind[token] != OTHER]
        if events and kind[events[-1]] == ON:
            events.pop()  # truncated before its velocity
        sounding: dict[int, int] = {}
        for token in events:
            if kind[token] == ON:
                sounding[int(pitch[token])] = token
            elif kind[token] == OFF:
                sounding.pop(int(pitch[token]), None)
        if sounding:
            events.append(self._token_id("TimeShift_0.1." + str(self.rate // 2)))
            events += [self._token_id(f"NoteOff_{self.low + above}") for above in sorted(sounding)]
        score = self.tokenizer.decode([events]).to("second")
        notes = [note for track in score.tracks for note in track.notes]
        return sorted(Note(note.time, note.end, note.pitch, note.velocity) for note in notes)

    def _token_id(self, name: str) -> int:
        token_id: int = self.tokenizer.vocab[name]
        return token_id

    def transpose(self, tokens: TokenArray, semitones: int) -> TokenArray:
        kind = self.token_table[0].numpy()[tokens]
        return np.where((kind == ON) | (kind == OFF), tokens + semitones, tokens)

    def transpose_range(self, tokens: TokenArray) -> tuple[int, int]:
        kind, pitch = self.token_table[0].numpy()[tokens], self.token_table[1].numpy()[tokens]
        above = pitch[(kind == ON) | (kind == OFF)]
        return (-int(above.min()), self.high - self.low - int(above.max())) if len(above) else (0, 0)

    def grammar(self, prefix: TokenArray, *, seconds: float, min_seconds: float) -> EventsGrammar:
        return EventsGrammar(
            self.token_table,
            torch.from_numpy(np.asarray(prefix)),
            max_steps=round(seconds * self.rate),
            min_steps=round(min_seconds * self.rate),
            max_note_steps=round(MAX_NOTE_SECONDS * self.rate),
        )

    def label(self, token: int, position: int) -> str:
        kind, pitch, steps = (int(table[token]) for table in self.token_table)
        if kind in (ON, OFF):
            return f"{'on' if kind == ON else 'off'} {pitch_name(self.low + pitch)}"
        return f"+{1000 * steps // self.rate} ms" if kind == SHIFT else self.tokenizer[token].replace("_", " ").lower()

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        now, point = 0.0, None
        points: list[PianoRollPoint | None] = []
        for token in tokens.tolist():
            kind, pitch, steps = (int(table[token]) for table in self.token_table)
            now += steps / self.rate
            point = PianoRollPoint(now, self.low + pitch) if kind in (ON, OFF) else point if kind == VELOCITY else None
            points.append(point)
        return points

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **self.pitch_settings()}


class EventsGrammar:
    """Grammar of event tokens.

    A note-on is followed by its velocity. A note can end if it sounds, at least one step after its start; a note that
    has sounded for `max_note_steps` must end next. A piece can end when no note sounds, after `min_steps` or later; it
    must end at `max_steps`, and no time shift goes beyond that.
    """

    def __init__(
        self,
        token_table: tuple[Tensor, Tensor, Tensor],
        prefix: Tensor,
        *,
        max_steps: int,
        min_steps: int,
        max_note_steps: int,
    ) -> None:
        self.kind, self.pitch, self.length = token_table
        self.prefix, self.max_steps, self.max_note_steps = prefix, max(1, max_steps), max_note_steps
        self.min_steps = max(1, min(min_steps, max_steps))
        self.ending = torch.arange(len(self.kind)) == SpecialTokens.eos

    def allowed(self, history: Tensor) -> Tensor:
        tokens = torch.cat([self.prefix.to(history).expand(history.shape[0], -1), history], dim=1)  # (r t)
        kind, pitch = self.kind[tokens], self.pitch[tokens]
        num_pitches = int(self.pitch.max()) + 1
        shifts = (kind == SHIFT).cumsum(dim=1)
        since_shift = (kind == ON) & (shifts == shifts[:, -1:])  # started since the last time shift
        new = torch.zeros(len(tokens), num_pitches).scatter_add(1, pitch, since_shift.float()) > 0  # (r pitches)
        change = (kind == ON).float() - (kind == OFF).float()
        on = torch.zeros(len(tokens), num_pitches).scatter_add(1, pitch, change) > 0
        elapsed = self.length[history].sum(dim=1)[:, None]
        finished = elapsed >= self.max_steps
        needs_velocity = kind[:, -1:] == ON  # (r 1); empty if there is no token yet
        needs_velocity = needs_velocity if needs_velocity.shape[1] else torch.zeros(len(tokens), 1, dtype=torch.bool)
        allowed = (self.kind == ON) & ~on[:, self.pitch] & ~finished
        allowed = allowed | ((self.kind == OFF) & (on & ~new)[:, self.pitch])
        # shifts stay within max_steps, so that no note is new at the end
        allowed = allowed | ((self.kind == SHIFT) & (self.length <= self.max_steps - elapsed))
        allowed = allowed | (self.ending & (elapsed >= self.min_steps) & ~on.any(dim=1, keepdim=True))
        overdue = on & (self._note_ages(tokens) >= self.max_note_steps)  # (r pitches)
        allowed = torch.where(overdue.any(dim=1, keepdim=True), (self.kind == OFF) & overdue[:, self.pitch], allowed)
        return torch.where(needs_velocity, self.kind == VELOCITY, allowed)

    def _note_ages(self, tokens: Tensor) -> Tensor:
        """(r t) -> (r pitches): steps since the last note-on of each pitch."""
        time = self.length[tokens].cumsum(dim=1)
        onset_times = torch.where(self.kind[tokens] == ON, time, 0)
        last = torch.zeros(len(tokens), int(self.pitch.max()) + 1, dtype=torch.long)
        last = last.scatter_reduce(1, self.pitch[tokens], onset_times, "amax")
        return time[:, -1:] - last if tokens.shape[1] else last
