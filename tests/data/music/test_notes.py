"""The pedal lengthens notes, overlaps are cut, and notes out of range are reported."""

from regard.data.music.notes import Note, Pedal, filter_pitch_range, resolve_overlaps, sustain


def test_the_pedal_lengthens_notes():
    notes = [Note(0, 1, 60), Note(0.5, 4, 64), Note(3, 3.5, 67)]
    sustained = sustain(notes, [Pedal(0.8, 2.0), Pedal(5, 6)])
    assert [(note.pitch, note.end) for note in sustained] == [(60, 2.0), (64, 4), (67, 3.5)]


def test_a_note_repeated_under_the_pedal_is_not_doubled():
    sustained = sustain([Note(0, 0.5, 60), Note(1, 1.5, 60)], [Pedal(0, 3)])
    assert [(note.start, note.end) for note in sustained] == [(0, 1), (1, 3)]


def test_overlaps_are_cut_and_reported():
    resolved = resolve_overlaps(
        [Note(0, 3, 60), Note(1, 2, 60), Note(1, 4, 60), Note(0, 9, 62), Note(0, 3, 60, voice=1)], "x.mid"
    )
    assert sorted((n.pitch, n.voice, n.start, n.end) for n in resolved.notes) == [
        (60, 0, 0, 1),
        (60, 0, 1, 4),
        (60, 1, 0, 3),
        (62, 0, 0, 9),
    ]
    assert resolved.remarks == ("x.mid: 2 notes overlap another of the same pitch; each is cut where the next starts",)


def test_notes_without_overlaps_are_unchanged(scale):
    assert resolve_overlaps(scale, "x.mid")[:2] == (scale, ())
    assert sustain(scale, []) == scale


def test_notes_outside_the_range_are_reported(scale):
    filtered = filter_pitch_range(scale, 62, 65, where="x.mid")
    assert [note.pitch for note in filtered.notes] == [62, 63, 64, 65]
    assert filtered.remarks == ("x.mid: 4 notes lie outside 62 … 65 (such as 60) and are skipped",)
    assert filter_pitch_range(scale, 0, 127, where="x.mid").remarks == ()
