"""The events encoding: note on, its velocity, note off, time shift; the vocabulary and both directions by MidiTok.

Notes are in seconds, as played: the score handed to MidiTok has the fixed tempo 120, so that a step is 10 ms whatever
the tempo of the file was. The pedal is folded into note lengths before (midi.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError
from regard.core.extras import require
from regard.data.music import midi, musicxml
from regard.data.music.encoding import LoadedPiece, PianoRollPoint, TokenArray
from regard.data.music.key import pitch_name
from regard.data.music.metre import Timing
from regard.data.music.notes import Note, filter_pitch_range, in_seconds, resolve_overlaps

SPECIAL_TOKENS = ["PAD", "UNK", "BOS", "EOS"]  # in the order of core.protocols.Marks
MAX_NOTE_SECONDS = 8.0  # seconds after which a note must end: a model forgets some, and they would sound on to the end
DEFAULT_TEMPO = 100.0  # quarters a minute of a score without a tempo
OTHER, ON, OFF, SHIFT, VELOCITY = range(5)  # kinds of tokens


class EventEncoding:
    """A piano between two pitches; time in steps of `1/rate` seconds, at most a second at once."""

    name = "events"
    tokens_per_bar = 1
    tokens_per_step = 0
    voices = ("Piano",)
    program = 0  # a piano
    default_seconds = 60.0
    tempo = 120.0  # what MidiTok is told: a beat is half a second

    def __init__(self, low: int = 21, high: int = 108, *, rate: int = 100, velocities: int = 32) -> None:
        if not 0 <= low < high <= 127:
            raise ConfigError(f"low={low}, high={high}: pitches lie in 0 … 127, low below high")
        if rate < 2 or rate % 2 or not 1 <= velocities <= 127:
            raise ConfigError(f"rate={rate}, velocities={velocities}: an even rate and 1 … 127 velocities are needed")
        self.low, self.high, self.rate, self.velocities = low, high, rate, velocities
        self.timing = Timing(self.tempo)  # of the bars in files that are written

    @cached_property
    def tokenizer(self) -> Any:
        """MidiTok's own, with our marks first."""
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
        """What each token is: kind (v), pitch above `low` or 0 (v), steps of time or 0 (v)."""
        kind, pitch, steps = (torch.zeros(self.size, dtype=torch.long) for _ in range(3))
        for token, number in self.tokenizer.vocab.items():
            name, _, value = token.partition("_")
            if name in ("NoteOn", "NoteOff"):
                kind[number], pitch[number] = ON if name == "NoteOn" else OFF, int(value) - self.low
            elif name == "TimeShift":
                beats, part, whole = map(int, re.split(r"\.", value))
                kind[number], steps[number] = SHIFT, beats * whole + part
            elif name == "Velocity":
                kind[number] = VELOCITY
        return kind, pitch, steps

    def with_timing(self, timing: Timing) -> EventEncoding:
        other = copy(self)
        other.timing = timing._replace(tempo=timing.tempo or self.tempo)
        return other

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        if data is None and path.suffix.lower() in musicxml.SUFFIXES:
            read = musicxml.read(path)
            tempo = read.timing.tempo or DEFAULT_TEMPO
            read = read._replace(notes=in_seconds(read.notes, tempo), timing=read.timing._replace(tempo=tempo))
        else:
            read = midi.read(path, "second") if data is None else midi.parse(data, "second", where=str(path))
        inside = filter_pitch_range(read.notes, self.low, self.high, where=str(path))
        if not inside.notes:
            raise DataError(f"{path}: no note lies in {self.low} … {self.high}, what this encoding holds; transpose it")
        merged = resolve_overlaps([note._replace(voice=0) for note in inside.notes], str(path))
        remarks = (*read.remarks, *inside.remarks, *merged.remarks)
        return LoadedPiece(merged.notes, remarks, read)

    def encode(self, content: Sequence[Note]) -> TokenArray:
        symusic = require("symusic", extra="music")
        score = symusic.Score(self.rate // 2)
        score.tempos.append(symusic.Tempo(0, self.tempo))
        track = symusic.Track(program=0)
        for note in self._stepped(content):
            track.notes.append(symusic.Note(*note))
        score.tracks.append(track)
        sequence = self.tokenizer.encode(score)
        sequence = sequence[0] if isinstance(sequence, list) else sequence
        return np.asarray(sequence.ids, dtype=np.int64)

    def _stepped(self, notes: Sequence[Note]) -> list[tuple[int, int, int, int]]:
        """Notes -> (start, length, pitch, velocity) in steps; a note that is struck again ends before that."""
        stepped: list[tuple[int, int, int, int]] = []
        free: dict[int, int] = {}
        for note in sorted(notes):
            start = max(round(note.start * self.rate), free.get(note.pitch, 0))
            length = max(1, round(note.end * self.rate) - start)
            free[note.pitch] = start + length
            stepped.append((start, length, note.pitch, max(1, min(127, note.velocity))))
        return stepped

    def decode(self, tokens: TokenArray) -> list[Note]:
        """Tokens -> notes in seconds; what still sounds at the end is ended there."""
        kind, pitch = (table.numpy() for table in self.token_table[:2])
        whole = [int(token) for token in tokens if kind[token] != OTHER]
        if whole and kind[whole[-1]] == ON:
            whole.pop()  # cut before its velocity
        sounding: dict[int, int] = {}
        for token in whole:
            if kind[token] == ON:
                sounding[int(pitch[token])] = token
            elif kind[token] == OFF:
                sounding.pop(int(pitch[token]), None)
        if sounding:
            whole.append(self._token("TimeShift_0.1." + str(self.rate // 2)))
            whole += [self._token(f"NoteOff_{self.low + above}") for above in sorted(sounding)]
        score = self.tokenizer.decode([whole]).to("second")
        notes = [note for track in score.tracks for note in track.notes]
        return sorted(Note(note.time, note.end, note.pitch, note.velocity) for note in notes)

    def _token(self, name: str) -> int:
        number: int = self.tokenizer.vocab[name]
        return number

    def notes(self, content: list[Note]) -> list[Note]:
        return content

    def crop_start(self, content: list[Note], seconds: float) -> list[Note]:
        kept = [note._replace(end=min(note.end, seconds)) for note in content if note.start < seconds]
        if not kept:
            raise DataError(f"no note of the prompt begins in its first {seconds:g} seconds; keep more of it")
        return kept

    def transpose(self, tokens: TokenArray, semitones: int) -> TokenArray:
        kind = self.token_table[0].numpy()[tokens]
        return np.where((kind == ON) | (kind == OFF), tokens + semitones, tokens)

    def transpose_range(self, tokens: TokenArray) -> tuple[int, int]:
        kind, pitch = self.token_table[0].numpy()[tokens], self.token_table[1].numpy()[tokens]
        above = pitch[(kind == ON) | (kind == OFF)]
        return (-int(above.min()), self.high - self.low - int(above.max())) if len(above) else (0, 0)

    def grammar(self, prefix: TokenArray, *, seconds: float, min_seconds: float) -> EventsGrammar:
        steps, fewest = round(seconds * self.rate), round(min_seconds * self.rate)
        held = round(MAX_NOTE_SECONDS * self.rate)
        return EventsGrammar(
            self.token_table,
            torch.from_numpy(np.asarray(prefix)),
            max_steps=steps,
            min_steps=fewest,
            max_note_steps=held,
        )

    def max_tokens(self, seconds: float) -> int:
        return max(256, round(seconds * 240))  # eighty notes a second: more than is ever played

    def label(self, token: int, position: int) -> str:
        kind, pitch, steps = (int(table[token]) for table in self.token_table)
        if kind in (ON, OFF):
            return f"{'on' if kind == ON else 'off'} {pitch_name(self.low + pitch)}"
        return f"+{1000 * steps // self.rate} ms" if kind == SHIFT else self.tokenizer[token].replace("_", " ").lower()

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        now, struck = 0.0, None
        spots: list[PianoRollPoint | None] = []
        for token in tokens.tolist():
            kind, pitch, steps = (int(table[token]) for table in self.token_table)
            now += steps / self.rate
            struck = (
                PianoRollPoint(now, self.low + pitch) if kind in (ON, OFF) else struck if kind == VELOCITY else None
            )
            spots.append(struck)
        return spots

    def settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "low": self.low,
            "high": self.high,
            "rate": self.rate,
            "velocities": self.velocities,
        }


class EventsGrammar:
    """A note-on is followed by its velocity; a note ends only if it sounds, at least one step after it began, and one
    that has sounded for `held` steps ends before anything else; a piece ends when nothing sounds, `least` steps of time
    from the beginning or later, and at `steps`, which no shift of time goes beyond, it must."""

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
        whole = torch.cat([self.prefix.to(history).expand(history.shape[0], -1), history], dim=1)  # (r t)
        kind, pitch = self.kind[whole], self.pitch[whole]
        pitches = int(self.pitch.max()) + 1
        shifts = (kind == SHIFT).cumsum(dim=1)
        fresh = (kind == ON) & (shifts == shifts[:, -1:])  # struck since the last shift of time
        new = torch.zeros(len(whole), pitches).scatter_add(1, pitch, fresh.float()) > 0  # (r pitches)
        change = (kind == ON).float() - (kind == OFF).float()
        on = torch.zeros(len(whole), pitches).scatter_add(1, pitch, change) > 0
        lasted = self.length[history].sum(dim=1)[:, None]
        over = lasted >= self.max_steps
        struck = kind[:, -1:] == ON  # (r 1): a velocity must come; with no token yet there is none
        struck = struck if struck.shape[1] else torch.zeros(len(whole), 1, dtype=torch.bool)
        may = (self.kind == ON) & ~on[:, self.pitch] & ~over
        may = may | ((self.kind == OFF) & (on & ~new)[:, self.pitch])
        may = may | (
            (self.kind == SHIFT) & (self.length <= self.max_steps - lasted)
        )  # so nothing struck is new at the end
        may = may | (self.ending & (lasted >= self.min_steps) & ~on.any(dim=1, keepdim=True))
        late = on & (self._ages(whole) >= self.max_note_steps)  # (r pitches)
        may = torch.where(late.any(dim=1, keepdim=True), (self.kind == OFF) & late[:, self.pitch], may)
        return torch.where(struck, self.kind == VELOCITY, may)

    def _ages(self, whole: Tensor) -> Tensor:
        """(r t) -> (r pitches): steps since each pitch was struck last."""
        time = self.length[whole].cumsum(dim=1)
        struck = torch.where(self.kind[whole] == ON, time, 0)
        last = torch.zeros(len(whole), int(self.pitch.max()) + 1, dtype=torch.long)
        last = last.scatter_reduce(1, self.pitch[whole], struck, "amax")
        return time[:, -1:] - last if whole.shape[1] else last
