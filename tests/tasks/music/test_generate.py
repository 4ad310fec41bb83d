"""New pieces: as long as asked for, the primer kept, the soprano kept, the same for the same seed, always playable."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import symusic
import torch

from regard.core.errors import ConfigError, DataError
from regard.core.protocols import Padded
from regard.data.music import dataset, midi
from regard.data.music.grid_encoding import VOICE_NAMES
from regard.data.music.metre import Metre
from regard.data.music.notes import Note
from regard.decoding import strategy
from regard.models import music_transformer
from regard.tasks.music import Config, Music, Options, build
from regard.tasks.music.generate import Composition, compare_statistics

LINE = [72, 74, 74, 77, 79, 65, 62, 74]
TEMPO = 110.0


@pytest.fixture
def task(tmp_path: Path) -> Music:
    piece = [[72 + i % 3, 65, 57, 48] for i in range(32)]
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"train": [piece], "valid": [piece], "test": [piece]}))
    return build(Config(path=path, crop=64, window=64, max_length=256, conditions=("mode",)))


@pytest.fixture
def model(task: Music):
    torch.manual_seed(0)
    tiny = replace(music_transformer.TINY, voices=4, bar=16)
    return music_transformer.build(tiny, task.spec)


@pytest.fixture
def melody(tmp_path: Path, task: Music) -> Path:
    path, quarter = tmp_path / "melody.mid", 60 / TEMPO
    notes = [Note(i * quarter, (i + 1) * quarter, pitch) for i, pitch in enumerate(LINE)]
    path.write_bytes(midi.render(notes, tempo=TEMPO, metres=[Metre(0, 3, 4)]))
    return path


def compose(task: Music, model, given: str = "", **wishes) -> list[Composition]:
    """The pieces of one request, with the settings of `sample` as the run's own."""
    (answers,) = task.predict(model, [task.parse_input(given)], Options(**wishes), strategy.build("sample"))
    return [answer.value for answer in answers]


def compared(task: Music, model, split: str, *, samples: int, length: float) -> dict[str, float]:
    drawn = task.generator.generate_unconditional(model, strategy.build("sample", samples=samples), seconds=length)
    return compare_statistics(drawn, [piece.content for piece in task.split(split)], task.encoding)


def seconds(task: Music, steps: int) -> float:
    return steps * task.encoding.step


def test_twice_the_training_length_from_nothing(task, model):
    made = compose(task, model, seconds=seconds(task, 32), exactly=True, samples=3)
    assert len(made) == 3
    assert [len(piece.tokens) for piece in made] == [128] * 3  # trained on 64
    assert len({piece.tokens.tobytes() for piece in made}) == 3
    assert [piece.score for piece in made] == sorted((piece.score for piece in made), reverse=True)
    for piece in made:
        again = midi.parse(midi.render(piece.notes, tempo=90, names=VOICE_NAMES), "second", where="x.mid")
        assert len(again.notes) == len(piece.notes)
    same = compose(task, model, seconds=seconds(task, 32), exactly=True, samples=3)
    assert [piece.tokens.tolist() for piece in same] == [piece.tokens.tolist() for piece in made]


def test_scores_are_those_of_the_model(task, model):
    (piece,) = compose(task, model, seconds=seconds(task, 6))
    row = torch.tensor([[2, *piece.tokens.tolist()]])
    with torch.no_grad():
        logits, _ = model.eval()(row, model.start(task.classes.ask([])))
    labels = torch.tensor([*piece.tokens.tolist(), 3])[:, None]
    assert piece.score == pytest.approx(logits[0].log_softmax(-1).gather(1, labels).sum().item(), abs=1e-3)


def test_a_primer_is_kept_and_continued(task, model, melody):
    step = 60 / TEMPO / 4  # the primer's own
    (piece,) = compose(task, model, prompt=melody, seconds=5 * step, exactly=True)
    given = task.encoding.encode(task.encoding.open(melody).content)
    assert len(given) == len(LINE) * 4 * 4
    assert piece.tokens[: len(given)].tolist() == given.tolist()
    assert len(piece.tokens) == len(given) + 5 * 4
    assert piece.prompt_seconds == pytest.approx(len(LINE) * 60 / TEMPO)
    (short,) = compose(task, model, prompt=melody, keep=3 * step, seconds=2 * step, exactly=True)
    assert len(short.tokens) == 20
    assert short.tokens[:12].tolist() == given[:12].tolist()


