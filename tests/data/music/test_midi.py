"""MIDI: round trips in seconds and in beats; damaged files give a one-line error message."""

from itertools import pairwise

import pytest
import symusic

from regard.core.errors import DataError, MissingExtra
from regard.core.extras import require
from regard.data.music import midi
from regard.data.music.metre import Metre
from regard.data.music.notes import Note

HEADER = b"MThd\0\0\0\6\0\1\0\1\1\xe0"
SILENT = HEADER + b"MTrk\0\0\0\4\0\xff\x2f\0"


def assert_close(notes, expected):
    assert [n.pitch for n in notes] == [n.pitch for n in expected]
    for a, b in zip(notes, expected, strict=True):
        assert (a.start, a.end) == pytest.approx((b.start, b.end), abs=2e-3)


def test_written_notes_are_read_back(write, scale):
    assert_close(midi.read(write(scale, tempo=97.0), "second").notes, scale)


def test_voices_are_tracks(write, scale):
    notes = [note._replace(voice=i % 4) for i, note in enumerate(scale)]
    assert [note.voice for note in midi.read(write(notes), "second").notes] == [0, 1, 2, 3] * 2


def test_tempo_changes_affect_seconds_and_not_beats():
    score = symusic.Score(480)
    score.tempos.extend([symusic.Tempo(0, 120), symusic.Tempo(480, 60)])
    track = symusic.Track()
    track.notes.extend([symusic.Note(480 * i, 480, 60 + i, 80) for i in range(3)])
    score.tracks.append(track)
    data = score.dumps_midi()
    seconds, quarters = (midi.parse(data, unit, where="x.mid") for unit in ("second", "quarter"))
    assert [note.start for note in seconds.notes] == pytest.approx([0, 0.5, 1.5], abs=1e-3)
    assert [note.start for note in quarters.notes] == [0, 1, 2]
    assert seconds.remarks == ("x.mid: 2 tempos; times are read in seconds, as played",)
    assert quarters.remarks == ("x.mid: 2 tempos; times are read in beats, the first tempo is used",)


def test_the_pedal_of_a_file_lengthens_notes():
    score = symusic.Score(480)
    score.tempos.append(symusic.Tempo(0, 120))
    track = symusic.Track()
    track.notes.append(symusic.Note(0, 240, 60, 80))
    track.controls.extend([symusic.ControlChange(100, 64, 127), symusic.ControlChange(960, 64, 0)])
    track.pedals.append(symusic.Pedal(100, 860))
    score.tracks.append(track)
    (note,) = midi.parse(score.dumps_midi(), "second", where="x.mid").notes
    assert note.end == pytest.approx(1.0, abs=1e-3)


def test_overlapping_notes_are_trimmed(write):
    notes = midi.read(write([Note(0, 2, 60), Note(1, 3, 60)]), "second").notes
    assert all(a.end <= b.start + 1e-6 for a, b in pairwise(notes))


def test_drums_are_ignored():
    score = symusic.Score(480)
    track = symusic.Track(is_drum=True)
    track.notes.append(symusic.Note(0, 480, 36, 80))
    score.tracks.append(track)
    with pytest.raises(DataError, match=r"^x.mid: contains no notes \(drums do not count\); give a file with"):
        midi.parse(score.dumps_midi(), "second", where="x.mid")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"^x.mid: the file is empty; export it again as MIDI$"),
        (b"not music at all", r"^x.mid: not a MIDI file, which starts with MThd; export it again as MIDI$"),
        (
            HEADER[:12] + b"\xe7\x28" + HEADER[14:],
            r"^x.mid: its times are SMPTE frames, not beats; export it with ticks per quarter$",
        ),
        (HEADER[:9], r"^x.mid: a damaged or truncated MIDI file of 9 bytes; export it again$"),
        (HEADER, r"^x.mid: contains no notes"),
        (SILENT, r"^x.mid: contains no notes"),
    ],
)
def test_damaged_files(data, message):
    with pytest.raises(DataError, match=message):
        midi.parse(data, "second", where="x.mid")


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"gone.mid: cannot be read: No such file or directory$"):
        midi.read(tmp_path / "gone.mid", "second")


def test_a_note_that_never_ends(write):
    message = "damaged, a note ends after more than a day or has no time; export it again$"
    with pytest.raises(DataError, match=f"piece.mid: {message}"):
        midi.read(write([Note(0, 200_000, 60)]), "second")


def test_a_beat_without_ticks():
    track = bytes([0, 0x90, 60, 64, 0, 0x80, 60, 0, 0, 0xFF, 0x2F, 0])
    header = b"MThd" + bytes([0, 0, 0, 6, 0, 0, 0, 1, 0, 0])  # one track, division 0
    with pytest.raises(DataError, match=r"^x: damaged, a note ends after more than a day or has no time"):
        midi.parse(header + b"MTrk" + len(track).to_bytes(4, "big") + track, "quarter", where="x")


def test_nothing_to_write():
    with pytest.raises(DataError, match=r"^there are no notes to write; generate a longer piece$"):
        midi.render([])


def test_a_missing_package_names_the_extra():
    with pytest.raises(MissingExtra, match=r"^symusik is not installed; run: pip install 'regard\[music\]'$"):
        require("symusik", extra="music")


def test_metres_are_read_back(write, scale):
    """Notation programs write an upbeat as a separate bar: 1/4, then 4/4."""
    for metres, upbeat in (
        ((Metre(0, 1, 4), Metre(1, 4, 4)), 1.0),
        ((Metre(0, 3, 8), Metre(1.5, 6, 8), Metre(7.5, 2, 4)), 1.5),
        ((Metre(0, 3, 4), Metre(6, 4, 4)), 0.0),  # two bars are not an upbeat
        ((Metre(0, 4, 4), Metre(4, 3, 4)), 0.0),  # nor is a bar that is longer than the following ones
        ((Metre(0, 3, 4),), 0.0),
    ):
        timing = midi.read(write(scale, metres=metres), "quarter").timing
        assert (timing.metres, timing.upbeat) == (metres, upbeat)


def test_seconds_at_several_tempos_have_one_metre():
    """Performances are written at one tempo, so the bars of the file do not start on beats."""
    score = symusic.Score(480)
    score.tempos.extend([symusic.Tempo(0, 120), symusic.Tempo(480, 60)])
    score.time_signatures.extend([symusic.TimeSignature(*sign) for sign in ((0, 1, 4), (480, 3, 4), (1920, 2, 4))])
    track = symusic.Track()
    track.notes.append(symusic.Note(0, 4800, 60, 80))
    score.tracks.append(track)
    assert midi.parse(score.dumps_midi(), "second", where="x.mid").timing == (120, (Metre(0, 3, 4),))
