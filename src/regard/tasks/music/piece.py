"""Predictions of the music task: a piece with its notes, files and a player for notebooks."""

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
    """A generated piece: `notes`, `save("x.mid")`, and `play()` in a notebook; `value` is the Composition."""

    @property
    def notes(self) -> list[Note]:
        """The notes in seconds, in order of time."""
        notes: list[Note] = self.value.notes
        return notes

    def play(self) -> Player:
        """Return the sound, which a notebook displays as a player."""
        return Player(self.render(".wav"))

    def _repr_html_(self) -> str:
        return f"<p>{self.text}</p>{self.play()._repr_html_()}"


class Player:
    """A sound (the bytes of a WAV file) that a notebook displays as an audio player."""

    def __init__(self, wave: bytes) -> None:
        self.wave = wave

    def __repr__(self) -> str:
        return f"Player({len(self.wave):,} bytes of sound)"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.wave).decode()
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio>'


def to_prediction(piece: Composition, encoding: Encoding, *, title: str, remarks: tuple[str, ...]) -> PiecePrediction:
    """Return the prediction of a piece, with files: MIDI, sound, an image, and text for a terminal."""
    notes, prompt_seconds = piece.notes, piece.prompt_seconds
    duration = max((note.end for note in notes), default=0.0)
    text = f"{duration:.1f} s, {len(notes)} notes, {len(piece.tokens)} tokens, log p {piece.score:.1f}"
    rendered: dict[str, Callable[[], bytes]] = {
        ".mid": lambda: to_midi(notes, encoding),
        ".wav": lambda: synth.render(notes),
        ".png": lambda: piano_roll.render(notes, title=title, names=encoding.voices, prompt_seconds=prompt_seconds),
        ".txt": lambda: piano_roll.render_text(notes, prompt_seconds=prompt_seconds).encode(),
    }
    return PiecePrediction(text, piece.score, piece.rank, value=piece, files=rendered, remarks=remarks)


def to_midi(notes: list[Note], encoding: Encoding) -> bytes:
    """Notes in seconds -> a MIDI file with the tempo, metres, voices and instrument of an encoding."""
    tempo, metres = encoding.timing
    return midi.render(notes, tempo=tempo, metres=metres, names=encoding.voices, program=encoding.program)
