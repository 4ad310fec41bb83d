"""MIDI files by symusic: bytes to notes in seconds or quarters, and notes to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.music.metre import Metre, Timing, validate_timing
from regard.data.music.notes import Note, ParsedNotes, Pedal, resolve_overlaps, sustain

Unit = Literal["second", "quarter"]
TICKS_PER_QUARTER = 480  # a quarter note, in what we write
DEFAULT_TEMPO = 120.0  # quarters a minute of a file without a tempo, as the format says
MAX_FILE_BYTES = 16 * 2**20  # bytes of a file: an hour of piano has a tenth of it
MAX_SECONDS = 24 * 3600.0  # seconds: a file that claims more is damaged


def read(path: Path, unit: Unit) -> ParsedNotes:
    """A MIDI file -> its notes, the pedal folded into their lengths; drums are left out."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as wrong:
        raise DataError(f"{path}: cannot be read: {wrong.strerror}") from None
    return parse(data, unit, where=str(path))


def parse(data: bytes, unit: Unit, *, where: str) -> ParsedNotes:
    """The bytes of a MIDI file -> its notes. Each track is a voice."""
    symusic = require("symusic", extra="music")
    if not data:
        raise DataError(f"{where}: the file is empty; export it again as MIDI")
    if len(data) > MAX_FILE_BYTES:
        raise DataError(f"{where}: more than {MAX_FILE_BYTES // 2**20} MB, which no piece has as MIDI; export it again")
    try:
        score = symusic.Score.from_midi(data)
        changes, pace = len(score.tempos), _pace(score, unit)
        timed = score.to(unit)
    except (RuntimeError, ValueError) as wrong:
        raise DataError(f"{where}: not a MIDI file, or a broken one ({_first_line(wrong)}); export it again") from None
    tracks = [track for track in timed.tracks if not track.is_drum and len(track.notes)]
    if not tracks:
        raise DataError(f"{where}: there are no notes in it (drums do not count); give a file with a melody")
    notes, remarks = [], [f"{where}: {changes} tempo marks; {_TEMPO[unit]}"] if changes > 1 else []
    for voice, track in enumerate(tracks):
        read = resolve_overlaps([_note(note, voice) for note in track.notes], where)
        remarks += read.remarks
        notes += sustain(read.notes, [Pedal(pedal.time, pedal.time + pedal.duration) for pedal in track.pedals])
    if not all(note.end <= MAX_SECONDS for note in notes):  # not a number, where a beat has no ticks
        raise DataError(f"{where}: a note lasts beyond a day or has no time, the file is damaged; export it again")
    return ParsedNotes(sorted(notes), tuple(remarks), pace, tuple(track.name for track in tracks))


_TEMPO = {
    "second": "times are read in seconds, as played",
    "quarter": "times are read in beats, the first tempo is kept",
}


def _pace(score: Any, unit: Unit) -> Timing:
    """The first tempo, and the metres."""
    tempo = score.tempos[0].qpm if len(score.tempos) else DEFAULT_TEMPO
    quarter = max(1, score.tpq)
    signs = score.time_signatures
    pace = validate_timing(tempo, [Metre(sign.time / quarter, sign.numerator, sign.denominator) for sign in signs])
    if unit == "second" and len(score.tempos) > 1:  # seconds at one tempo have no bars: only what is counted is kept
        return pace._replace(metres=(pace.metres[1 if pace.upbeat else 0]._replace(start=0.0),))
    return pace


def _note(note: Any, voice: int) -> Note:
    return Note(note.time, note.time + max(note.duration, 0.0), note.pitch, max(1, note.velocity), voice)


def _first_line(wrong: Exception) -> str:
    return (str(wrong).splitlines() or [""])[0].removeprefix("MiniMidi: ").strip()


def render(
    notes: Sequence[Note],
    *,
    tempo: float | None = None,
    metres: Sequence[Metre] = (Metre(),),
    names: Sequence[str] = ("Piano",),
    program: int = 0,
) -> bytes:
    """Notes in seconds -> the bytes of a MIDI file at that tempo and metres, a track for each voice, all of which are
    played by the instrument of that number (General MIDI, counted from 0)."""
    symusic = require("symusic", extra="music")
    if not notes:
        raise DataError("there are no notes to write; let the piece be longer")
    score, tempo = symusic.Score(TICKS_PER_QUARTER), tempo or DEFAULT_TEMPO
    score.tempos.append(symusic.Tempo(0, tempo))
    for metre in metres:
        score.time_signatures.append(
            symusic.TimeSignature(round(metre.start * TICKS_PER_QUARTER), metre.beats, metre.unit)
        )
    rate = TICKS_PER_QUARTER * tempo / 60
    for voice in range(max(note.voice for note in notes) + 1):
        name = names[voice] if voice < len(names) else f"Voice {voice + 1}"
        track = symusic.Track(name=name, program=program)
        for note in notes:
            if note.voice == voice:
                start = round(note.start * rate)
                length = max(1, round(note.end * rate) - start)
                track.notes.append(symusic.Note(start, length, note.pitch, note.velocity))
        score.tracks.append(track)
    data: bytes = score.dumps_midi()
    return data
