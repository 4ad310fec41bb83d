"""Keys are detected, and are transposed with the music."""

import pytest

from regard.data.music.key import TONICS, find_key, mode_of, shift_key
from regard.data.music.notes import Note

MAJOR, MINOR = (0, 2, 4, 5, 7, 9, 11, 12, 7, 4, 0), (0, 2, 3, 5, 7, 8, 11, 12, 7, 3, 0)


def melody(tonic: int, degrees: tuple[int, ...]) -> list[Note]:
    return [Note(i, i + 1, 48 + tonic + degree) for i, degree in enumerate(degrees)]


@pytest.mark.parametrize("tonic", range(12))
def test_scales_have_their_key(tonic):
    assert find_key(melody(tonic, MAJOR)) == f"{TONICS[tonic]} major"
    assert find_key(melody(tonic, MINOR)) == f"{TONICS[tonic]} minor"


def test_a_key_is_transposed_with_the_music():
    for shift in (-7, -1, 0, 5, 12):
        moved = [note._replace(pitch=note.pitch + shift) for note in melody(2, MINOR)]
        assert find_key(moved) == shift_key("D minor", shift)
    assert mode_of("F# minor") == "minor"
