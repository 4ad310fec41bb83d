"""MusicXML reader (`.mxl`, `.xml`, `.musicxml`): pitches, durations, voices, metres and tempo, in quarters."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from regard.core.errors import DataError
from regard.data.music.metre import ATOL_QUARTERS, Metre, infer_metre, validate_timing
from regard.data.music.notes import Note, ParsedNotes

STEPS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
BEATS = {"whole": 4.0, "half": 2.0, "eighth": 0.5, "16th": 0.25}  # quarters of beat units other than the quarter
SUFFIXES = (".mxl", ".xml", ".musicxml")
MAX_SCORE_BYTES = 32 * 2**20  # of an unpacked score: the largest symphonies have less
MAX_QUARTERS = 100_000  # a longer score is damaged
PARSE_ERRORS = (  # exceptions that invalid files can cause
    *(ElementTree.ParseError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(LookupError, ValueError, ArithmeticError, StopIteration, TypeError),
)


def read(path: Path) -> ParsedNotes:
    """Read the notes of a score; every voice of every part is a voice, in the order of the score."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCORE_BYTES + 1)
        root = ElementTree.fromstring(_check_size(_unzip(data) if zipfile.is_zipfile(BytesIO(data)) else data))
        bars_by_part = [_read_bars(part) for part in root.findall("part")]
        starts, metres = _bar_starts(root, bars_by_part)
        parts = [_part_notes(bars, starts) for bars in bars_by_part]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except DataError as error:
        raise DataError(f"{path}: {error}; export it again") from None
    except PARSE_ERRORS as error:
        raise DataError(f"{path}: not MusicXML, or damaged ({error}); export it again") from None
    if root.tag != "score-partwise":
        raise DataError(f"{path}: its root is <{root.tag}>; only <score-partwise> is read: export it part by part")
    keys = [(i, voice) for i, part in enumerate(parts) for voice in sorted({note.voice for note in part})]
    notes = [note._replace(voice=keys.index((i, note.voice))) for i, part in enumerate(parts) for note in part]
    if not notes:
        raise DataError(f"{path}: contains no notes; give a score with notes")
    part_names = [part.findtext("part-name", "") for part in root.findall("part-list/score-part")]
    names = tuple(part_names[i] if i < len(part_names) else "" for i, _ in keys)
    return ParsedNotes(sorted(notes), timing=validate_timing(_tempo(root), metres), voice_names=names)


def _tempo(root: Element) -> float | None:
    """Return the first tempo of a score in quarters per minute: from <sound>, else from <metronome>."""
    for sound in root.iter("sound"):
        if sound.get("tempo"):
            return _parse_positive(sound.get("tempo", ""))
    metronome = next(root.iter("metronome"), None)
    tempo = None if metronome is None else _parse_positive(metronome.findtext("per-minute", ""))
    if metronome is None or tempo is None:
        return None
    dot_factor = 1.0 if metronome.find("beat-unit-dot") is None else 1.5
    return tempo * dot_factor * BEATS.get(metronome.findtext("beat-unit", "").strip(), 1.0)


def _metre(measure: Element, start: float) -> Metre | None:
    """Return the first metre of a bar; 3+2 is 5."""
    time = next(measure.iter("time"), None)
    if time is None:
        return None
    beats = [_parse_positive(part) or 0.0 for part in time.findtext("beats", "").split("+")]
    unit = _parse_positive(time.findtext("beat-type", ""))
    return None if unit is None or not all(beats) else Metre(start, int(sum(beats)), int(unit))


def _parse_positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < MAX_QUARTERS else None