def test_a_piece_ends_when_it_wants_to_unless_it_is_told_how_long_it_is(task, model):
    with torch.no_grad():
        model.readout.bias[3] += 3.0  # it wants to end soon
    lengths = [len(piece.tokens) for piece in compose(task, model, samples=24)]
    assert all(length % 4 == 0 and length > 0 for length in lengths) and len(set(lengths)) > 3
    assert lengths != sorted(lengths)  # the shortest is not the best for that alone
    bound = [len(piece.tokens) for piece in compose(task, model, samples=24, seconds=seconds(task, 2))]
    assert max(bound) == 8 and min(bound) < 8
    exact = compose(task, model, samples=3, seconds=seconds(task, 9), exactly=True)
    assert [len(piece.tokens) for piece in exact] == [36] * 3


def test_a_tune_is_kept_note_by_note_and_the_others_are_new(task, model, melody):
    (piece,) = compose(task, model, harmonise=melody)
    grid = task.encoding.decode(piece.tokens)
    assert grid[:, 0].tolist() == [pitch for pitch in LINE for _ in range(4)]
    assert len(set(grid[:, 1:].flatten().tolist())) > 4
    tune = [note for note in piece.notes if note.voice == 0]
    assert [note.pitch for note in tune] == LINE  # 74 twice: struck again, not held
    assert [note.start for note in tune] == pytest.approx([i * 60 / TEMPO for i in range(len(LINE))], abs=1e-3)
    (short,) = compose(task, model, harmonise=melody, seconds=3 * 60 / TEMPO / 4)
    assert len(short.tokens) == 12


def test_a_tune_that_the_grid_has_no_place_for_comes_back_all_the_same(task, model, tmp_path):
    path = tmp_path / "high.mid"
    line = [Note(i / 3, (i + 1) / 3, 84 + i) for i in range(4)] + [
        Note(4 / 3 + i / 16, 4 / 3 + (i + 1) / 16, 90) for i in range(3)
    ]
    path.write_bytes(midi.render([*line, Note(0, 1, 50)], tempo=60))
    (answer,) = task.answer(model, [None], Options(harmonise=path), strategy.build("sample"))[0]
    tune = [note for note in answer.notes if note.voice == 0]
    assert [note.pitch for note in tune] == [note.pitch for note in line]
    assert [note.start for note in tune] == pytest.approx([note.start for note in line], abs=2e-3)
    assert answer.remarks == (f"{path}: the highest notes are the tune; 1 below it are left out",)


def test_the_sopranos_of_chorales_are_harmonised_whole(task, model, tmp_path):
    for name, voices in sorted(dataset.chorales().items())[:3]:
        path = tmp_path / "tune.mid"
        own = [note._replace(voice=0) for note in task.encoding.notes(voices[:64]) if note.voice == 0]
        path.write_bytes(midi.render(own, tempo=90))
        (piece,) = compose(task, model, harmonise=path)
        assert [note.pitch for note in piece.notes if note.voice == 0] == [note.pitch for note in own], name


def test_voices_and_bars_are_filled_and_all_else_is_kept(task, model, tmp_path):
    chorale = [[72, 65, 57, 48] if i % 8 < 4 else [74, 65, 59, 50] for i in range(48)]
    path = tmp_path / "four.mid"
    path.write_bytes(midi.render(task.encoding.notes(np.array(chorale)), tempo=90, names=VOICE_NAMES))
    given = task.encoding.open(path).content
    wishes = [
        ({"voices": ("alto", "T")}, np.ix_(range(48), [1, 2])),
        ({"bars": "2"}, np.ix_(range(16, 32), range(4))),
        ({"bars": "1,3", "voices": ("bass",)}, np.ix_([*range(16), *range(32, 48)], [3])),
    ]
    for wish, where in wishes:
        (piece,) = compose(task, model, infill=path, **wish)
        free = np.zeros((48, 4), dtype=bool)
        free[where] = True
        made = task.encoding.decode(piece.tokens)
        assert (made[~free] == given[~free]).all() and (made[free] != given[free]).any()
        assert len([note for note in piece.notes if note.voice == 0]) >= (12 if "bars" not in wish else 1)


