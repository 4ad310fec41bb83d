"""MIDI: what is written is read back, in seconds and in beats; what is wrong with a file is said in one line."""

import pytest
import symusic

from regard.core.errors import DataError, MissingExtra
from regard.core.extras import require
from regard.data.music import midi
from regard.data.music.metre import Metre
from regard.data.music.notes import Note

HEADER = b"MThd\0\0\0\6\0\1\0\1\1\xe0"
SILENT = HEADER + b"MTrk\0\0\0\4\0\xff\x2f\0"


def close(found, expected):
    assert [n.pitch for n in found] == [n.pitch for n in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.start, one.end) == pytest.approx((other.start, other.end), abs=2e-3)


def test_written_notes_are_read_back(write, scale):
    close(midi.read(write(scale, tempo=97.0), "second").notes, scale)


def test_voices_are_tracks(write, scale):
    notes = [note._replace(voice=i % 4) for i, note in enumerate(scale)]
    assert [note.voice for note in midi.read(write(notes), "second").notes] == [0, 1, 2, 3] * 2


def test_tempo_changes_are_heard_in_seconds_and_not_in_beats():
    score = symusic.Score(480)
    score.tempos.extend([symusic.Tempo(0, 120), symusic.Tempo(480, 60)])
    track = symusic.Track()
    track.notes.extend([symusic.Note(480 * i, 480, 60 + i, 80) for i in range(3)])
    score.tracks.append(track)
    data = score.dumps_midi()
    seconds, quarters = (midi.parse(data, unit, where="x.mid") for unit in ("second", "quarter"))
    assert [note.start for note in seconds.notes] == pytest.approx([0, 0.5, 1.5], abs=1e-3)
    assert [note.start for note in quarters.notes] == [0, 1, 2]
    assert seconds.remarks == ("x.mid: 2 tempo marks; times are read in seconds, as played",)
    assert quarters.remarks == ("x.mid: 2 tempo marks; times are read in beats, the first tempo is kept",)


def test_the_pedal_of_a_file_is_folded_in():
    score = symusic.Score(480)
    score.tempos.append(symusic.Tempo(0, 120))
    track = symusic.Track()
    track.notes.append(symusic.Note(0, 240, 60, 80))
    track.controls.extend([symusic.ControlChange(100, 64, 127), symusic.ControlChange(960, 64, 0)])
    track.pedals.append(symusic.Pedal(100, 860))
    score.tracks.append(track)
    (note,) = midi.parse(score.dumps_midi(), "second", where="x.mid").notes
    assert note.end == pytest.approx(1.0, abs=1e-3)


def test_overlapping_notes_are_mended_and_told(write):
    read = midi.read(write([Note(0, 2, 60), Note(1, 3, 60)]), "second")
    assert all(a.end <= b.start + 1e-6 for a, b in zip(read.notes, read.notes[1:], strict=False))


def test_drums_are_no_notes():
    score = symusic.Score(480)
    track = symusic.Track(is_drum=True)
    track.notes.append(symusic.Note(0, 480, 36, 80))
    score.tracks.append(track)
    with pytest.raises(DataError, match=r"^x.mid: there are no notes in it \(drums do not count\); give a file with"):
        midi.parse(score.dumps_midi(), "second", where="x.mid")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"^x.mid: the file is empty; export it again as MIDI$"),
        (b"not music at all", r"^x.mid: not a MIDI file, or a broken one \(.*MThd.*\); export it again$"),
        (HEADER[:9], r"^x.mid: not a MIDI file, or a broken one \(.*\); export it again$"),
        (HEADER, r"^x.mid: there are no notes in it"),
        (SILENT, r"^x.mid: there are no notes in it"),
    ],
)
def test_broken_files(data, message):
    with pytest.raises(DataError, match=message):
        midi.parse(data, "second", where="x.mid")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"gone.mid: cannot be read: No such file or directory$"):
        midi.read(tmp_path / "gone.mid", "second")


def test_a_note_that_never_ends(write):
    damaged = "a note lasts beyond a day or has no time, the file is damaged; export it again$"
    with pytest.raises(DataError, match=f"piece.mid: {damaged}"):
        midi.read(write([Note(0, 200_000, 60)]), "second")


def test_a_beat_without_ticks():
    track = bytes([0, 0x90, 60, 64, 0, 0x80, 60, 0, 0, 0xFF, 0x2F, 0])
    header = b"MThd" + bytes([0, 0, 0, 6, 0, 0, 0, 1, 0, 0])  # one track, division 0
    with pytest.raises(DataError, match=r"^x: a note lasts beyond a day or has no time"):
        midi.parse(header + b"MTrk" + len(track).to_bytes(4, "big") + track, "quarter", where="x")


def test_nothing_to_write():
    with pytest.raises(DataError, match=r"^there are no notes to write; let the piece be longer$"):
        midi.render([])


def test_without_the_extra_one_line_says_what_to_install():
    with pytest.raises(MissingExtra, match=r"^symusik is not installed; run: pip install 'regard\[music\]'$"):
        require("symusik", extra="music")


def test_metres_are_read_back(write, scale):
    """Notation programs write an upbeat as a bar of its own: 1/4, then 4/4."""
    for metres, upbeat in (
        ((Metre(0, 1, 4), Metre(1, 4, 4)), 1.0),
        ((Metre(0, 3, 8), Metre(1.5, 6, 8), Metre(7.5, 2, 4)), 1.5),
        ((Metre(0, 3, 4), Metre(6, 4, 4)), 0.0),  # two bars are no upbeat
        ((Metre(0, 4, 4), Metre(4, 3, 4)), 0.0),  # nor is one that is longer than those that follow
        ((Metre(0, 3, 4),), 0.0),
    ):
        pace = midi.read(write(scale, metres=metres), "quarter").timing
        assert (pace.metres, pace.upbeat) == (metres, upbeat)


def test_seconds_at_several_tempos_have_one_metre():
    """Performances are written at one tempo, where the bars of the file do not begin at any beat."""
    score = symusic.Score(480)
    score.tempos.extend([symusic.Tempo(0, 120), symusic.Tempo(480, 60)])
    score.time_signatures.extend([symusic.TimeSignature(*sign) for sign in ((0, 1, 4), (480, 3, 4), (1920, 2, 4))])
    track = symusic.Track()
    track.notes.append(symusic.Note(0, 4800, 60, 80))
    score.tracks.append(track)
    assert midi.parse(score.dumps_midi(), "second", where="x.mid").timing == (120, (Metre(0, 3, 4),))
