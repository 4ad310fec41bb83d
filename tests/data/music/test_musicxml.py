"""MusicXML: the notes equal those of music21; invalid scores give a one-line error message."""

import importlib.util
import io
import warnings
import zipfile
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data.music import musicxml
from regard.data.music.metre import Metre

SCORE = """<score-partwise><part id="P1">
<measure number="1"><attributes><divisions>2</divisions></attributes>{}</measure>
<measure number="2">{}</measure></part></score-partwise>"""


def note(step: str, length: int, extra: str = "", voice: int = 1) -> str:
    pitch = f"<pitch><step>{step}</step><octave>4</octave></pitch>" if step else "<rest/>"
    return f"<note>{extra}{pitch}<duration>{length}</duration><voice>{voice}</voice></note>"


def read(tmp_path, first_bar: str, second_bar: str = ""):
    path = tmp_path / "x.xml"
    path.write_text(SCORE.format(first_bar, second_bar))
    return [(n.pitch, n.start, n.end, n.voice) for n in musicxml.read(path).notes]


def test_rests_chords_and_bars(tmp_path):
    notes = read(tmp_path, note("C", 2) + note("E", 2, "<chord/>") + note("", 2) + note("G", 4), note("A", 8))
    assert notes == [(60, 0, 1, 0), (64, 0, 1, 0), (67, 2, 4, 0), (69, 4, 8, 0)]


def test_ties_are_one_note(tmp_path):
    notes = read(tmp_path, note("C", 8, '<tie type="start"/>'), note("C", 2, '<tie type="stop"/>') + note("C", 2))
    assert notes == [(60, 0, 5, 0), (60, 5, 6, 0)]


def test_two_voices_on_one_staff(tmp_path):
    backup = "<backup><duration>4</duration></backup>"
    notes = read(tmp_path, note("G", 4) + backup + note("C", 2, voice=2) + note("D", 2, voice=2))
    assert notes == [(60, 0, 1, 1), (67, 0, 2, 0), (62, 1, 2, 1)]


def test_ties_without_a_stop_are_one_note(tmp_path):
    """Files converted from Humdrum have such ties."""
    notes = read(tmp_path, note("C", 8, '<tie type="start"/>'), note("C", 2) + note("C", 2))
    assert notes == [(60, 0, 5, 0), (60, 5, 6, 0)]


def test_grace_notes_take_no_time(tmp_path):
    grace = "<note><grace/><pitch><step>B</step><octave>4</octave></pitch><voice>1</voice></note>"
    assert read(tmp_path, grace + note("C", 2) + note("E", 2)) == [(60, 0, 1, 0), (64, 1, 2, 0)]


def test_cue_notes_are_silent_and_take_their_time(tmp_path):
    """The notes after them start at the right time."""
    cues = note("D", 2, "<cue/>") + note("F", 2, "<cue/><chord/>")
    assert read(tmp_path, note("C", 2) + cues + note("E", 2)) == [(60, 0, 1, 0), (64, 2, 3, 0)]


def test_a_chord_starts_with_its_first_note_even_if_that_is_silent(tmp_path):
    notes = read(tmp_path, note("C", 2) + note("D", 2, "<cue/>") + note("E", 2, "<chord/>"))
    assert notes == [(60, 0, 1, 0), (64, 1, 2, 0)]


@pytest.mark.parametrize(
    ("transpose", "pitch"),
    [("<chromatic>-2</chromatic>", 58), ("<chromatic>0</chromatic><octave-change>-1</octave-change>", 48)],
)
def test_transposing_instruments(tmp_path, transpose, pitch):
    """A clarinet in B flat and a double bass, from the bar on that names the transposition."""
    later = f"<attributes><transpose>{transpose}</transpose></attributes>"
    notes = read(tmp_path, note("C", 8), later + note("C", 8))
    assert [sounding for sounding, *_ in notes] == [60, pitch]


