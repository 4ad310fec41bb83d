"""What an encoding of music is: content (a grid of voices, a list of notes) to tokens and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.core.protocols import Grammar
from regard.data.music.metre import Timing
from regard.data.music.notes import Note, ParsedNotes

TokenArray = NDArray[np.int64]


class LoadedPiece(NamedTuple):
    """A file: its content in an encoding's own form, what had to be mended, and what the encoding has no place for."""

    content: Any
    remarks: tuple[str, ...] = ()  # those of the reading included
    parsed: ParsedNotes = ParsedNotes([])  # its notes as they stand there, in quarters or in seconds, and its pace
    onsets: NDArray[np.bool_] | None = None  # (steps voices) where a note of the grid begins, though it may be repeated


class PianoRollPoint(NamedTuple):
    """A place on a piano roll."""

    seconds: float
    pitch: int


class Encoding(Protocol):
    """Tokens below 4 are marks (pad, unknown, start, end); content and its tokens never hold them."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Tokens of the vocabulary, marks included."""

    @property
    def tokens_per_bar(self) -> int:
        """Tokens of a bar; crops begin at multiples of it. 1 where the encoding has no bars."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one time step: a note of each voice. 0 where the encoding has no steps."""

    @property
    def voices(self) -> tuple[str, ...]:
        """What the voices are called in files."""

    @property
    def timing(self) -> Timing:
        """How fast a piece goes and how it is counted, in files and by the ear."""

    @property
    def program(self) -> int:
        """The instrument of its voices in files."""

    @property
    def default_seconds(self) -> float:
        """Seconds after which a piece ends at the latest, where nobody says otherwise."""

    def with_timing(self, timing: Timing) -> Encoding:
        """The same encoding at the pace of a piece; at its own tempo where that has none."""

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        """A MIDI or MusicXML file, or the bytes of a MIDI file -> content."""

    def encode(self, content: Any) -> TokenArray:
        """Content -> tokens (n)."""

    def decode(self, tokens: TokenArray) -> Any:
        """Any tokens that the grammar allows, whole or cut short -> content."""

    def notes(self, content: Any) -> list[Note]:
        """Content -> notes in seconds."""

    def crop_start(self, content: Any, seconds: float) -> Any:
        """The first seconds of a piece; an error where nothing sounds in them."""

    def transpose(self, tokens: TokenArray, semitones: int) -> TokenArray:
        """The piece transposed, within what `transposable` allows."""

    def transpose_range(self, tokens: TokenArray) -> tuple[int, int]:
        """The lowest (negative or 0) and the highest shift, in semitones, that keep a piece within the range."""

    def grammar(self, prefix: TokenArray, *, seconds: float, min_seconds: float) -> Grammar:
        """What may follow `before`, in a continuation that ends when it has lasted `seconds`, or by itself when it has
        lasted `least`."""

    def max_tokens(self, seconds: float) -> int:
        """The most tokens that so many seconds can take."""

    def label(self, token: int, position: int) -> str:
        """What people call the token at a place of a piece: 'S C5', 'on C4', '+120 ms'."""

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        """Where each token is on a piano roll; None for what is no note."""

    def settings(self) -> dict[str, Any]:
        """Plain values from which `load` makes the same encoding."""
