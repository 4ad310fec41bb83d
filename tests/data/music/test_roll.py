"""The piano roll is a PNG, with a shade where a primer was."""

import struct

import pytest

from regard.core.errors import DataError
from regard.data.music import roll


def test_a_picture(scale):
    plain, shaded = roll.render(scale, title="scale"), roll.render(scale, title="scale", names=["Piano"], given=2.0)
    for data in (plain, shaded):
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        assert width > height > 100
    assert plain != shaded


def test_nothing_to_draw():
    with pytest.raises(DataError, match=r"^there are no notes to draw; let the piece be longer$"):
        roll.render([])
