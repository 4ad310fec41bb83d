"""Predictions of pieces: notes, files, and a player for notebooks."""

import pytest

from regard.core.errors import ConfigError
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.notes import Note
from regard.tasks.music.generate import Composition
from regard.tasks.music.piece import to_prediction


def test_a_piece_is_saved_and_played(tmp_path):
    notes = [Note(0, 0.1, 60), Note(0.1, 0.2, 64, voice=1)]
    piece = to_prediction(
        Composition(notes, GridEncoding().encode([[60, 64, -1, -1]]), -3.0, 0.0), GridEncoding(), title="", remarks=()
    )
    assert piece.notes == notes
    assert piece.save(tmp_path / "x.mid").read_bytes()[:4] == b"MThd"
    assert piece.save(str(tmp_path / "x.wav")).read_bytes()[:4] == b"RIFF"
    player = piece.play()
    assert repr(player).endswith("bytes of sound)") and player._repr_html_().startswith("<audio controls src=")
    assert piece._repr_html_().startswith("<p>0.2 s, 2 notes, 4 tokens, log p -3.0</p><audio")
    with pytest.raises(
        ConfigError, match=r"^this prediction cannot be written as .ogg; available: .mid, .wav, .png, .txt$"
    ):
        piece.save(tmp_path / "x.ogg")
