"""The encoding is chosen by the notes that the grid would lose; one line gives their share and the remedy."""

import pytest

from regard.data.music.choose_encoding import choose_encoding
from regard.data.music.dataset import load_collection
from regard.data.music.event_encoding import EventEncoding
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.notes import Note

CHORALE = [Note(i / 2, (i + 1) / 2, pitch, voice=v) for i in range(8) for v, pitch in enumerate((72, 65, 57, 48))]
PIANO = [Note(i / 3, i / 3 + 0.5, pitch) for i in range(8) for pitch in (24, 50, 55, 60, 64, 67, 100)]


@pytest.fixture
def folder(write, tmp_path):
    """Function that fills a folder with files of the same notes."""

    def fill(notes, names=("a", "b", "c", "d")):
        for i in range(4):
            write(notes, f"{i}.mid", tempo=120, names=names)
        return tmp_path

    return fill


def test_chorales_are_on_the_grid(folder):
    choice = choose_encoding(folder(CHORALE))
    assert choice == ("grid", "") and choose_encoding(None).name == "grid"
    assert load_collection(folder(CHORALE), GridEncoding()).remarks == ()


def test_piano_playing_is_events(folder):
    choice = choose_encoding(folder(PIANO))
    assert choice.name == "events"
    assert choice.reason.startswith(
        "data.encoding=auto: events, because the grid of four voices in 36 … 81 would lose "
    )
    assert choice.reason.endswith("data.encoding=grid uses it nevertheless")


def test_lost_notes_are_reported_in_one_line_with_the_remedy(folder):
    path = folder([*CHORALE, Note(4, 5, 100)])
    assert load_collection(path, GridEncoding()).remarks == (
        "4 notes (3.0%) in 4 of 4 files are lost: out of range, or more than four at once; "
        "data.encoding=events keeps them",
    )
    assert choose_encoding(path).name == "grid"
    assert load_collection(path, EventEncoding()).remarks == ()
