"""MusicXML (`.mxl`, `.xml`, `.musicxml`) to notes in quarters: as much of it as pitches and durations need."""

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
BEATS = {"whole": 4.0, "half": 2.0, "eighth": 0.5, "16th": 0.25}  # quarters of a printed beat that is none
SUFFIXES = (".mxl", ".xml", ".musicxml")
MAX_SCORE_BYTES = 32 * 2**20  # bytes of a score, unpacked: the largest symphonies have less
MAX_QUARTERS = 100_000  # quarters: a score that claims more is damaged
PARSE_ERRORS = (  # what can go wrong in a file that somebody else wrote
    *(ElementTree.ParseError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(LookupError, ValueError, ArithmeticError, StopIteration, TypeError),
)


def read(path: Path) -> ParsedNotes:
    """A score -> its notes; every voice of every part is a voice, in the order of the page."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCORE_BYTES + 1)
        root = ElementTree.fromstring(_bounded(_inside(data) if zipfile.is_zipfile(BytesIO(data)) else data))
        bars = [_bars(part) for part in root.findall("part")]
        starts, metres = _starts(root, bars)
        parts = [_part(several, starts) for several in bars]
    except OSError as wrong:
        raise DataError(f"{path}: cannot be read: {wrong.strerror}") from None
    except DataError as wrong:
        raise DataError(f"{path}: {wrong}; export it again") from None
    except PARSE_ERRORS as wrong:
        raise DataError(f"{path}: not MusicXML, or a broken file ({wrong}); export it again") from None
    if root.tag != "score-partwise":
        raise DataError(f"{path}: its root is <{root.tag}>; only <score-partwise> is read: export it part by part")
    keys = [(i, voice) for i, part in enumerate(parts) for voice in sorted({note.voice for note in part})]
    notes = [note._replace(voice=keys.index((i, note.voice))) for i, part in enumerate(parts) for note in part]
    if not notes:
        raise DataError(f"{path}: there are no notes in it; give a score with notes")
    listed = [part.findtext("part-name", "") for part in root.findall("part-list/score-part")]
    names = tuple(listed[i] if i < len(listed) else "" for i, _ in keys)
    return ParsedNotes(sorted(notes), timing=validate_timing(_tempo(root), metres), voice_names=names)


def _tempo(root: Element) -> float | None:
    """The first tempo of a score, in quarters a minute: as it sounds, else as it is printed."""
    for sound in root.iter("sound"):
        if sound.get("tempo"):
            return _number(sound.get("tempo", ""))
    mark = next(root.iter("metronome"), None)
    tempo = None if mark is None else _number(mark.findtext("per-minute", ""))
    if mark is None or tempo is None:
        return None
    dotted = 1.0 if mark.find("beat-unit-dot") is None else 1.5
    return tempo * dotted * BEATS.get(mark.findtext("beat-unit", "").strip(), 1.0)


def _metre(measure: Element, start: float) -> Metre | None:
    """The first metre that a bar tells; 3+2 is 5."""
    time = next(measure.iter("time"), None)
    if time is None:
        return None
    beats = [_number(part) or 0.0 for part in time.findtext("beats", "").split("+")]
    unit = _number(time.findtext("beat-type", ""))
    return None if unit is None or not all(beats) else Metre(start, int(sum(beats)), int(unit))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < MAX_QUARTERS else None


def _inside(data: bytes) -> bytes:
    """The score in a compressed file: the first document that is not the list of contents."""
    with zipfile.ZipFile(BytesIO(data)) as packed:
        names = (name for name in packed.namelist() if name.endswith((".xml", ".musicxml")))
        with packed.open(next(name for name in names if not name.startswith("META-INF"))) as score:
            return score.read(MAX_SCORE_BYTES + 1)


def _bounded(data: bytes) -> bytes:
    """The score, unless it is larger than any score is."""
    if len(data) > MAX_SCORE_BYTES:
        raise DataError(f"it has more than {MAX_SCORE_BYTES // 2**20} MB, unpacked, and is no score")
    return data


class _Read(NamedTuple):
    """A note from the beginning of its bar, and whether it is tied to the one before and to the one behind it."""

    note: Note
    behind: bool
    ahead: bool


class _Bar(NamedTuple):
    """A bar of one part; times in quarters from its beginning."""

    read: list[_Read]
    length: float

    @property
    def sounds(self) -> float:
        """Where its last note ends."""
        return max((each.note.end for each in self.read), default=0.0)


class _Clock(NamedTuple):
    """Where a bar is being read: times in quarters from its beginning."""

    now: float = 0.0
    far: float = 0.0  # the farthest place of the bar
    struck: float = 0.0  # where the last note began: the others of its chord do too
    divisions: float = 1.0  # of a quarter
    raised: int = 0  # semitones that the instrument sounds above what is written


def _bars(part: Element) -> list[_Bar]:
    bars: list[_Bar] = []
    clock = _Clock()
    for measure in part.findall("measure"):
        read: list[_Read] = []
        clock = clock._replace(now=0.0, far=0.0, struck=0.0)
        for element in measure:
            clock = _advance(element, clock, read)
        bars.append(_Bar(read, clock.far))
    return bars


def _starts(root: Element, parts: list[list[_Bar]]) -> tuple[list[float], list[Metre]]:
    """Where each bar begins, in all parts alike, though parts disagree on how long one is: as long as its metre where a
    part has it so, else as most parts have it, and never shorter than its notes. And the metres."""
    starts, begins, metres, last = [0.0], list[float](), list[Metre](), ""
    for measures, bars in zip(
        zip_longest(*(part.findall("measure") for part in root.findall("part"))), zip_longest(*parts), strict=True
    ):
        there = [measure for measure in measures if measure is not None]
        told = (_metre(measure, starts[-1]) for measure in there)
        metres += [metre for metre in told if metre is not None][:1]
        implicit = any(measure.get("implicit") == "yes" for measure in there)
        number = there[0].get("number", "")
        begins += [starts[-1]] if not begins or not (implicit or _goes_on(number, last)) else []
        last = number
        whole = 0.0 if implicit or not metres else metres[-1].bar_quarters
        starts.append(starts[-1] + _length([bar for bar in bars if bar is not None], whole))
        if not starts[-1] < MAX_QUARTERS:
            raise DataError(f"it lasts more than {MAX_QUARTERS:,} quarters, and is damaged")
    return starts, _with_odd_bars(metres, begins)


def _goes_on(number: str, last: str) -> bool:
    """Whether what has this number is the rest of the bar before: 4a behind 4, X1, or 4 once more."""
    return bool(number) and (number == last or not number.isdecimal())


def _with_odd_bars(metres: list[Metre], begins: list[float]) -> list[Metre]:
    """The metres of a score, and where its bars begin -> the same; an upbeat, and any bar but the last that is shorter
    or longer than its metre, has a metre of its own."""
    found, coming, now = list[Metre](), list(metres), Metre()
    for begin, end in zip_longest(begins, begins[1:]):
        while coming and coming[0].start <= begin:
            now = coming.pop(0)
        odd = None if end is None or abs(end - begin - now.bar_quarters) < ATOL_QUARTERS else infer_metre(end - begin)
        found.append((odd if odd and metres else now)._replace(start=begin))
    return found


def _length(bars: list[_Bar], metre: float) -> float:
    """How many quarters a bar lasts, of which the parts may say different things."""
    sounds = max(bar.sounds for bar in bars)
    said = Counter(round(bar.length, 6) for bar in bars if bar.length > 0 and bar.length >= sounds)
    return min(said, key=lambda length: (length != metre, -said[length], length), default=metre)


def _part(bars: list[_Bar], starts: list[float]) -> list[Note]:
    """The bars of a part -> its notes from the beginning of the piece; what is tied is one."""
    kept: list[Note] = []
    last: dict[tuple[int, int], tuple[int, bool]] = {}  # of each voice and pitch the latest note
    for bar, start in zip(bars, starts, strict=False):
        for each in bar.read:
            note = each.note._replace(start=start + each.note.start, end=start + each.note.end)
            before, ahead = last.get((note.voice, note.pitch), (-1, False))
            if (each.behind or ahead) and before >= 0 and abs(kept[before].end - note.start) < 1e-4:
                kept[before] = kept[before]._replace(end=note.end)
            else:
                before = len(kept)
                kept.append(note)
            last[note.voice, note.pitch] = before, each.ahead
    return kept


def _advance(element: Element, clock: _Clock, read: list[_Read]) -> _Clock:
    """What a bar goes on with -> where it is being read then; a note is added to those that were read."""
    if element.tag == "attributes":
        divisions = element.findtext("divisions")
        clock = clock if divisions is None else clock._replace(divisions=_positive(divisions))
        transpose = element.find("transpose")
        return clock if transpose is None else clock._replace(raised=_raised(transpose))
    if element.tag not in ("note", "backup", "forward"):
        return clock
    length = float(element.findtext("duration", "0")) / clock.divisions  # a grace note has none
    if element.tag == "backup":
        return clock._replace(now=max(0.0, clock.now - length))
    if not clock.now + length < MAX_QUARTERS:
        raise DataError(f"it lasts more than {MAX_QUARTERS:,} quarters, and is damaged")
    start = clock.struck if element.find("chord") is not None else clock.now
    if element.tag == "note":
        clock = clock._replace(struck=start)
        if length > 0 and element.find("pitch") is not None and element.find("cue") is None:
            voice, ties = _voice(element.findtext("voice", "1")), {tie.get("type") for tie in element.findall("tie")}
            note = Note(start, start + length, _pitch(element) + clock.raised, voice=voice)
            read.append(_Read(note, behind="stop" in ties, ahead="start" in ties))
    now = max(clock.now, start + length)
    return clock._replace(now=now, far=max(clock.far, now))


def _raised(transpose: Element) -> int:
    """The semitones from what is written for an instrument to what it sounds: a clarinet in B flat is 2 lower."""
    chromatic, octaves = (float(transpose.findtext(name, "0")) for name in ("chromatic", "octave-change"))
    return round(chromatic + 12 * octaves)


def _positive(text: str) -> float:
    """The divisions of a quarter."""
    divisions = float(text)
    if not 0 < divisions < MAX_QUARTERS:
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
