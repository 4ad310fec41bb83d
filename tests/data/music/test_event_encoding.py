"""Events: notes keep within a time step both ways, tokens are the same after a reload, and any sample can be played."""

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
SLACK = 1e-4  # times are floats of single precision in files

raw = st.tuples(st.floats(0, 5), st.floats(2 * STEP, 3), st.integers(21, 108), st.integers(1, 127))


def separated(notes: list[Note]) -> list[Note]:
    """Without two strikes of one key within two steps, which no file at this resolution can tell apart."""
    kept = resolve_overlaps(notes, "x").notes
    return [note for note in kept if note.end - note.start >= 2 * STEP]


@settings(max_examples=25)
@given(st.lists(raw, min_size=1, max_size=20))
def test_notes_keep_within_a_step(raw):
    notes = separated([Note(start, start + length, pitch, velocity) for start, length, pitch, velocity in raw])
    if not notes:
        return
    found = EVENTS.decode(EVENTS.encode(notes))
    by_pitch = [sorted(part, key=lambda n: (n.pitch, n.start)) for part in (notes, found)]
    assert [n.pitch for n in by_pitch[0]] == [n.pitch for n in by_pitch[1]]
    for one, other in zip(*by_pitch, strict=True):
        assert abs(one.start - other.start) <= STEP + SLACK
        assert abs(one.end - other.end) <= STEP + SLACK
        assert abs(one.velocity - other.velocity) <= 4


def test_long_silences_and_many_notes_at_once():
    chord = [Note(7.5, 8.0, pitch) for pitch in range(40, 60)]
    found = EVENTS.decode(EVENTS.encode([Note(0, 0.3, 60), *chord, Note(31.2, 40.0, 60)]))
    assert len(found) == 22
    assert found[0].start == 0
    assert found[-1].start == pytest.approx(31.2, abs=STEP)


def test_the_same_tokens_after_a_reload(scale):
    settings = EVENTS.settings()
    assert settings.pop("name") == "events"
    again = EventEncoding(**settings)
    assert again.tokenizer.vocab == EVENTS.tokenizer.vocab
    assert (again.encode(scale) == EVENTS.encode(scale)).all()


def test_marks_come_first():
    assert [name for name, number in EVENTS.tokenizer.vocab.items() if number < 4] == [
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


def drawn(before: np.ndarray, seconds: float, rows: int = 6, most: int = 400) -> torch.Tensor:
    """Tokens drawn evenly from what the grammar allows."""
    grammar = EVENTS.grammar(before, seconds=seconds, min_seconds=seconds)
    history = torch.zeros(rows, 0, dtype=torch.long)
    while history.shape[1] < most:
        odds = grammar.allowed(history).float()
        odds[(history == 3).any(dim=1)] = torch.nn.functional.one_hot(torch.tensor(3), EVENTS.size).float()
        history = torch.cat([history, torch.multinomial(odds, 1)], dim=1)
        if (history[:, -1] == 3).all():
            break
    return history


def test_any_draw_by_the_grammar_is_a_file():
    kind, pitch, steps = EVENTS.token_table
    for row in drawn(np.zeros(0, dtype=np.int64), seconds=6.0):
        tokens = [int(token) for token in row if token != 3]
        sounding: dict[int, int] = {}
        now = 0
        for place, token in enumerate(tokens):
            above = int(pitch[token])
            if kind[token] == ON:
                assert above not in sounding
                sounding[above] = now
                assert kind[tokens[place + 1]] == VELOCITY
            elif kind[token] == OFF:
                assert sounding.pop(above) < now
            now += int(steps[token])
        assert not sounding
        assert now == 600  # not a step beyond what was asked for
        notes = EVENTS.decode(np.array(tokens))
        assert len(notes) == sum(int(kind[token] == ON) for token in tokens)
        if notes:
            assert midi.parse(midi.render(notes), "second", where="x.mid").notes


def test_a_performance_may_end_when_nothing_sounds(scale):
    tokens = torch.from_numpy(EVENTS.encode(scale))[None]
    free = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=60, min_seconds=0)
    kind = EVENTS.token_table[0]
    for place in range(tokens.shape[1] + 1):
        sounding = (kind[tokens[0, :place]] == ON).sum() > (kind[tokens[0, :place]] == OFF).sum()
        assert bool(free.allowed(tokens[:, :place])[0, 3]) == (place > 0 and not bool(sounding))
    exact = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=60, min_seconds=60)
    assert not exact.allowed(tokens)[0, 3]


def test_a_score_is_heard_at_its_tempo(tmp_path):
    path = tmp_path / "x.musicxml"
    note = "<note><pitch><step>C</step><octave>4</octave></pitch><duration>1</duration></note>"
    tempo = '<direction><sound tempo="60"/></direction>'
    attributes = "<attributes><divisions>1</divisions></attributes>"
    score = f"<score-partwise><part><measure>{attributes}{{}}</measure></part></score-partwise>"
    path.write_text(score.format(tempo + note * 2))
    opened = EVENTS.open(path)
    assert [(one.start, one.end) for one in opened.content] == [(0, 1), (1, 2)] and opened.parsed.timing.tempo == 60
    path.write_text(score.format(note))
    assert EVENTS.open(path).content[0].end == pytest.approx(0.6)


