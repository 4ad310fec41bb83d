"""Protocol of music encodings: content (a grid of voices, or a list of notes) to tokens and back."""

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
    """A parsed file: its content for an encoding, remarks, and the details that the encoding does not represent."""

    content: Any
    remarks: tuple[str, ...] = ()  # of the file reader
    parsed: ParsedNotes = ParsedNotes([])  # the original notes, in quarters or in seconds, and their timing
    onsets: NDArray[np.bool_] | None = None  # (steps voices) True where a note starts, including repeated notes
    loss_remarks: tuple[str, ...] = ()  # on notes that the encoding cannot represent
    num_lost: int = 0  # notes of the file that are not in the content


class PianoRollPoint(NamedTuple):
    """A point on a piano roll."""

    seconds: float
    pitch: int


class Encoding(Protocol):
    """Converts music to tokens and back. Tokens below 4 are special (pad, unk, bos, eos) and never encode content."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Vocabulary size, including special tokens."""

    @property
    def tokens_per_bar(self) -> int:
        """Tokens of a bar; crops start at multiples of it. 1 if the encoding has no bars."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one time step: a note of each voice. 0 if the encoding has no steps."""

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices in files."""

    @property
    def timing(self) -> Timing:
        """Tempo and metres, in files and in audio."""

    @property
    def program(self) -> int:
        """General MIDI program of the voices in files."""

    @property
    def default_seconds(self) -> float:
        """Default maximum length of a generated piece, in seconds."""

    def with_timing(self, timing: Timing) -> Encoding:
        """Return this encoding with the timing of a piece; a missing tempo keeps the encoding's tempo."""

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        """Read a MIDI or MusicXML file, or the bytes of a MIDI file."""

    def encode(self, content: Any) -> TokenArray:
        """Content -> tokens (n)."""

    def decode(self, tokens: TokenArray) -> Any:
        """Tokens that the grammar allows, complete or truncated -> content."""

    def notes(self, content: Any) -> list[Note]:
        """Content -> notes in seconds."""

    def crop_start(self, content: Any, seconds: float) -> Any:
        """Return the first seconds of a piece; it is an error if they are silent."""

    def transpose(self, tokens: TokenArray, semitones: int) -> TokenArray:
        """Transpose a piece within the limits of `transpose_range`."""

    def transpose_range(self, tokens: TokenArray) -> tuple[int, int]:
        """Return the lowest (negative or 0) and the highest shift, in semitones, that keep a piece in range."""

    def grammar(self, prefix: TokenArray, *, seconds: float, min_seconds: float) -> Grammar:
        """Return the grammar of a continuation of `prefix` that may end after `min_seconds` and must end after
        `seconds`."""

    def max_tokens(self, seconds: float) -> int:
        """Return the maximum number of tokens for a duration."""

    def label(self, token: int, position: int) -> str:
        """Return a readable name of the token at a position of a piece: 'S C5', 'on C4', '+120 ms'."""

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        """Return the point of each token on a piano roll; None for tokens that are not notes."""

    def settings(self) -> dict[str, Any]:
        """Return JSON values from which the same encoding can be built."""