def test_the_pace_of_a_prompt_is_kept(task, model, melody):
    for wish in ({"prompt": melody}, {"harmonise": melody}, {"infill": melody, "voices": ("bass",)}):
        (answer,) = task.answer(model, [None], Options(**wish), strategy.build("sample"))[0]
        score = symusic.Score.from_midi(answer.render(".mid"))
        assert score.tempos[0].qpm == pytest.approx(TEMPO, abs=0.01)
        assert (score.time_signatures[0].numerator, score.time_signatures[0].denominator) == (3, 4)
        assert {track.program for track in score.tracks} == {52}
        assert {track.name for track in score.tracks} <= set(VOICE_NAMES)


def test_the_likeliest_piece(task, model):
    (piece,), (other,) = (compose(task, model, seconds=1.0, temperature=0) for _ in range(2))
    assert piece.tokens.tolist() == other.tokens.tolist()
    row = torch.tensor([[2, *piece.tokens.tolist()]])
    with torch.no_grad():
        logits, _ = model.eval()(row[:, :1], model.start(task.classes.ask([])))
    assert piece.tokens[0] == int(logits[0, 0, 4:].argmax()) + 4


def test_a_class_is_an_input(task, model):
    drawn = [
        compose(task, model, seconds=seconds(task, 8), like=classes)[0].score
        for classes in ((), ("major",), ("minor",))
    ]
    assert len(set(drawn)) == 3
    with pytest.raises(DataError, match=r"^the model does not know the class 'Elgar'; known: major, minor$"):
        compose(task, model, seconds=1.0, like=("Elgar",))
    with pytest.raises(ConfigError, match=r"^like: a piece is of one mode, not both minor and major; ask for one of"):
        compose(task, model, seconds=1.0, like=("minor", "major"))


def test_a_piece_and_a_primer_may_be_longer_than_the_memory(task, model, tmp_path):
    long = tmp_path / "long.mid"
    long.write_bytes(midi.render([Note(i, i + 1, 60 + i % 5) for i in range(20)], tempo=60))
    (piece,) = compose(task, model, prompt=long, seconds=1.25, exactly=True)
    assert len(piece.tokens) == 20 * 16 + 20  # the model remembers 256
    (piece,) = compose(task, model, seconds=seconds(task, 80), exactly=True)
    assert len(piece.tokens) == 320


def test_performances_end_when_they_are_long_enough(tmp_path):
    for i in range(3):
        notes = [Note(j * 0.25, j * 0.25 + 0.2, 50 + i + j * j % 12) for j in range(20)]
        (tmp_path / f"{i}.mid").write_bytes(midi.render(notes))
    task = build(Config(path=tmp_path, encoding="events", crop=32, window=0, max_length=64))
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=0, intervals=False), task.spec)
    for piece in compose(task, model, seconds=2.0, exactly=True, samples=2):
        assert max((note.end for note in piece.notes), default=2.0) < 4.0
    (piece,) = compose(task, model, seconds=80.0, exactly=True)  # more than the model remembers
    assert len(piece.tokens) > 64 and 79 < max(note.end for note in piece.notes) < 83
    (piece,) = compose(task, model, seconds=1.0, prompt=tmp_path / "0.mid", keep=1.0)
    assert sum(note.start < 0.99 for note in piece.notes) == 4
    with pytest.raises(
        DataError, match=r"0.mid: only a model of the grid encoding has voices to harmonise; use --prom"
    ):
        compose(task, model, harmonise=tmp_path / "0.mid")
    with pytest.raises(DataError, match=r"0.mid: only a model of the grid encoding has voices to infill; use --prompt"):
        compose(task, model, infill=tmp_path / "0.mid")
    late = tmp_path / "late.mid"
    late.write_bytes(midi.render([Note(3, 4, 60)]))
    with pytest.raises(DataError, match=r"^no note of the prompt begins in its first 1 seconds; keep more of it$"):
        compose(task, model, prompt=late, keep=1.0)
    assert set(compared(task, model, "train", samples=1, length=1.0)) >= {"pitch_distance", "velocity_data"}


