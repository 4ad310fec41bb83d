"""MusicXML (`.mxl`, `.xml`, `.musicxml`) to notes in quarters: as much of it as pitches and durations need."""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from regard.core.errors import DataError
from regard.data.music.notes import Note, Reading, pace_of

STEPS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
SUFFIXES = (".mxl", ".xml", ".musicxml")
LARGEST = 32 * 2**20  # bytes of a score, unpacked: the largest symphonies have less
LONGEST = 100_000  # quarters: a score that claims more is damaged
BROKEN = (  # what can go wrong in a file that somebody else wrote
    *(ElementTree.ParseError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(LookupError, ValueError, ArithmeticError, StopIteration, TypeError),
)


def read(path: Path) -> Reading:
    """A score -> its notes; every voice of every part is a voice, in the order of the page."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        root = ElementTree.fromstring(_bounded(_inside(data) if zipfile.is_zipfile(BytesIO(data)) else data))
        parts = [_part(part) for part in root.findall("part")]
    except OSError as wrong:
        raise DataError(f"{path}: cannot be read: {wrong.strerror}") from None
    except DataError as wrong:
        raise DataError(f"{path}: {wrong}; export it again") from None
    except BROKEN as wrong:
        raise DataError(f"{path}: not MusicXML, or a broken file ({wrong}); export it again") from None
    if root.tag != "score-partwise":
        raise DataError(f"{path}: its root is <{root.tag}>; only <score-partwise> is read: export it part by part")
    keys = [(i, voice) for i, part in enumerate(parts) for voice in sorted({note.voice for note in part})]
    notes = [note._replace(voice=keys.index((i, note.voice))) for i, part in enumerate(parts) for note in part]
    if not notes:
        raise DataError(f"{path}: there are no notes in it; give a score with notes")
    listed = [part.findtext("part-name", "") for part in root.findall("part-list/score-part")]
    names = tuple(listed[i] if i < len(listed) else "" for i, _ in keys)
    return Reading(sorted(notes), pace=pace_of(_tempo(root), _metre(root)), names=names)


def _tempo(root: Element) -> float | None:
    """The first tempo of a score, in quarters a minute."""
    found = (sound.get("tempo") for sound in root.iter("sound"))
    return next((_number(text) for text in found if text), None)


def _metre(root: Element) -> tuple[int, int] | None:
    """The first metre of a score; 3+2 is 5."""
    time = next(root.iter("time"), None)
    if time is None:
        return None
    beats = [_number(part) for part in time.findtext("beats", "").split("+")]
    unit = _number(time.findtext("beat-type", ""))
    return None if None in (*beats, unit) else (int(sum(beats)), int(unit))  # type: ignore[arg-type]  # no None is left


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < LONGEST else None


def _inside(data: bytes) -> bytes:
    """The score in a compressed file: the first document that is not the list of contents."""
    with zipfile.ZipFile(BytesIO(data)) as packed:
        names = (name for name in packed.namelist() if name.endswith((".xml", ".musicxml")))
        with packed.open(next(name for name in names if not name.startswith("META-INF"))) as score:
            return score.read(LARGEST + 1)


def _bounded(data: bytes) -> bytes:
    """The score, unless it is larger than any score is."""
    if len(data) > LARGEST:
        raise DataError(f"it has more than {LARGEST // 2**20} MB, unpacked, and is no score")
    return data


class _Clock(NamedTuple):
    """Where a part is being read: times in quarters."""

    bar: float = 0.0  # where the bar begins
    now: float = 0.0
    far: float = 0.0  # the farthest place of the bar
    divisions: float = 1.0  # of a quarter


def _part(part: Element) -> list[Note]:
    notes: list[Note] = []
    clock = _Clock()
    for measure in part.findall("measure"):
        clock = clock._replace(bar=clock.far, now=clock.far)
        for element in measure:
            clock = _advance(element, clock, notes)
    return _tied(notes)


def _advance(element: Element, clock: _Clock, notes: list[Note]) -> _Clock:
    if element.tag == "attributes":
        divisions = element.findtext("divisions")
        return clock if divisions is None else clock._replace(divisions=_positive(divisions))
    if element.tag not in ("note", "backup", "forward") or element.find("cue") is not None:
        return clock
    length = float(element.findtext("duration", "0")) / clock.divisions  # a grace note has none
    if element.tag == "backup":
        return clock._replace(now=max(clock.bar, clock.now - length))
    start = clock.now
    if element.tag == "note":
        if element.find("chord") is not None and notes:
            start, length = notes[-1].start, max(length, 0.0)
        if length > 0 and element.find("pitch") is not None:
            voice = _voice(element.findtext("voice", "1"))
            tied = any(tie.get("type") == "stop" for tie in element.findall("tie"))
            notes.append(Note(start, start + length, _pitch(element), velocity=0 if tied else 80, voice=voice))
    now = max(clock.now, start + length)
    if not now < LONGEST:
        raise DataError(f"it lasts more than {LONGEST:,} quarters, and is damaged")
    return clock._replace(now=now, far=max(clock.far, now))


def _positive(text: str) -> float:
    """The divisions of a quarter."""
    divisions = float(text)
    if not 0 < divisions < LONGEST:
        raise DataError(f"its <divisions> of a quarter are {text!r}, which is no length")
    return divisions


def _voice(text: str) -> int:
    if not text.strip().isdecimal():
        raise DataError(f"a note has the voice {text.strip()[:40]!r}, which is no number")
    return int(text)


def _pitch(note: Element) -> int:
    step, octave = note.findtext("pitch/step", "C").strip(), int(note.findtext("pitch/octave", "4"))
    if step not in STEPS:
        raise DataError(f"a note has the step {step!r}, which is none of {', '.join(STEPS)}")
    return 12 * (octave + 1) + STEPS[step] + round(float(note.findtext("pitch/alter", "0")))


def _tied(notes: list[Note]) -> list[Note]:
    """Notes tied to the one before (velocity 0 until here) lengthen it."""
    kept: list[Note] = []
    last: dict[tuple[int, int], int] = {}
    for note in notes:
        before = last.get((note.voice, note.pitch))
        if note.velocity == 0 and before is not None and abs(kept[before].end - note.start) < 1e-6:
            kept[before] = kept[before]._replace(end=note.end)
            continue
        last[note.voice, note.pitch] = len(kept)
        kept.append(note._replace(velocity=80))
    return kept