def test_what_is_cut_short_can_be_played_too(scale):
    tokens = EVENTS.encode(scale)
    for end in range(1, len(tokens)):
        notes = EVENTS.decode(tokens[:end])
        assert all(note.end > note.start for note in notes)
        assert len(notes) <= len(scale)


def test_a_primer_is_gone_on_from(scale):
    tokens = EVENTS.encode(scale)
    on = int(np.flatnonzero(EVENTS.token_table[0].numpy()[tokens] == ON)[-1])
    may = EVENTS.grammar(tokens[: on + 2], seconds=5, min_seconds=5).allowed(torch.zeros(1, 0, dtype=torch.long))[0]
    kind, pitch, _ = EVENTS.token_table
    assert may[kind == SHIFT].all()
    assert not may[(kind == OFF)].any()  # the last note was struck this very moment
    assert not may[(kind == ON) & (pitch == pitch[tokens[on]])].any()
    assert EVENTS.grammar(tokens[: on + 1], seconds=5, min_seconds=5).allowed(torch.zeros(1, 0, dtype=torch.long))[
        0
    ].nonzero().shape == (
        32,
        1,
    )


def test_real_music_follows_the_grammar(scale):
    chords = [note._replace(pitch=note.pitch + more) for note in scale for more in (0, 4, 7)]
    tokens = torch.from_numpy(EVENTS.encode(resolve_overlaps(chords, "x").notes))[None]
    grammar = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=1e6, min_seconds=0)
    for place in range(tokens.shape[1]):
        assert grammar.allowed(tokens[:, :place])[0, tokens[0, place]]


def test_a_note_that_is_forgotten_ends_before_anything_else():
    held = EVENTS.encode([Note(0, 30, 60, 64), Note(2, 30, 64, 64), Note(9, 9.5, 67, 64)])
    kind, pitch, steps = (table.numpy() for table in EVENTS.token_table)
    grammar = EVENTS.grammar(np.zeros(0, dtype=np.int64), seconds=60, min_seconds=0)
    now, forced = 0, []
    for place, token in enumerate(held):
        now += steps[token]
        may = grammar.allowed(torch.from_numpy(held[: place + 1])[None])[0]
        if kind[token] == SHIFT and now >= MAX_NOTE_SECONDS * EVENTS.rate:
            forced.append(sorted({(int(kind[one]), int(pitch[one])) for one in may.nonzero().flatten()}))
    assert forced[0] == [(OFF, 60 - EVENTS.low)]
    assert forced[-1] == [(OFF, 60 - EVENTS.low), (OFF, 64 - EVENTS.low)]


def test_what_does_not_fit(write):
    with pytest.raises(
        DataError, match=r"piece.mid: no note lies in 21 … 108, what this encoding holds; transpose it$"
    ):
        EVENTS.open(write([Note(0, 1, 5)]))
    opened = EVENTS.open(write([Note(0, 1, 60), Note(0.5, 2, 60, voice=1), Note(0, 1, 120)]))
    assert len(opened.content) == 2
    assert [remark.partition(": ")[2].split(";")[0] for remark in opened.remarks] == [
        "1 notes lie outside 21 … 108 (such as 120) and are left out",
        "1 notes overlap another of the same pitch",
    ]
    with pytest.raises(ConfigError, match=r"^low=9, high=3: pitches lie in 0 … 127, low below high$"):
        EventEncoding(9, 3)
    with pytest.raises(ConfigError, match=r"^rate=7, velocities=32: an even rate and 1 … 127 velocities are needed$"):
        EventEncoding(rate=7)
    assert EVENTS.max_tokens(10) == 2400
    assert EVENTS.notes(opened.content) == opened.content


def test_performances_of_pianists(shared_data, tmp_path):
    import tarfile

    with tarfile.open(shared_data / "asap_piano" / "test.tar.xz") as archive:
        members = [member for member in archive if member.name.endswith(".mid")][:2]
        for member in members:
            taken = archive.extractfile(member)
            assert taken is not None
            content = EVENTS.open(tmp_path / member.name, taken.read()).content
            found = EVENTS.decode(EVENTS.encode(content))
            assert len(found) == len(content)
            pairs = zip(*(sorted(part, key=lambda n: (n.pitch, n.start)) for part in (content, found)), strict=True)
            assert max(abs(one.start - other.start) for one, other in pairs) <= STEP + SLACK


def test_tokens_have_names_and_places():
    tokens = EVENTS.encode([Note(0.12, 0.5, 60, 79)])
    assert [EVENTS.label(int(token), 0) for token in tokens] == ["+120 ms", "on C4", "velocity 79", "+380 ms", "off C4"]
    assert EVENTS.piano_roll_points(tokens) == [None, (0.12, 60), (0.12, 60), None, (0.5, 60)]


def test_the_beginning_of_a_performance():
    notes = [Note(1.0, 3.0, 60), Note(2.0, 4.0, 62), Note(3.0, 4.0, 64)]
    assert EventEncoding().crop_start(notes, 2.5) == [Note(1.0, 2.5, 60), Note(2.0, 2.5, 62)]
    with pytest.raises(DataError, match=r"^no note of the prompt begins in its first 1 seconds; keep more of it$"):
        EventEncoding().crop_start(notes, 1.0)
