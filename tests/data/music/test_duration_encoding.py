"""Durations: notes in are notes out within a step, every sample can be played, no note is endless."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import ConfigError, DataError
from regard.data.music import midi
from regard.data.music.duration_encoding import DURATION, MAX_NOTE_SECONDS, PITCH, SHIFT, VELOCITY, DurationEncoding
from regard.data.music.notes import Note, resolve_overlaps

DURATIONS = DurationEncoding()
STEP = 1 / DURATIONS.rate
NOTHING = np.zeros(0, dtype=np.int64)
END = 3

raw = st.tuples(st.floats(0, 20), st.floats(2 * STEP, 12), st.integers(21, 108), st.integers(1, 127))


def step_at(seconds: float) -> float:
    """Return the step of durations of this length."""
    return STEP if seconds <= 1 else 0.05 if seconds <= 4 else 0.2


@settings(max_examples=40)
@given(st.lists(raw, min_size=1, max_size=20))
def test_notes_in_are_notes_out_within_a_step(raw):
    notes = [Note(start, start + length, pitch, velocity) for start, length, pitch, velocity in raw]
    notes = [note for note in resolve_overlaps(notes, "x").notes if note.end - note.start >= 2 * STEP]
    decoded = DURATIONS.decode(DURATIONS.encode(notes))
    by_pitch = [sorted(part, key=lambda n: (n.pitch, n.start)) for part in (notes, decoded)]
    assert [n.pitch for n in by_pitch[0]] == [n.pitch for n in by_pitch[1]]
    for expected, actual in zip(*by_pitch, strict=True):
        length = min(expected.end - expected.start, MAX_NOTE_SECONDS)
        assert abs(expected.start - actual.start) <= STEP
        assert abs(length - (actual.end - actual.start)) <= step_at(length) + 2 * STEP
        assert abs(expected.velocity - actual.velocity) <= 2
    for pitch in {note.pitch for note in decoded}:
        line = [note for note in by_pitch[1] if note.pitch == pitch]
        assert all(first.end <= second.start for first, second in pairwise(line))


def test_decoded_notes_have_the_same_tokens():
    tokens = DURATIONS.encode([Note(0, 0.333, 60), Note(0, 5.2, 48), Note(2.5, 3.99, 64), Note(2.5, 2.51, 60)])
    assert (DURATIONS.encode(DURATIONS.decode(tokens)) == tokens).all()


def test_a_long_note_does_not_reach_into_the_next_of_its_pitch():
    first, second = DURATIONS.decode(DURATIONS.encode([Note(0, 3.03, 60), Note(3.03, 3.5, 60)]))
    assert (first.end, second.start, second.end) == (3.0, 3.03, 3.5)
    (alone,) = DURATIONS.decode(DURATIONS.encode([Note(0, 3.03, 60)]))
    assert alone.end == 3.05


def test_long_silences_and_many_notes_at_once():
    chord = [Note(7.5, 8.0, pitch) for pitch in range(40, 60)]
    notes = DURATIONS.decode(DURATIONS.encode([Note(0, 0.3, 60), *chord, Note(31.2, 60.0, 60)]))
    assert len(notes) == 22 and notes[0].start == 0
    assert (notes[-1].start, notes[-1].end) == (31.2, 31.2 + MAX_NOTE_SECONDS)


def test_notes_that_are_too_long_are_reported(write):
    opened = DURATIONS.open(write([Note(0, 20, 60), Note(0, 4, 64)]))
    assert [remark.partition(": ")[2] for remark in opened.loss_remarks] == [
        "1 note of more than 8 seconds end after that time"
    ]
    assert opened.num_lost == 0
    with pytest.raises(DataError, match=r"piece.mid: no note lies in 21 … 108, the range of this encoding; transpose"):
        DURATIONS.open(write([Note(0, 1, 5)]))


def test_the_same_tokens_after_a_reload(scale):
    settings = DURATIONS.settings()
    assert settings.pop("name") == "durations"
    again = DurationEncoding(**settings)
    assert again.size == DURATIONS.size == 4 + 88 + 32 + 180 + 100
    assert (again.encode(scale) == DURATIONS.encode(scale)).all()
    with pytest.raises(ConfigError, match=r"^rate=1000000, velocities=32: rate must be even, 2 … 1000; velocities"):
        DurationEncoding(rate=10**6)


def test_every_token_has_a_kind_and_special_tokens_come_first():
    kind, pitch, steps = DURATIONS.token_table
    assert kind[:4].tolist() == [0] * 4
    assert kind[4:].bincount().tolist() == [0, 88, 32, 180, 100]
    assert steps[kind == DURATION].tolist() == sorted(set(DURATIONS.durations)) and DURATIONS.durations[-1] == 800
    assert pitch[kind == PITCH].tolist() == list(range(88)) and steps[kind == SHIFT].tolist() == list(range(1, 101))


def test_transposition_moves_every_note(scale):
    tokens = DURATIONS.encode(scale)
    assert DURATIONS.transpose_range(tokens) == (21 - 60, 108 - 67)
    moved = DURATIONS.decode(DURATIONS.transpose(tokens, -5))
    assert [n.pitch for n in moved] == [n.pitch - 5 for n in scale]
    assert DURATIONS.transpose_range(NOTHING) == (0, 0)


def sample(prefix: np.ndarray, *, seconds: float, min_seconds: float) -> list[np.ndarray]:
    """Sample uniformly from the tokens that the grammar allows, until every row ends."""
    grammar = DURATIONS.grammar(prefix, seconds=seconds, min_seconds=min_seconds)
    generator = torch.Generator().manual_seed(1)
    rows = []
    for _ in range(4):
        history = torch.zeros(1, 0, dtype=torch.long)
        while not (history == END).any():
            weights = grammar.allowed(history).float()
            history = torch.cat([history, torch.multinomial(weights, 1, generator=generator)], dim=1)
        rows.append(history[0, :-1].numpy())
    return rows


def test_every_sample_of_the_grammar_is_a_valid_file():
    kind, _, steps = (table.numpy() for table in DURATIONS.token_table)
    for row in sample(NOTHING, seconds=6.0, min_seconds=6.0):
        notes = DURATIONS.decode(row)
        assert len(notes) == (kind[row] == PITCH).sum() == (kind[row] == VELOCITY).sum()
        assert sorted(resolve_overlaps(notes, "x").notes) == notes  # a pitch that sounds does not start again
        assert max(note.end - note.start for note in notes) <= MAX_NOTE_SECONDS
        assert max(*(note.end for note in notes), steps[row][kind[row] == SHIFT].sum() * STEP) == pytest.approx(6.0)
        assert midi.parse(midi.render(notes), "second", where="x.mid").notes


def test_new_notes_start_after_the_prompt():
    prompt = [Note(0, 2.5, 60), Note(0.5, 1.0, 64)]
    tokens = DURATIONS.encode(prompt)
    for row in sample(tokens, seconds=3.0, min_seconds=0.0):
        notes = DURATIONS.decode(np.concatenate([tokens, row]))
        new = [note for note in notes if (note.start, note.pitch) not in [(0, 60), (0.5, 64)]]
        assert len(new) == len(notes) - 2 and all(note.start >= 2.5 and note.end <= 5.5 for note in new)


def test_real_music_follows_the_grammar(scale):
    chords = [note._replace(pitch=note.pitch + interval) for note in scale for interval in (0, 4, 7)]
    tokens = torch.from_numpy(DURATIONS.encode([*resolve_overlaps(chords, "x").notes, Note(9.5, 12, 30)]))[None]
    grammar = DURATIONS.grammar(NOTHING, seconds=1e6, min_seconds=0)
    for position in range(tokens.shape[1]):
        assert grammar.allowed(tokens[:, :position])[0, tokens[0, position]]
        is_complete = position > 0 and int(DURATIONS.token_table[0][tokens[0, position - 1]]) in (DURATION, SHIFT)
        assert bool(grammar.allowed(tokens[:, :position])[0, END]) == is_complete


def test_truncated_tokens_can_be_played(scale):
    tokens = DURATIONS.encode(scale)
    for end in range(len(tokens)):
        notes = DURATIONS.decode(tokens[:end])
        assert notes == DURATIONS.decode(tokens)[: len(notes)]


def test_tokens_have_labels_and_points():
    tokens = DURATIONS.encode([Note(0.12, 0.5, 60, 79)])
    assert [DURATIONS.label(int(token), 0) for token in tokens] == ["+120 ms", "C4", "velocity 79", "380 ms long"]
    assert DURATIONS.piano_roll_points(tokens) == [None, (0.12, 60), (0.12, 60), (0.5, 60)]


def test_performances_of_pianists(shared_data, tmp_path):
    import tarfile

    with tarfile.open(shared_data / "asap_piano" / "test.tar.xz") as archive:
        member = next(member for member in archive if member.name.endswith(".mid"))
        file = archive.extractfile(member)
        assert file is not None
        content = DURATIONS.open(tmp_path / member.name, file.read()).content
    decoded = DURATIONS.decode(DURATIONS.encode(content))
    assert len(decoded) == len(content)
    pairs = zip(*(sorted(part, key=lambda n: (n.pitch, n.start)) for part in (content, decoded)), strict=True)
    assert max(abs(expected.start - actual.start) for expected, actual in pairs) <= STEP