PART = """<part id="{}"><measure number="1"{}><attributes><divisions>2</divisions>{}</attributes>{}</measure>
<measure number="2">{}</measure></part>"""


def second_bar_starts(tmp_path, *bars: str, attributes: str = "", metre: str = "") -> list[float]:
    """First bars of parts, each followed by one note -> the starts of these notes."""
    parts = [PART.format(i, attributes, metre, bar, note("C", 2)) for i, bar in enumerate(bars)]
    path = tmp_path / "x.xml"
    path.write_text(f"<score-partwise>{''.join(parts)}</score-partwise>")
    return [n.start for n in musicxml.read(path).notes if n.pitch == 60]


FOUR = "<time><beats>4</beats><beat-type>4</beat-type></time>"


def test_bars_of_all_parts_start_together_even_if_their_lengths_differ(tmp_path):
    assert second_bar_starts(tmp_path, note("D", 8), note("", 8) + note("", 8)) == [4, 4]  # rests beyond the bar
    assert second_bar_starts(tmp_path, note("D", 8), "") == [4, 4]
    assert second_bar_starts(tmp_path, note("D", 6), note("", 8), note("", 8)) == [4, 4, 4]  # the length of most parts
    assert second_bar_starts(tmp_path, note("", 6), note("", 6), note("", 8), metre=FOUR) == [4, 4, 4]
    assert second_bar_starts(tmp_path, "", "", metre=FOUR) == [4, 4]


def test_a_bar_is_never_shorter_than_its_notes_and_an_upbeat_stays_short(tmp_path):
    assert second_bar_starts(tmp_path, note("", 8), note("D", 10), metre=FOUR) == [5, 5]
    assert second_bar_starts(tmp_path, note("D", 2), note("", 2), metre=FOUR) == [1, 1]
    assert second_bar_starts(tmp_path, note("D", 2), note("", 8), metre=FOUR, attributes=' implicit="yes"') == [1, 1]


def test_metres_and_upbeats(tmp_path):
    """A short first bar gets a separate metre; a file without a tempo keeps its metre."""
    path = tmp_path / "x.xml"
    three = FOUR.replace("<beats>4", "<beats>3")
    for bar, metres in (
        (note("D", 2), (Metre(0, 1, 4), Metre(1, 3, 4))),
        (note("D", 3), (Metre(0, 3, 8), Metre(1.5, 3, 4))),
        (note("D", 6), (Metre(0, 3, 4),)),
    ):
        path.write_text(f"<score-partwise>{PART.format(1, '', three, bar, note('C', 2))}</score-partwise>")
        assert musicxml.read(path).timing == (None, metres)
    path.write_text(SCORE.format(f"<attributes>{three}</attributes>{note('C', 2)}", ""))  # too few bars for an upbeat
    path.write_text(path.read_text().replace('<measure number="2"></measure>', ""))
    assert musicxml.read(path).timing == (None, (Metre(0, 3, 4),))


@pytest.mark.parametrize("rest", ['number="3" implicit="yes"', 'number="2a"', 'number="X1"', 'number="2"'])
def test_bars_of_irregular_length(tmp_path, rest):
    """A bar split in two, as at a repeat, one that is too short, and the last, which is ignored."""
    lengths = {'number="1"': 6, 'number="2" ': 4, rest: 2, 'number="4"': 4, 'number="5"': 6, 'number="6"': 4}
    bars = [f"<measure {attributes}>{note('C', length)}</measure>" for attributes, length in lengths.items()]
    attributes = f"<attributes><divisions>2</divisions>{FOUR.replace('<beats>4', '<beats>3')}</attributes>"
    bars[0] = bars[0].replace("<note>", f"{attributes}<note>")
    path = tmp_path / "x.xml"
    path.write_text(f"<score-partwise><part>{''.join(bars)}</part></score-partwise>")
    timing = musicxml.read(path).timing
    assert timing.metres == (Metre(0, 3, 4), Metre(6, 2, 4), Metre(8, 3, 4))
    assert timing.bar_starts(13) == [0, 3, 6, 8, 11]


