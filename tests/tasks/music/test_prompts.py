"""Prompts: voices, bars, melodies, infilling, and remarks on the file."""

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
    _steps_of,
    _voice_indices,
    continuation_prompt,
    harmonization_prompt,
    infilling_prompt,
    open_music_file,
)


def test_voices_by_name_or_letter():
    assert _voice_indices(()) == [0, 1, 2, 3] and _voice_indices(("Bass", "a", "alto")) == [1, 3]
    with pytest.raises(ConfigError, match=r"^voices: there is no voice 'tenro'; did you mean 'tenor'\?$"):
        _voice_indices(("tenro",))


def test_bars_are_counted_in_the_metre_of_the_piece():
    three = GridEncoding(metres=(Metre(0, 3, 4),))
    assert _steps_of("2", three, 100) == [*range(12, 24)] and _steps_of("1, 3-4", GridEncoding(), 60) == [
        *range(16),
        *range(32, 60),
    ]
    assert _steps_of(None, three, 5) == [0, 1, 2, 3, 4]
    for bars, message in (
        ("two", r"^bars='two': not a list of bars; give 5-8 or 3,9, the first full bar is 1$"),
        ("3-", r"^bars='3-': not a list of bars; give 5-8 or 3,9, the first full bar is 1$"),  # no end
        ("²", r"^bars='²': not a list of bars"),
        ("0", r"^bars='0': the piece has bars 1 to 4$"),
        ("5-6", r"^bars='5-6': the piece has bars 1 to 4$"),
        ("2-99", r"^bars='2-99': the piece has bars 1 to 4$"),
    ):
        with pytest.raises(ConfigError, match=message):
            _steps_of(bars, GridEncoding(), 60)


def test_bars_are_counted_from_the_first_full_bar():
    """As in notation programs, an upbeat is bar 0, for any metres that follow."""
    upbeat = GridEncoding(metres=(Metre(0, 1, 4), Metre(1, 4, 4), Metre(9, 3, 4)))
    assert _steps_of("0", upbeat, 100) == [*range(4)]
    assert _steps_of("1", upbeat, 100) == [*range(4, 20)]
    assert _steps_of("2-3", upbeat, 100) == [*range(20, 48)]
    assert _steps_of("0-8", upbeat, 100) == [*range(100)]
    with pytest.raises(ConfigError, match=r"^bars='9': the piece has bars 0 \(the upbeat\) to 8$"):
        _steps_of("9", upbeat, 100)


def test_a_shortened_prompt_keeps_the_metres_of_its_part(tmp_path):
    path, metres = tmp_path / "x.mid", (Metre(0, 1, 4), Metre(1, 4, 4), Metre(9, 3, 4))
    path.write_bytes(midi.render([Note(i, i + 1, 60) for i in range(20)], tempo=60, metres=metres))
    file = open_music_file(path, GridEncoding())
    for prompt_seconds, expected in ((None, metres), (15, metres), (9, metres[:2]), (0.5, metres[:2])):
        assert continuation_prompt(
            file, GridEncoding(), prompt_seconds=prompt_seconds, length=Length(1.0)
        ).encoding.timing == (
            60,
            expected,
        )


def test_notes_between_grid_steps_are_reported(tmp_path):
    path = tmp_path / "triplets.mid"
    path.write_bytes(midi.render([Note(i / 3, (i + 1) / 3, 60 + i) for i in range(7)], tempo=60))
    file = open_music_file(path, GridEncoding())
    remark = f"{path}: 4 notes between two 16ths moved to the nearest"
    assert remark in infilling_prompt(file, GridEncoding(), voices=("bass",), bars=None).remarks
    assert remark in continuation_prompt(file, GridEncoding(), prompt_seconds=None, length=Length(1.0)).remarks
    melody_file = open_music_file(path, GridEncoding(), melody_only=True)
    prompt = harmonization_prompt(melody_file, GridEncoding(), seconds=None)  # keeps the original times
    assert prompt.remarks == ()
    assert [note.start for note in prompt.melody] == pytest.approx([i / 3 for i in range(7)], abs=1e-3)


def test_a_melody_beyond_the_range_is_harmonized(tmp_path):
    """The notes are returned unchanged, though the model reads them in another octave."""
    path = tmp_path / "high.mid"
    path.write_bytes(midi.render([Note(i, i + 1, 88 + i) for i in range(4)], tempo=60))
    prompt = harmonization_prompt(open_music_file(path, GridEncoding(), melody_only=True), GridEncoding(), seconds=None)
    assert [note.pitch for note in prompt.melody] == [88, 89, 90, 91]
    assert GridEncoding().decode(np.asarray(prompt.visible_tokens))[::4, 0].tolist() == [76, 77, 78, 79]
    with pytest.raises(DataError, match=r"high.mid: no note lies in 36 … 81, the range of this grid; transpose it$"):
        open_music_file(path, GridEncoding())


def test_an_empty_melody_has_an_empty_line():
    assert np.asarray(GridEncoding().melody_line([])).tolist() == []


@pytest.fixture
def tune(tmp_path):
    """A file with one line whose pitches are those of several voices."""
    path = tmp_path / "line.mid"
    path.write_bytes(midi.render([Note(i / 2, (i + 1) / 2, 72 - 5 * i) for i in range(4)], tempo=120))
    return path


def test_one_line_is_the_soprano_of_every_prompt(tune):
    """The prompt, the infilled piece and the harmonized melody keep the line in one voice and say what is silent."""
    grid, file = GridEncoding(), open_music_file(tune, GridEncoding())
    prompt = continuation_prompt(file, grid, prompt_seconds=None, length=Length(1.0))
    content = grid.decode(np.asarray(prompt.tokens))
    assert content[::4, 0].tolist() == [72, 67, 62, 57] and (content[:, 1:] == -1).all()
    assert prompt.remarks == (
        f"{tune}: one voice, read as the soprano; alto, tenor and bass are silent; --harmonise gives them notes",
    )
    infill = infilling_prompt(file, grid, voices=("alto",), bars=None)
    assert grid.decode(np.asarray(infill.visible_tokens))[::4, 0].tolist() == [72, 67, 62, 57]
    assert infill.remarks == (
        f"{tune}: one voice, read as the soprano; tenor and bass are silent; name them in --voices to generate them",
    )
    melody = harmonization_prompt(open_music_file(tune, grid, melody_only=True), grid, seconds=None)
    assert [note.pitch for note in melody.melody] == [72, 67, 62, 57]


def test_replaced_notes_of_a_file_without_four_parts_are_reported(tune, tmp_path):
    file = MusicFile(tune, GridEncoding().open(tune))
    remark = f"{tune}: 1 part, not four, so it is the soprano; in 16 steps a note of the file is in a voice to generate"
    infill = infilling_prompt(file, GridEncoding(), voices=("soprano",), bars=None)
    assert any(line.startswith(remark) for line in infill.remarks)
    assert infilling_prompt(file, GridEncoding(), voices=(), bars="1").remarks == ()  # an entire bar was requested
    path = tmp_path / "two.mid"
    notes = [Note(i / 2, (i + 1) / 2, pitch, voice=v) for i in range(4) for v, pitch in enumerate((72, 48))]
    path.write_bytes(midi.render(notes, tempo=120, names=("a", "b")))
    file = MusicFile(path, GridEncoding().open(path))
    remarks = infilling_prompt(file, GridEncoding(), voices=("bass",), bars=None).remarks
    assert remarks[1].startswith(f"{path}: 2 parts, not four, so voices are assigned by pitch; in 16 steps")