def _unzip(data: bytes) -> bytes:
    """Return the score in a compressed file: the first document that is not the list of contents."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        names = (name for name in archive.namelist() if name.endswith((".xml", ".musicxml")))
        with archive.open(next(name for name in names if not name.startswith("META-INF"))) as score:
            return score.read(MAX_SCORE_BYTES + 1)


def _check_size(data: bytes) -> bytes:
    """Return the score unchanged; it is an error if it is too large."""
    if len(data) > MAX_SCORE_BYTES:
        raise DataError(f"it has more than {MAX_SCORE_BYTES // 2**20} MB unpacked, too large for a score")
    return data


class _BarNote(NamedTuple):
    """A note relative to the start of its bar, and whether it is tied to the previous and to the next note."""

    note: Note
    tied_to_previous: bool
    tied_to_next: bool


class _Bar(NamedTuple):
    """A bar of one part; times in quarters from its start."""

    notes: list[_BarNote]
    length: float

    @property
    def last_end(self) -> float:
        """End of its last note."""
        return max((item.note.end for item in self.notes), default=0.0)


class _Cursor(NamedTuple):
    """Reading position within a bar: times in quarters from its start."""

    now: float = 0.0
    furthest: float = 0.0  # the latest time of the bar so far
    last_start: float = 0.0  # start of the last note, which the other notes of its chord share
    divisions: float = 1.0  # per quarter
    transposition: int = 0  # semitones from the written to the sounding pitch


def _read_bars(part: Element) -> list[_Bar]:
    bars: list[_Bar] = []
    cursor = _Cursor()
    for measure in part.findall("measure"):
        notes: list[_BarNote] = []
        cursor = cursor._replace(now=0.0, furthest=0.0, last_start=0.0)
        for element in measure:
            cursor = _advance(element, cursor, notes)
        bars.append(_Bar(notes, cursor.furthest))
    return bars


def _bar_starts(root: Element, parts: list[list[_Bar]]) -> tuple[list[float], list[Metre]]:
    """Return the start of each bar, common to all parts, and the metres.

    Parts may disagree on the length of a bar. The length of the metre is used if a part has it, else the length of
    most parts, and never less than the notes need.
    """
    starts, bar_starts, metres, last_number = [0.0], list[float](), list[Metre](), ""
    for measures, bars in zip(
        zip_longest(*(part.findall("measure") for part in root.findall("part"))), zip_longest(*parts), strict=True
    ):
        present = [measure for measure in measures if measure is not None]
        new_metres = (_metre(measure, starts[-1]) for measure in present)
        metres += [metre for metre in new_metres if metre is not None][:1]
        implicit = any(measure.get("implicit") == "yes" for measure in present)
        bar_number = present[0].get("number", "")
        continues = implicit or _continues_bar(bar_number, last_number)
        bar_starts += [starts[-1]] if not bar_starts or not continues else []
        last_number = bar_number
        metre_length = 0.0 if implicit or not metres else metres[-1].bar_quarters
        starts.append(starts[-1] + _bar_length([bar for bar in bars if bar is not None], metre_length))
        if not starts[-1] < MAX_QUARTERS:
            raise DataError(f"it lasts more than {MAX_QUARTERS:,} quarters and is damaged")
    return starts, _with_irregular_bars(metres, bar_starts)


def _continues_bar(bar_number: str, last_number: str) -> bool:
    """Return True if a measure with this number is the rest of the previous bar: 4a after 4, X1, or 4 again."""
    return bool(bar_number) and (bar_number == last_number or not bar_number.isdecimal())


def _with_irregular_bars(metres: list[Metre], bar_starts: list[float]) -> list[Metre]:
    """Return a metre per bar. An upbeat, and any bar except the last that is shorter or longer than its metre, has a
    separate metre."""
    result, upcoming, current = list[Metre](), list(metres), Metre()
    for start, end in zip_longest(bar_starts, bar_starts[1:]):
        while upcoming and upcoming[0].start <= start:
            current = upcoming.pop(0)
        regular = end is None or abs(end - start - current.bar_quarters) < ATOL_QUARTERS
        irregular = None if regular else infer_metre(end - start)
        result.append((irregular if irregular and metres else current)._replace(start=start))
    return result


def _bar_length(bars: list[_Bar], metre_length: float) -> float:
    """Return the length of a bar in quarters from the lengths in all parts."""
    last_end = max(bar.last_end for bar in bars)
    counts = Counter(round(bar.length, 6) for bar in bars if bar.length > 0 and bar.length >= last_end)
    return min(counts, key=lambda length: (length != metre_length, -counts[length], length), default=metre_length)


def _part_notes(bars: list[_Bar], starts: list[float]) -> list[Note]:
    """The bars of a part -> its notes from the start of the piece; tied notes are joined."""
    notes: list[Note] = []
    last: dict[tuple[int, int], tuple[int, bool]] = {}  # (voice, pitch): index of the latest note, and whether tied
    for bar, start in zip(bars, starts, strict=False):
        for item in bar.notes:
            note = item.note._replace(start=start + item.note.start, end=start + item.note.end)
            previous, tied = last.get((note.voice, note.pitch), (-1, False))
            if (item.tied_to_previous or tied) and previous >= 0 and abs(notes[previous].end - note.start) < 1e-4:
                notes[previous] = notes[previous]._replace(end=note.end)
            else:
                previous = len(notes)
                notes.append(note)
            last[note.voice, note.pitch] = previous, item.tied_to_next
    return notes


def _advance(element: Element, cursor: _Cursor, notes: list[_BarNote]) -> _Cursor:
    """Process the next element of a bar: append its note to `notes` and return the new position."""
    if element.tag == "attributes":
        divisions = element.findtext("divisions")
        cursor = cursor if divisions is None else cursor._replace(divisions=_parse_divisions(divisions))
        transpose = element.find("transpose")
        return cursor if transpose is None else cursor._replace(transposition=_parse_transposition(transpose))
    if element.tag not in ("note", "backup", "forward"):
        return cursor
    length = float(element.findtext("duration", "0")) / cursor.divisions  # 0 for a grace note
    if element.tag == "backup":
        return cursor._replace(now=max(0.0, cursor.now - length))
    if not cursor.now + length < MAX_QUARTERS:
        raise DataError(f"it lasts more than {MAX_QUARTERS:,} quarters and is damaged")
    start = cursor.last_start if element.find("chord") is not None else cursor.now
    if element.tag == "note":
        cursor = cursor._replace(last_start=start)
        if length > 0 and element.find("pitch") is not None and element.find("cue") is None:
            voice, ties = (
                _parse_voice(element.findtext("voice", "1")),
                {tie.get("type") for tie in element.findall("tie")},
            )
            note = Note(start, start + length, _parse_pitch(element) + cursor.transposition, voice=voice)
            notes.append(_BarNote(note, tied_to_previous="stop" in ties, tied_to_next="start" in ties))
    now = max(cursor.now, start + length)
    return cursor._replace(now=now, furthest=max(cursor.furthest, now))


def _parse_transposition(transpose: Element) -> int:
    """Return the semitones from the written to the sounding pitch: a clarinet in B flat sounds 2 lower."""
    chromatic, octaves = (float(transpose.findtext(name, "0")) for name in ("chromatic", "octave-change"))
    return round(chromatic + 12 * octaves)


def _parse_divisions(text: str) -> float:
    """Return the divisions of a quarter."""
    divisions = float(text)
    if not 0 < divisions < MAX_QUARTERS:
        raise DataError(f"its <divisions> of a quarter are {text!r}, which is not a length")
    return divisions


def _parse_voice(text: str) -> int:
    if not text.strip().isdecimal():
        raise DataError(f"a note has the voice {text.strip()[:40]!r}, which is not a number")
    return int(text)


def _parse_pitch(note: Element) -> int:
    step, octave = note.findtext("pitch/step", "C").strip(), int(note.findtext("pitch/octave", "4"))
    if step not in STEPS:
        raise DataError(f"a note has the step {step!r}, which is not one of {', '.join(STEPS)}")
    return 12 * (octave + 1) + STEPS[step] + round(float(note.findtext("pitch/alter", "0")))
