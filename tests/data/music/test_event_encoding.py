"""Events: the round trip is exact to a time step, settings restore the vocabulary, every sample can be played."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import ConfigError, DataError
from regard.data.music import midi
from regard.data.music.event_encoding import MAX_NOTE_SECONDS, OFF, ON, SHIFT, VELOCITY, EventEncoding
from regard.data.music.notes import Note, resolve_overlaps

EVENTS = EventEncoding()
STEP = 1 / EVENTS.rate
SLACK = 1e-4  # times in files are single-precision floats

raw = st.tuples(st.floats(0, 5), st.floats(2 * STEP, 3), st.integers(21, 108), st.integers(1, 127))


def separated(notes: list[Note]) -> list[Note]:
    """Drop notes of less than two steps, which cannot be represented at this resolution."""
    return [note for note in resolve_overlaps(notes, "x").notes if note.end - note.start >= 2 * STEP]


@settings(max_examples=25)
@given(st.lists(raw, min_size=1, max_size=20))
def test_the_round_trip_is_exact_to_a_step(raw):
    notes = separated([Note(start, start + length, pitch, velocity) for start, length, pitch, velocity in raw])
    if not notes:
        return
    decoded = EVENTS.decode(EVENTS.encode(notes))
    by_pitch = [sorted(part, key=lambda n: (n.pitch, n.start)) for part in (notes, decoded)]
    assert [n.pitch for n in by_pitch[0]] == [n.pitch for n in by_pitch[1]]
    for expected, actual in zip(*by_pitch, strict=True):
        assert abs(expected.start - actual.start) <= STEP + SLACK
        assert abs(expected.end - actual.end) <= STEP + SLACK
        assert abs(expected.velocity - actual.velocity) <= 4


def test_long_silences_and_many_notes_at_once():
    chord = [Note(7.5, 8.0, pitch) for pitch in range(40, 60)]
    notes = EVENTS.decode(EVENTS.encode([Note(0, 0.3, 60), *chord, Note(31.2, 40.0, 60)]))
    assert len(notes) == 22
    assert notes[0].start == 0
    assert notes[-1].start == pytest.approx(31.2, abs=STEP)


def test_the_same_tokens_after_a_reload(scale):
    settings = EVENTS.settings()
    assert settings.pop("name") == "events"
    again = EventEncoding(**settings)
    assert again.tokenizer.vocab == EVENTS.tokenizer.vocab
    assert (again.encode(scale) == EVENTS.encode(scale)).all()


def test_special_tokens_come_first():
    assert [name for name, token_id in EVENTS.tokenizer.vocab.items() if token_id < 4] == [
        "PAD_None",
        "UNK_None",
        "BOS_None",
        "EOS_None",
    ]
    kinds = EVENTS.token_table[0]
    assert kinds[:4].tolist() == [0] * 4
    assert set(kinds[4:].tolist()) == {ON, OFF, SHIFT, VELOCITY}


def test_transposition_moves_every_note(scale):
    tokens = EVENTS.encode(scale)
    assert EVENTS.transpose_range(tokens) == (21 - 60, 108 - 67)
    moved = EVENTS.decode(EVENTS.transpose(tokens, -5))
    assert [n.pitch for n in moved] == [n.pitch - 5 for n in scale]
    assert EVENTS.transpose_range(np.zeros(0, dtype=np.int64)) == (0, 0)


def sample(prefix: np.ndarray, seconds: float, batch_size: int = 6, max_tokens: int = 400) -> torch.Tensor:
    """Sample uniformly from the tokens that the grammar allows."""
    grammar = EVENTS.grammar(prefix, seconds=seconds, min_seconds=seconds)
    history = torch.zeros(batch_size, 0, dtype=torch.long)
    while history.shape[1] < max_tokens:
        weights = grammar.allowed(history).float()
        weights[(history == 3).any(dim=1)] = torch.nn.functional.one_hot(torch.tensor(3), EVENTS.size).float()
        history = torch.cat([history, torch.multinomial(weights, 1)], dim=1)
        if (history[:, -1] == 3).all():
            break
    return history


def test_every_sample_of_the_grammar_is_a_valid_file():
    kind, pitch, steps = EVENTS.token_table
    for row in sample(np.zeros(0, dtype=np.int64), seconds=6.0):
        tokens = [int(token) for token in row if token != 3]
        sounding: dict[int, int] = {}
        now = 0
        for position, token in enumerate(tokens):
            above = int(pitch[token])
            if kind[token] == ON:
                assert above not in sounding
                sounding[above] = now
                assert kind[tokens[position + 1]] == VELOCITY
            elif kind[token] == OFF:
                assert sounding.pop(above) < now
            now += int(steps[token])
        assert not sounding
        assert now == 600  # exactly the requested duration
        notes = EVENTS.decode(np.array(tokens))
        assert len(notes) == sum(int(kind[token] == ON) for token in tokens)
        if notes:
            assert midi.parse(midi.render(notes), "second", where="x.mid").notes


def test_a_performance_may_end_when_nothing_sounds(scale):
    tokens = torch.from_numpy(EVENTS.encode(scale))[None]
    free = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=60, min_seconds=0)
    kind = EVENTS.token_table[0]
    for position in range(tokens.shape[1] + 1):
        sounding = (kind[tokens[0, :position]] == ON).sum() > (kind[tokens[0, :position]] == OFF).sum()
        assert bool(free.allowed(tokens[:, :position])[0, 3]) == (position > 0 and not bool(sounding))
    exact = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=60, min_seconds=60)
    assert not exact.allowed(tokens)[0, 3]


def test_a_score_is_converted_at_its_tempo(tmp_path):
    path = tmp_path / "x.musicxml"
    note = "<note><pitch><step>C</step><octave>4</octave></pitch><duration>1</duration></note>"
    tempo = '<direction><sound tempo="60"/></direction>'
    attributes = "<attributes><divisions>1</divisions></attributes>"
    score = f"<score-partwise><part><measure>{attributes}{{}}</measure></part></score-partwise>"
    path.write_text(score.format(tempo + note * 2))
    opened = EVENTS.open(path)
    assert [(n.start, n.end) for n in opened.content] == [(0, 1), (1, 2)] and opened.parsed.timing.tempo == 60
    path.write_text(score.format(note))
    assert EVENTS.open(path).content[0].end == pytest.approx(0.6)


def test_truncated_tokens_can_be_played(scale):
    tokens = EVENTS.encode(scale)
    for end in range(1, len(tokens)):
        notes = EVENTS.decode(tokens[:end])
        assert all(note.end > note.start for note in notes)
        assert len(notes) <= len(scale)


def test_the_grammar_continues_a_prompt(scale):
    tokens = EVENTS.encode(scale)
    on = int(np.flatnonzero(EVENTS.token_table[0].numpy()[tokens] == ON)[-1])
    empty = torch.zeros(1, 0, dtype=torch.long)
    allowed = EVENTS.grammar(tokens[: on + 2], seconds=5, min_seconds=5).allowed(empty)[0]
    kind, pitch, _ = EVENTS.token_table
    assert allowed[kind == SHIFT].all()
    assert not allowed[(kind == OFF)].any()  # the last note has just started
    assert not allowed[(kind == ON) & (pitch == pitch[tokens[on]])].any()
    velocities = EVENTS.grammar(tokens[: on + 1], seconds=5, min_seconds=5).allowed(empty)[0]
    assert velocities.nonzero().shape == (32, 1)


def test_real_music_follows_the_grammar(scale):
    chords = [note._replace(pitch=note.pitch + interval) for note in scale for interval in (0, 4, 7)]
    tokens = torch.from_numpy(EVENTS.encode(resolve_overlaps(chords, "x").notes))[None]
    grammar = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=1e6, min_seconds=0)
    for position in range(tokens.shape[1]):
        assert grammar.allowed(tokens[:, :position])[0, tokens[0, position]]


def test_a_note_that_is_too_long_must_end_next():
    tokens = EVENTS.encode([Note(0, 30, 60, 64), Note(2, 30, 64, 64), Note(9, 9.5, 67, 64)])
    kind, pitch, steps = (table.numpy() for table in EVENTS.token_table)
    grammar = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=60, min_seconds=0)
    now, forced = 0, []
    for position, token in enumerate(tokens):
        now += steps[token]
        allowed = grammar.allowed(torch.from_numpy(tokens[: position + 1])[None])[0]
        if kind[token] == SHIFT and now >= MAX_NOTE_SECONDS * EVENTS.rate:
            forced.append(sorted({(int(kind[i]), int(pitch[i])) for i in allowed.nonzero().flatten()}))
    assert forced[0] == [(OFF, 60 - EVENTS.low)]
    assert forced[-1] == [(OFF, 60 - EVENTS.low), (OFF, 64 - EVENTS.low)]


def test_notes_out_of_range(write):
    with pytest.raises(
        DataError, match=r"piece.mid: no note lies in 21 … 108, the range of this encoding; transpose it$"
    ):
        EVENTS.open(write([Note(0, 1, 5)]))
    opened = EVENTS.open(write([Note(0, 1, 60), Note(0.5, 2, 60, voice=1), Note(0, 1, 120)]))
    assert len(opened.content) == 2
    assert opened.num_lost == 1
    assert [remark.partition(": ")[2].split(";")[0] for remark in opened.loss_remarks + opened.remarks] == [
        "1 notes lie outside 21 … 108 (such as 120) and are skipped",
        "1 notes overlap another of the same pitch",
    ]
    with pytest.raises(ConfigError, match=r"^low=9, high=3: pitches must lie in 0 … 127, low below high$"):
        EventEncoding(9, 3)
    with pytest.raises(
        ConfigError, match=r"^rate=7, velocities=32: rate must be even, 2 … 1000; velocities must lie in 1 … 127$"
    ):
        EventEncoding(rate=7)
    assert EVENTS.max_tokens(10) == 2400
    assert EVENTS.notes(opened.content) == opened.content


def test_performances_of_pianists(shared_data, tmp_path):
    import tarfile

    with tarfile.open(shared_data / "asap_piano" / "test.tar.xz") as archive:
        members = [member for member in archive if member.name.endswith(".mid")][:2]
        for member in members:
            file = archive.extractfile(member)
            assert file is not None
            content = EVENTS.open(tmp_path / member.name, file.read()).content
            decoded = EVENTS.decode(EVENTS.encode(content))
            assert len(decoded) == len(content)
            pairs = zip(*(sorted(part, key=lambda n: (n.pitch, n.start)) for part in (content, decoded)), strict=True)
            assert max(abs(expected.start - actual.start) for expected, actual in pairs) <= STEP + SLACK


def test_tokens_have_labels_and_points():
    tokens = EVENTS.encode([Note(0.12, 0.5, 60, 79)])
    assert [EVENTS.label(int(token), 0) for token in tokens] == ["+120 ms", "on C4", "velocity 79", "+380 ms", "off C4"]
    assert EVENTS.piano_roll_points(tokens) == [None, (0.12, 60), (0.12, 60), None, (0.5, 60)]


def test_crop_start_of_a_performance():
    notes = [Note(1.0, 3.0, 60), Note(2.0, 4.0, 62), Note(3.0, 4.0, 64)]
    assert EventEncoding().crop_start(notes, 2.5) == [Note(1.0, 2.5, 60), Note(2.0, 2.5, 62)]
    with pytest.raises(DataError, match=r"^no note of the prompt starts in its first 1 seconds; use more of it$"):
        EventEncoding().crop_start(notes, 1.0)
