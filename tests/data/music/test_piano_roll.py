"""Piano rolls as PNG and as text; the prompt is highlighted."""

import struct

import pytest

from regard.core.errors import DataError
from regard.data.music import piano_roll
from regard.data.music.key import pitch_name
from regard.data.music.notes import Note


def test_a_png(scale):
    plain, shaded = (
        piano_roll.render(scale, title="scale"),
        piano_roll.render(scale, title="scale", names=["Piano"], prompt_seconds=2.0),
    )
    for data in (plain, shaded):
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        assert width > height > 100
    assert plain != shaded


def test_nothing_to_draw():
    with pytest.raises(DataError, match=r"^there are no notes to draw; generate a longer piece$"):
        piano_roll.render([])


def test_text_for_a_terminal(scale):
    text = piano_roll.render_text(scale, prompt_seconds=1.0)
    *rows, ruler, times = text.splitlines()
    assert max(map(len, text.splitlines())) < 80
    assert len({len(row) for row in rows}) == 1 and rows[0].split()[0] == pitch_name(max(n.pitch for n in scale))
    end = max(note.end for note in scale)
    assert ruler.count("═") == round(len(ruler.strip("└ ")) / end) and times.endswith(f"{end:.1f} s")
    cells = sum(row.count("▀") + row.count("▄") + 2 * row.count("█") for row in rows)
    assert cells == pytest.approx(sum(n.end - n.start for n in scale) / end * len(ruler.strip("└ ")), abs=len(scale))


def test_every_note_is_drawn_however_short():
    notes = [Note(i * 2.0, i * 2.0 + 0.001, 60 + i % 2) for i in range(30)]
    *rows, _, _ = piano_roll.render_text(notes).splitlines()
    (row,) = rows
    assert row.count("▀") == row.count("▄") == 15
    assert piano_roll.render_text([]) == "(no notes)\n"