def test_samples_are_measured_beside_the_data(task, model):
    found = compared(task, model, "valid", samples=2, length=seconds(task, 16))
    assert found["parallel_fifths_data"] == 0 and 0 <= found["pitch_distance"] <= 1
    names = [{name.removesuffix(whose) for name in found if name.endswith(whose)} for whose in ("_data", "_samples")]
    assert names[0] == names[1]


def test_cached_steps_are_the_whole_recomputed(task, model):
    """The same draws from a model that reads its whole past anew at every step."""

    class Forgetful(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.readout = inner, inner.readout

        def start(self, source: Padded):
            return torch.zeros(len(source.tokens), 0, dtype=torch.long)

        def features(self, tokens, state):
            whole = torch.cat([state, tokens], dim=1)
            source = Padded(torch.zeros(len(whole), 1, dtype=torch.long), torch.ones(len(whole)))
            x, _ = self.inner.features(whole, self.inner.start(source))
            return x[:, -tokens.shape[1] :], whole

        def forward(self, tokens, state):
            x, state = self.features(tokens, state)
            return self.readout(x), state

    length = seconds(task, 10)
    (piece,), (other,) = (compose(task, one, seconds=length, exactly=True) for one in (model, Forgetful(model)))
    assert piece.tokens.tolist() == other.tokens.tolist()


@pytest.mark.parametrize("wishes", [("prompt", "harmonise"), ("", "prompt"), ("", "infill")], ids=str)
def test_a_request_has_one_file(task, model, melody, wishes):
    named = {name: melody for name in wishes if name}
    with pytest.raises(ConfigError, match=r"^a prompt is continued, a tune harmonised, a gap filled; give one file$"):
        compose(task, model, str(melody) if "" in wishes else "", **named)


def test_a_file_that_is_given_is_the_prompt(task, model, melody):
    for wish in ({}, {"harmonise": melody}, {"infill": melody}):
        with pytest.raises(ConfigError, match=r"^keep=1.0: it is how much of a prompt is used; give a prompt"):
            compose(task, model, keep=1.0, **wish)
    length = seconds(task, 3)
    (piece,), (other,) = (
        compose(task, model, str(melody), seconds=length),
        compose(task, model, prompt=melody, seconds=length),
    )
    assert piece.tokens.tolist() == other.tokens.tolist() and piece.prompt_seconds == other.prompt_seconds > 0


def test_what_was_mended_is_told_with_the_answer(task, model, tmp_path):
    low = tmp_path / "low.mid"
    low.write_bytes(midi.render([Note(0, 1, 20), Note(0, 1, 60)], tempo=60))
    options = Options(seconds=seconds(task, 2))
    (mended,), (plain,) = task.answer(model, [task.read(str(low)), None], options, strategy.build("sample"))
    assert mended.remarks == (f"{low}: 1 notes lie outside 36 … 81 (such as 20) and are left out",)
    assert mended.to_json()["remarks"] == list(mended.remarks) and "remarks" not in plain.to_json()


def test_an_answer_can_be_heard_seen_and_read(task, model, melody):
    (answer,) = task.answer(model, [task.read(str(melody))], Options(seconds=1.0), strategy.build("sample"))[0]
    assert answer.text == (
        f"{answer.value.notes[-1].end:.1f} s, {len(answer.value.notes)} notes, {len(answer.value.tokens)} tokens, "
        f"log p {answer.score:.1f}"
    )
    assert set(answer.files) == {".mid", ".wav", ".png", ".txt"}
    assert answer.render(".mid")[:4] == b"MThd" and answer.render(".wav")[:4] == b"RIFF"
    assert answer.render(".png")[1:4] == b"PNG" and "═" in answer.render(".txt").decode()
