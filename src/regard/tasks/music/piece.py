"""A new piece as an object: its notes, its files, its sound in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from regard.core.task import Prediction
from regard.data.music import midi, piano_roll, synth
from regard.data.music.encoding import Encoding
from regard.data.music.notes import Note
from regard.tasks.music.generate import Composition


@dataclass(frozen=True)
class PiecePrediction(Prediction):
    """A piece: `notes`, `save("x.mid")`, and in a notebook `play()`; `value` is what the model made."""

    @property
    def notes(self) -> list[Note]:
        """Its notes in seconds, in order of time."""
        notes: list[Note] = self.value.notes
        return notes

    def play(self) -> Player:
        """Its sound; a notebook shows a player for it."""
        return Player(self.render(".wav"))

    def _repr_html_(self) -> str:
        return f"<p>{self.text}</p>{self.play()._repr_html_()}"


class Player:
    """A sound (the bytes of a WAV file) that shows itself in a notebook as something to press."""

    def __init__(self, wave: bytes) -> None:
        self.wave = wave

    def __repr__(self) -> str:
        return f"Player({len(self.wave):,} bytes of sound)"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.wave).decode()
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio>'


def to_prediction(piece: Composition, encoding: Encoding, *, title: str, remarks: tuple[str, ...]) -> PiecePrediction:
    """A piece -> how long it is, and what makes files of it: MIDI, sound, a picture, a drawing for a terminal."""
    notes, given = piece.notes, piece.prompt_seconds
    last = max((note.end for note in notes), default=0.0)
    text = f"{last:.1f} s, {len(notes)} notes, {len(piece.tokens)} tokens, log p {piece.score:.1f}"
    rendered: dict[str, Callable[[], bytes]] = {
        ".mid": lambda: to_midi(notes, encoding),
        ".wav": lambda: synth.render(notes),
        ".png": lambda: piano_roll.render(notes, title=title, names=encoding.voices, prompt_seconds=given),
        ".txt": lambda: piano_roll.render_text(notes, prompt_seconds=given).encode(),
    }
    return PiecePrediction(text, piece.score, piece.rank, value=piece, files=rendered, remarks=remarks)


def to_midi(notes: list[Note], encoding: Encoding) -> bytes:
    """Notes in seconds -> a MIDI file at the pace, with the voices and the instrument of an encoding."""
    tempo, metres = encoding.timing
    return midi.render(notes, tempo=tempo, metres=metres, names=encoding.voices, program=encoding.program)
