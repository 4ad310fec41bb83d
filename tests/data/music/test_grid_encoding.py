"""The grid: exact round trips, notes exact to a step, voice assignment, and samples of the grammar."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import ConfigError, DataError
from regard.data.music import midi
from regard.data.music.grid_encoding import REST, SILENT, VOICE_NAMES, GridEncoding, GridGrammar
from regard.data.music.metre import Timing
from regard.data.music.notes import Note

GRID = GridEncoding()
pitches = st.one_of(st.just(SILENT), st.integers(GRID.low, GRID.high))
grids = st.lists(st.tuples(*[pitches] * 4), min_size=1, max_size=12).map(lambda rows: np.array(rows, dtype=np.int16))


@given(grids)
def test_decode_undoes_encode(grid):
    tokens = GRID.encode(grid)
    assert tokens.min() >= REST
    assert tokens.max() < GRID.size
    assert (GRID.decode(tokens) == grid).all()
    assert (GRID.decode(tokens[:-1]) == grid[:-1]).all()  # truncated: complete steps only


@given(grids)
def test_notes_reproduce_the_grid(grid):
    rendered = np.full_like(grid, SILENT)
    for note in GRID.notes(grid):
        first, last = round(note.start / GRID.step_seconds), round(note.end / GRID.step_seconds)
        rendered[first:last, note.voice] = note.pitch
    assert (rendered == grid).all()


@given(grids.filter(lambda grid: all((grid[:, i] != SILENT).any() for i in range(4))))
def test_a_file_of_four_voices_is_read_back_exactly(grid):
    data = midi.render(GRID.notes(grid), tempo=GRID.tempo, names=VOICE_NAMES)
    opened = GRID.open(Path("x.mid"), data)
    sounding = len(opened.content)
    assert (opened.content == grid[:sounding]).all()
    assert (grid[sounding:] == SILENT).all()


@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0.25, 3), st.integers(36, 81)), min_size=1, max_size=4))
def test_onsets_and_ends_are_exact_to_a_step(raw):
    notes = [Note(start, start + length, pitch, voice=i) for i, (start, length, pitch) in enumerate(raw)]
    grid, _ = GRID.to_grid(notes)
    step = 1 / GRID.resolution
    for note in notes:
        steps = np.flatnonzero((grid == note.pitch).any(axis=1))
        inside = [i for i in steps if note.start - step <= i * step <= note.end]
        assert inside
        assert abs(inside[0] * step - note.start) <= step or inside[0] * step < note.start


@given(st.lists(st.tuples(st.floats(0, 8), st.sampled_from([0.0, 0.01, 0.3, 2.0]), st.integers(36, 81)), min_size=1))
def test_notes_without_duration_are_part_of_the_grid(raw):
    notes = [Note(start, start + length, pitch) for start, length, pitch in raw]
    grid, _ = GRID.to_grid(notes)
    onsets = GRID.onsets(grid, notes)
    assert onsets.shape == grid.shape and onsets[round(max(note.start for note in notes) * GRID.resolution)].any()


@pytest.mark.parametrize("first", [72, 60, 45])
def test_a_single_melody_is_the_soprano_at_any_pitch(first):
    """Also if its notes overlap slightly, as in legato playing."""
    grid, remarks = GRID.to_grid([Note(i, i + 1.05, first + (5 * i) % 7) for i in range(4)])
    assert grid[::4, 0].tolist()[:4] == [first + (5 * i) % 7 for i in range(4)]
    assert (grid[:, 1:] == SILENT).all()
    assert remarks == ()


def test_chords_are_four_voices_from_high_to_low():
    grid, remarks = GRID.to_grid([Note(0, 1, pitch) for pitch in (48, 60, 64, 72)])
    assert grid[0].tolist() == [72, 64, 60, 48]
    assert remarks == ()
    grid, remarks = GRID.to_grid([Note(0, 1, pitch) for pitch in (48, 55, 60, 64, 67, 72)], where="x.mid")
    assert grid[0, 0] == 72
    assert grid[0, 3] == 48
    assert remarks == ("x.mid: 4 steps have more than four notes; the outer two and two inner ones are used",)


@pytest.mark.parametrize("pitches", [(72, 48), (72, 57, 48), (72, 65, 48)])
def test_fewer_notes_use_the_outer_voices(pitches):
    grid, _ = GRID.to_grid([Note(0, 1, pitch) for pitch in pitches])
    assert grid[0, 0] == 72
    assert grid[0, 3] == 48


@given(grids, st.integers(-60, 60))
def test_transposition_stays_in_the_range(grid, semitones):
    tokens = GRID.encode(grid)
    down, up = GRID.transpose_range(tokens)
    shift = max(down, min(up, semitones))
    moved = GRID.decode(GRID.transpose(tokens, shift))
    assert (np.where(grid == SILENT, SILENT, grid + shift) == moved).all()
    GRID.encode(moved)


def test_every_sample_of_the_grammar_is_a_piece():
    soprano = torch.tensor([10, 11, 12])
    with_soprano = torch.zeros(12, dtype=torch.long)
    with_soprano[::4] = soprano
    for forced_tokens in (None, with_soprano):
        grammar = GridGrammar(GRID.size, prefix_length=0, max_length=12, min_length=12, forced_tokens=forced_tokens)
        history = torch.zeros(5, 0, dtype=torch.long)
        for _ in range(12):
            weights = grammar.allowed(history).float()
            assert (weights[:, :REST] == 0).all()
            history = torch.cat([history, torch.multinomial(weights, 1)], dim=1)
        assert grammar.allowed(history).nonzero()[:, 1].tolist() == [3] * 5  # only EOS is allowed
        assert all(GRID.decode(row.numpy()).shape == (3, 4) for row in history)
    assert (history[:, ::4] == soprano).all()


def test_the_grammar_continues_a_prompt():
    grammar = GRID.grammar(np.full(8, REST), seconds=3 * GRID.step_seconds, min_seconds=2 * GRID.step_seconds)
    ends = [bool(grammar.allowed(torch.zeros(1, length, dtype=torch.long))[0, 3]) for length in range(13)]
    assert ends == [False] * 8 + [True] + [False] * 3 + [True]  # between two steps, from the second on
    assert not grammar.allowed(torch.zeros(1, 12, dtype=torch.long))[0, REST:].any()  # it must end at the third step


def test_the_tempo_of_a_file_is_used(write):
    timing = GRID.open(write([Note(0, 2, 60)], tempo=60)).parsed.timing
    slow = GRID.with_timing(timing)
    assert (
        slow.tempo == 60
        and slow.step_seconds == 0.25
        and slow.max_tokens(1.0) == 16
        and GRID.with_timing(Timing()) == GRID
    )
    assert slow.settings() == GRID.settings() | {"tempo": 60.0} and "metres" not in slow.settings()


def test_four_parts_are_ordered_from_high_to_low(write):
    parts = [[48, 50], [60, 62], [65, 67], [76, 74]]  # the bass first
    notes = [
        Note(i * 0.5, i * 0.5 + 0.5, pitch, voice=v) for v, part in enumerate(parts) for i, pitch in enumerate(part)
    ]
    assert GRID.open(write(notes)).content[::4].tolist() == [[76, 65, 60, 48], [74, 67, 62, 50]]


def test_chords_in_one_of_four_parts_are_reported(write):
    notes = [Note(0, 0.5, pitch, voice=v) for v, pitch in enumerate((76, 65, 60, 48))]
    assert GRID.open(write(notes)).loss_remarks == () and GRID.open(write(notes)).num_lost == 0
    opened = GRID.open(write([*notes, Note(0, 0.5, 72)]))
    assert opened.content[0].tolist() == [76, 65, 60, 48]
    assert opened.loss_remarks[0].endswith("piece.mid: 4 steps have several notes in one part; one of them is used")


def test_repeated_notes_of_a_file_are_separated(write):
    opened = GRID.open(write([Note(i * 0.5, i * 0.5 + 0.5, 60) for i in range(4)]))
    assert len(GRID.notes(opened.content)) == 1
    assert len(GRID.notes(opened.content, opened.onsets)) == 4
    assert len(GRID.notes(opened.content, opened.onsets[:8])) == 2


def test_a_melody_is_moved_by_octaves_into_the_range():
    melody = [Note(0, 1, 96), Note(1, 2, 24), Note(2, 2.1, 60)]
    assert GRID.melody_line(melody).tolist() == [72] * 4 + [36] * 4 + [60]
    assert GridEncoding(low=60, high=64).melody_line([Note(0, 0.25, 70)]).tolist() == [60] and not len(
        GRID.melody_line([])
    )


def test_seconds_are_tokens():
    assert GRID.max_tokens(GRID.step_seconds * 10) == 40
    assert GRID.tokens_per_bar == 64


def test_notes_out_of_range(write):
    with pytest.raises(DataError, match=r"^pitch 90 lies outside 36 … 81, the range of this grid$"):
        GRID.encode(np.array([[90, 60, 50, 40]]))
    with pytest.raises(DataError, match=r"piece.mid: no note lies in 36 … 81, the range of this grid; transpose it$"):
        GRID.open(write([Note(0, 1, 100)]))
    opened = GRID.open(write([Note(0, 1, 60), Note(0, 1, 100)]))
    assert opened.num_lost == 1 and opened.loss_remarks[0].endswith(
        "1 notes lie outside 36 … 81 (such as 100) and are skipped"
    )
    with pytest.raises(ConfigError, match=r"^low=80, high=40: pitches must lie in 0 … 127, low below high$"):
        GridEncoding(low=80, high=40)
    with pytest.raises(ConfigError, match=r"^resolution and measure must be at least 1, tempo above 0$"):
        GridEncoding(resolution=0)


def test_tokens_have_labels_and_points():
    tokens = GRID.encode(np.array([[72, 66, SILENT, 48], [72, 66, 58, 48]]))
    assert [GRID.label(int(token), position) for position, token in enumerate(tokens[:4])] == [
        "S C5",
        "A F#4",
        "T rest",
        "B C3",
    ]
    points = GRID.piano_roll_points(tokens)
    assert points[2] is None
    assert points[6] == (1.5 * GRID.step_seconds, 58)


def test_crop_start_of_a_piece():
    encoding = GridEncoding()
    piece = np.arange(40, 80, dtype=np.int16).reshape(-1, 4)
    assert encoding.crop_start(piece, 3 * encoding.step_seconds).tolist() == piece[:3].tolist()
    assert len(encoding.crop_start(piece, 0.001)) == 1 and len(encoding.crop_start(piece, 100.0)) == len(piece)
