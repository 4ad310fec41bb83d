"""What is fixed of a new piece: bars and voices that are not there are told."""

import numpy as np
import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.music import midi
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.metre import Metre
from regard.data.music.notes import Note
from regard.tasks.music.prompts import (
    Length,
    MusicFile,
    _numbers,
    _steps_of,
    continuation_prompt,
    harmonization_prompt,
    infilling_prompt,
    open_music_file,
)


def test_voices_by_name_or_letter():
    assert _numbers(()) == [0, 1, 2, 3] and _numbers(("Bass", "a", "alto")) == [1, 3]
    with pytest.raises(ConfigError, match=r"^voices: there is no voice 'tenro'; did you mean 'tenor'\?$"):
        _numbers(("tenro",))


def test_bars_are_counted_in_the_metre_of_the_piece():
    three = GridEncoding(metres=(Metre(0, 3, 4),))
    assert _steps_of("2", three, 100) == [*range(12, 24)] and _steps_of("1, 3-4", GridEncoding(), 60) == [
        *range(16),
        *range(32, 60),
    ]
    assert _steps_of(None, three, 5) == [0, 1, 2, 3, 4]
    for bars, message in (
        ("two", r"^bars='two': give bars as 5-8, or as 3,9; the first whole one is 1$"),
        ("3-", r"^bars='3-': give bars as 5-8, or as 3,9; the first whole one is 1$"),  # to where?
        ("²", r"^bars='²': give bars as"),
        ("0", r"^bars='0': the piece has bars 1 to 4$"),
        ("5-6", r"^bars='5-6': the piece has bars 1 to 4$"),
        ("2-99", r"^bars='2-99': the piece has bars 1 to 4$"),
    ):
        with pytest.raises(ConfigError, match=message):
            _steps_of(bars, GridEncoding(), 60)


def test_bars_are_counted_from_the_first_whole_one():
    """As notation programs do: an upbeat is bar 0, whatever the metres that follow."""
    upbeat = GridEncoding(metres=(Metre(0, 1, 4), Metre(1, 4, 4), Metre(9, 3, 4)))
    assert _steps_of("0", upbeat, 100) == [*range(4)]
    assert _steps_of("1", upbeat, 100) == [*range(4, 20)]
    assert _steps_of("2-3", upbeat, 100) == [*range(20, 48)]
    assert _steps_of("0-8", upbeat, 100) == [*range(100)]
    with pytest.raises(ConfigError, match=r"^bars='9': the piece has bars 0 \(the upbeat\) to 8$"):
        _steps_of("9", upbeat, 100)


def test_a_prompt_keeps_the_metres_of_what_is_used_of_it(tmp_path):
    path, metres = tmp_path / "x.mid", (Metre(0, 1, 4), Metre(1, 4, 4), Metre(9, 3, 4))
    path.write_bytes(midi.render([Note(i, i + 1, 60) for i in range(20)], tempo=60, metres=metres))
    file = open_music_file(path, GridEncoding())
    for keep, expected in ((None, metres), (15, metres), (9, metres[:2]), (0.5, metres[:2])):
        assert continuation_prompt(file, GridEncoding(), prompt_seconds=keep, length=Length(1.0)).encoding.timing == (
            60,
            expected,
        )


def test_it_is_said_what_the_grid_has_no_place_for(tmp_path):
    path = tmp_path / "triplets.mid"
    path.write_bytes(midi.render([Note(i / 3, (i + 1) / 3, 60 + i) for i in range(7)], tempo=60))
    file, said = (
        open_music_file(path, GridEncoding()),
        f"{path}: 4 notes of it begin between two 16ths, and are moved to the nearest",
    )
    assert said in infilling_prompt(file, GridEncoding(), voices=("bass",), bars=None).remarks
    assert continuation_prompt(file, GridEncoding(), prompt_seconds=None, length=Length(1.0)).remarks == (said,)
    tune = harmonization_prompt(
        open_music_file(path, GridEncoding(), melody_only=True), GridEncoding(), seconds=None
    )  # comes back as it is
    assert tune.remarks == () and [note.start for note in tune.melody] == pytest.approx(
        [i / 3 for i in range(7)], abs=1e-3
    )


def test_a_tune_beyond_the_range_is_harmonised(tmp_path):
    """A flute's: its notes come back as they are, though the model reads each in another octave."""
    path = tmp_path / "high.mid"
    path.write_bytes(midi.render([Note(i, i + 1, 88 + i) for i in range(4)], tempo=60))
    made = harmonization_prompt(open_music_file(path, GridEncoding(), melody_only=True), GridEncoding(), seconds=None)
    assert [note.pitch for note in made.melody] == [88, 89, 90, 91]
    assert GridEncoding().decode(np.asarray(made.visible_tokens))[::4, 0].tolist() == [76, 77, 78, 79]
    with pytest.raises(DataError, match=r"high.mid: no note lies in 36 … 81, what this grid holds; transpose it$"):
        open_music_file(path, GridEncoding())


def test_pitches_are_kept(tmp_path):
    assert np.asarray(GridEncoding().melody_line([])).tolist() == []


def test_of_a_file_without_four_parts_it_is_said_what_goes(tmp_path):
    """One line is parted into voices by pitch, so that some of it may lie in the voice that is made anew."""
    path = tmp_path / "line.mid"
    path.write_bytes(midi.render([Note(i / 2, (i + 1) / 2, 72 - 5 * i) for i in range(4)], tempo=120))
    file = MusicFile(path, GridEncoding().open(path))
    where = "1 part, not four, so voices are told apart by pitch; in 4 steps a note of it lies in what is made anew"
    for bars in (None, "1"):
        made = infilling_prompt(file, GridEncoding(), voices=("tenor",), bars=bars)
        assert made.remarks == (f"{path}: {where}, and goes",)
    assert infilling_prompt(file, GridEncoding(), voices=(), bars="1").remarks == ()  # a whole bar was asked for
    assert infilling_prompt(file, GridEncoding(), voices=("bass",), bars=None).remarks == ()
