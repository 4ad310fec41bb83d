"""Read and write MIDI files with symusic; times are in seconds or quarters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.music.metre import Metre, Timing, validate_timing
from regard.data.music.notes import Note, ParsedNotes, Pedal, resolve_overlaps, sustain

Unit = Literal["second", "quarter"]
TICKS_PER_QUARTER = 480  # of written files
DIVISION = 12  # byte whose highest bit is set if times are SMPTE frames
DEFAULT_TEMPO = 120.0  # quarters per minute of a file without a tempo, as the format specifies
MAGIC = b"MThd"  # the first bytes of a MIDI file
MAX_FILE_BYTES = 16 * 2**20  # an hour of piano music has a tenth of it
MAX_SECONDS = 24 * 3600.0  # a longer file is damaged


def read(path: Path, unit: Unit) -> ParsedNotes:
    """Read the notes of a MIDI file. Sustain pedals become longer notes; drums are ignored."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    return parse(data, unit, where=str(path))


def parse(data: bytes, unit: Unit, *, where: str) -> ParsedNotes:
    """Parse the notes from the bytes of a MIDI file. Each track is a voice."""
    symusic = require("symusic", extra="music")
    if not data:
        raise DataError(f"{where}: the file is empty; export it again as MIDI")
    if len(data) > MAX_FILE_BYTES:
        raise DataError(f"{where}: more than {MAX_FILE_BYTES // 2**20} MB, too large for a MIDI file; export it again")
    try:
        score = symusic.Score.from_midi(data)
        num_tempos, timing = len(score.tempos), _read_timing(score, unit)
        timed = score.to(unit)
    except (RuntimeError, ValueError):  # the texts of the library do not help its users
        if not data.startswith(MAGIC):
            raise DataError(f"{where}: not a MIDI file, which starts with MThd; export it again as MIDI") from None
        if len(data) > DIVISION and data[DIVISION] & 0x80:
            raise DataError(
                f"{where}: its times are SMPTE frames, not beats; export it with ticks per quarter"
            ) from None
        raise DataError(f"{where}: a damaged or truncated MIDI file of {len(data):,} bytes; export it again") from None
    tracks = [track for track in timed.tracks if not track.is_drum and len(track.notes)]
    if not tracks:
        raise DataError(f"{where}: contains no notes (drums do not count); give a file with a melody")
    notes, remarks = [], [f"{where}: {num_tempos} tempos; {_TEMPO_REMARKS[unit]}"] if num_tempos > 1 else []
    for voice, track in enumerate(tracks):
        resolved = resolve_overlaps([_to_note(note, voice) for note in track.notes], where)
        remarks += resolved.remarks
        notes += sustain(resolved.notes, [Pedal(pedal.time, pedal.time + pedal.duration) for pedal in track.pedals])
    if not all(note.end <= MAX_SECONDS for note in notes):  # NaN if a beat has no ticks
        raise DataError(f"{where}: damaged, a note ends after more than a day or has no time; export it again")
    return ParsedNotes(sorted(notes), tuple(remarks), timing, tuple(track.name for track in tracks))


_TEMPO_REMARKS = {
    "second": "times are read in seconds, as played",
    "quarter": "times are read in beats, the first tempo is used",
}


def _read_timing(score: Any, unit: Unit) -> Timing:
    """Return the first tempo, and the metres."""
    tempo = score.tempos[0].qpm if len(score.tempos) else DEFAULT_TEMPO
    ticks = max(1, score.tpq)  # per quarter
    metres = [Metre(sign.time / ticks, sign.numerator, sign.denominator) for sign in score.time_signatures]
    timing = validate_timing(tempo, metres)
    if unit == "second" and len(score.tempos) > 1:  # seconds at several tempos have no bars: keep one metre
        return timing._replace(metres=(timing.metres[1 if timing.upbeat else 0]._replace(start=0.0),))
    return timing


def _to_note(note: Any, voice: int) -> Note:
    return Note(note.time, note.time + max(note.duration, 0.0), note.pitch, max(1, note.velocity), voice)


def render(
    notes: Sequence[Note],
    *,
    tempo: float | None = None,
    metres: Sequence[Metre] = (Metre(),),
    names: Sequence[str] = ("Piano",),
    program: int = 0,
) -> bytes:
    """Notes in seconds -> the bytes of a MIDI file with this tempo and these metres, one track per voice.

    `program` is the General MIDI instrument of all tracks, counted from 0.
    """
    symusic = require("symusic", extra="music")
    if not notes:
        raise DataError("there are no notes to write; generate a longer piece")
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