def test_a_tempo_from_a_metronome_element(tmp_path):
    path = tmp_path / "x.xml"
    for unit, tempo in (("quarter", 84), ("quarter</beat-unit><beat-unit-dot/><beat-unit>", 126), ("half", 168)):
        metronome = f"<metronome><beat-unit>{unit}</beat-unit><per-minute>84</per-minute></metronome>"
        path.write_text(SCORE.format(f"<direction>{metronome}</direction>{note('C', 2)}", ""))
        assert musicxml.read(path).timing.tempo == tempo
    path.write_text(path.read_text().replace("84", "about 84"))
    assert musicxml.read(path).timing.tempo is None


def test_the_notes_equal_those_of_music21():
    spec = importlib.util.find_spec("music21")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "corpus" / "bach"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of music21 about other libraries
        from music21 import converter

        for name in ("bwv269.mxl", "bwv10.7.mxl"):
            score = converter.parse(folder / name)
            expected = sorted(
                (float(n.getOffsetInHierarchy(score)), n.pitch.midi, voice)
                for voice, part in enumerate(score.parts)
                for n in part.flatten().notes
                if n.tie is None or n.tie.type == "start"
            )
            notes = sorted((n.start, n.pitch, n.voice) for n in musicxml.read(folder / name).notes)
            assert notes == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x.xml: not MusicXML, or damaged \(no element found.*\); export it again$"),
        ("<score-timewise/>", r"x.xml: its root is <score-timewise>; only <score-partwise> is read: export it part by"),
        ("<score-partwise/>", r"x.xml: contains no notes; give a score with notes$"),
    ],
)
def test_invalid_scores(tmp_path, text, message):
    path = tmp_path / "x.xml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        musicxml.read(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"gone.mxl: cannot be read: No such file or directory$"):
        musicxml.read(tmp_path / "gone.mxl")


def assert_refused(
    tmp_path, message, *, divisions: str = "2", notes: str = "", name: str = "x.xml", data: bytes | None = None
):
    path = tmp_path / name
    path.write_bytes(data if data is not None else SCORE.format(notes, "").replace(">2<", f">{divisions}<").encode())
    with pytest.raises(DataError, match=message):
        musicxml.read(path)


@pytest.mark.parametrize("divisions", ["0", "-1", "nan", "1e999"])
def test_invalid_divisions_are_refused(tmp_path, divisions):
    message = rf"x\.xml: its <divisions> of a quarter are '{divisions}', which is not a length; export it again$"
    assert_refused(tmp_path, message, divisions=divisions, notes=note("C", 2))


def test_invalid_notes_are_refused(tmp_path):
    message = r"x\.xml: a note has the step 'H', which is not one of C, D, E, F, G, A, B; export it again$"
    assert_refused(tmp_path, message, notes=note("H", 2))
    message = r"x\.xml: it lasts more than 100,000 quarters and is damaged; export it again$"
    assert_refused(tmp_path, message, notes=note("C", 10**9))
    message = r"x\.xml: a note has the voice 'soprano', which is not a number; export it again$"
    assert_refused(tmp_path, message, notes=note("C", 2, voice="soprano"))
    broken = note("C", 2).replace("<octave>4", "<octave>four")
    assert_refused(tmp_path, r"x\.xml: not MusicXML, or damaged \(.*four.*\); export it again$", notes=broken)


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(musicxml, "MAX_SCORE_BYTES", 2**20)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("score.xml", b" " * 2**22)
    assert len(packed.getvalue()) < 2**14
    message = r"x\.mxl: it has more than 1 MB unpacked, too large for a score; export it again$"
    assert_refused(tmp_path, message, name="x.mxl", data=packed.getvalue())
    broken = bytearray(packed.getvalue())
    broken[39:60] = b"\xff" * 21  # the first bytes after the name
    assert_refused(tmp_path, r"x\.mxl: not MusicXML, or damaged", name="x.mxl", data=bytes(broken))
