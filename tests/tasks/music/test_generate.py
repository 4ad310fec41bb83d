"""Generated pieces: length, prompts, melodies, infilling, seeds, and the sliding context."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import symusic
import torch

from regard.core.data_specs import MusicSpec
from regard.core.errors import ConfigError, DataError
from regard.core.protocols import Padded
from regard.data.music import dataset, midi
from regard.data.music.grid_encoding import VOICE_NAMES
from regard.data.music.metre import Metre
from regard.data.music.notes import Note
from regard.decoding import strategy
from regard.models import music_transformer
from regard.tasks.music import Config, Music, Options, build
from regard.tasks.music.generate import Composition, SlidingWindowDecoder
from regard.tasks.music.metrics import compare_statistics

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


def compose(task: Music, model, path: str = "", **options) -> list[Composition]:
    """Return the pieces of one request, with the default settings of `sample` as the run's decoding."""
    (predictions,) = task.predict(model, [task.parse_input(path)], Options(**options), strategy.build("sample"))
    return [prediction.value for prediction in predictions]


def compared(task: Music, model, split: str, *, samples: int, length: float) -> dict[str, float]:
    pieces = task.generator.generate_unconditional(model, strategy.build("sample", num_samples=samples), seconds=length)
    return compare_statistics(pieces, [piece.content for piece in task.split(split)], task.encoding)


def seconds(task: Music, steps: int) -> float:
    return steps * task.encoding.step_seconds


def test_twice_the_training_length_without_a_prompt(task, model):
    pieces = compose(task, model, seconds=seconds(task, 32), exact_length=True, n=3)
    assert len(pieces) == 3
    assert [len(piece.tokens) for piece in pieces] == [128] * 3  # trained on 64
    assert len({piece.tokens.tobytes() for piece in pieces}) == 3
    assert [piece.score for piece in pieces] == sorted((piece.score for piece in pieces), reverse=True)
    for piece in pieces:
        again = midi.parse(midi.render(piece.notes, tempo=90, names=VOICE_NAMES), "second", where="x.mid")
        assert len(again.notes) == len(piece.notes)
    same = compose(task, model, seconds=seconds(task, 32), exact_length=True, n=3)
    assert [piece.tokens.tolist() for piece in same] == [piece.tokens.tolist() for piece in pieces]


def test_scores_are_those_of_the_model(task, model):
    (piece,) = compose(task, model, seconds=seconds(task, 6))
    row = torch.tensor([[2, *piece.tokens.tolist()]])
    with torch.no_grad():
        logits, _ = model.eval()(row, model.start(task.classes.encode_request([])))
    labels = torch.tensor([*piece.tokens.tolist(), 3])[:, None]
    assert piece.score == pytest.approx(logits[0].log_softmax(-1).gather(1, labels).sum().item(), abs=1e-3)


def test_a_prompt_is_kept_and_continued(task, model, melody):
    step = 60 / TEMPO / 4  # of the prompt
    (piece,) = compose(task, model, prompt=melody, seconds=5 * step, exact_length=True)
    prompt_tokens = task.encoding.encode(task.encoding.open(melody).content)
    assert len(prompt_tokens) == len(LINE) * 4 * 4
    assert piece.tokens[: len(prompt_tokens)].tolist() == prompt_tokens.tolist()
    assert len(piece.tokens) == len(prompt_tokens) + 5 * 4
    assert piece.prompt_seconds == pytest.approx(len(LINE) * 60 / TEMPO)
    (short,) = compose(task, model, prompt=melody, prompt_seconds=3 * step, seconds=2 * step, exact_length=True)
    assert len(short.tokens) == 20
    assert short.tokens[:12].tolist() == prompt_tokens[:12].tolist()


def test_the_model_decides_the_end_unless_a_length_is_given(task, model):
    with torch.no_grad():
        model.readout.bias[3] += 3.0  # EOS becomes likely
    lengths = [len(piece.tokens) for piece in compose(task, model, n=24)]
    assert all(length % 4 == 0 and length > 0 for length in lengths) and len(set(lengths)) > 3
    assert lengths != sorted(lengths)  # ranking does not favor short pieces
    bound = [len(piece.tokens) for piece in compose(task, model, n=24, seconds=seconds(task, 2))]
    assert max(bound) == 8 and min(bound) < 8
    exact = compose(task, model, n=3, seconds=seconds(task, 9), exact_length=True)
    assert [len(piece.tokens) for piece in exact] == [36] * 3


def test_a_melody_is_kept_note_by_note_and_the_other_voices_are_new(task, model, melody):
    (piece,) = compose(task, model, harmonise=melody)
    grid = task.encoding.decode(piece.tokens)
    assert grid[:, 0].tolist() == [pitch for pitch in LINE for _ in range(4)]
    assert len(set(grid[:, 1:].flatten().tolist())) > 4
    melody_notes = [note for note in piece.notes if note.voice == 0]
    assert [note.pitch for note in melody_notes] == LINE  # 74 twice: two notes, not one
    assert [note.start for note in melody_notes] == pytest.approx([i * 60 / TEMPO for i in range(len(LINE))], abs=1e-3)
    (short,) = compose(task, model, harmonise=melody, seconds=3 * 60 / TEMPO / 4)
    assert len(short.tokens) == 12


def test_a_melody_that_does_not_fit_the_grid_is_returned_unchanged(task, model, tmp_path):
    path = tmp_path / "high.mid"
    line = [Note(i / 3, (i + 1) / 3, 84 + i) for i in range(4)] + [
        Note(4 / 3 + i / 16, 4 / 3 + (i + 1) / 16, 90) for i in range(3)
    ]
    path.write_bytes(midi.render([*line, Note(0, 1, 50)], tempo=60))
    (answer,) = task.predict(model, [None], Options(harmonise=path), strategy.build("sample"))[0]
    melody_notes = [note for note in answer.notes if note.voice == 0]
    assert [note.pitch for note in melody_notes] == [note.pitch for note in line]
    assert [note.start for note in melody_notes] == pytest.approx([note.start for note in line], abs=2e-3)
    assert answer.remarks == (f"{path}: the highest notes are the melody; 1 below it are left out",)


def test_the_sopranos_of_chorales_are_harmonized(task, model, tmp_path):
    for name, voices in sorted(dataset.chorales().items())[:2]:
        path = tmp_path / "melody.mid"
        soprano = [note._replace(voice=0) for note in task.encoding.notes(voices[:32]) if note.voice == 0]
        path.write_bytes(midi.render(soprano, tempo=90))
        (piece,) = compose(task, model, harmonise=path)
        assert [note.pitch for note in piece.notes if note.voice == 0] == [note.pitch for note in soprano], name


def test_voices_and_bars_are_filled_and_all_other_notes_are_kept(task, model, tmp_path):
    chorale = [[72, 65, 57, 48] if i % 8 < 4 else [74, 65, 59, 50] for i in range(48)]
    path = tmp_path / "four.mid"
    path.write_bytes(midi.render(task.encoding.notes(np.array(chorale)), tempo=90, names=VOICE_NAMES))
    content = task.encoding.open(path).content
    requests = [
        ({"voices": ("alto", "T")}, np.ix_(range(48), [1, 2])),
        ({"bars": "2"}, np.ix_(range(16, 32), range(4))),
        ({"bars": "1,3", "voices": ("bass",)}, np.ix_([*range(16), *range(32, 48)], [3])),
    ]
    for options, where in requests:
        (piece,) = compose(task, model, infill=path, **options)
        free = np.zeros((48, 4), dtype=bool)
        free[where] = True
        filled = task.encoding.decode(piece.tokens)
        assert (filled[~free] == content[~free]).all() and (filled[free] != content[free]).any()
        assert len([note for note in piece.notes if note.voice == 0]) >= (12 if "bars" not in options else 1)


def test_the_tempo_and_metre_of_a_prompt_are_kept(task, model, melody):
    for options in ({"prompt": melody}, {"harmonise": melody}, {"infill": melody, "voices": ("bass",)}):
        (answer,) = task.predict(model, [None], Options(**options), strategy.build("sample"))[0]
        score = symusic.Score.from_midi(answer.render(".mid"))
        assert score.tempos[0].qpm == pytest.approx(TEMPO, abs=0.01)
        assert (score.time_signatures[0].numerator, score.time_signatures[0].denominator) == (3, 4)
        assert {track.program for track in score.tracks} == {52}
        assert {track.name for track in score.tracks} <= set(VOICE_NAMES)


def test_temperature_zero_is_deterministic(task, model):
    (piece,), (repeated,) = (compose(task, model, seconds=1.0, temperature=0) for _ in range(2))
    assert piece.tokens.tolist() == repeated.tokens.tolist()
    row = torch.tensor([[2, *piece.tokens.tolist()]])
    with torch.no_grad():
        logits, _ = model.eval()(row[:, :1], model.start(task.classes.encode_request([])))
    assert piece.tokens[0] == int(logits[0, 0, 4:].argmax()) + 4


def test_condition_classes_change_the_piece(task, model):
    scores = [
        compose(task, model, seconds=seconds(task, 8), condition=classes)[0].score
        for classes in ((), ("major",), ("minor",))
    ]
    assert len(set(scores)) == 3
    with pytest.raises(DataError, match=r"^the model does not know the class 'Elgar'; known: major, minor$"):
        compose(task, model, seconds=1.0, condition=("Elgar",))
    with pytest.raises(ConfigError, match=r"^condition: a piece has one mode, not both minor and major; give one of"):
        compose(task, model, seconds=1.0, condition=("minor", "major"))


def test_a_piece_and_a_prompt_may_be_longer_than_the_context(task, model, tmp_path):
    long = tmp_path / "long.mid"
    long.write_bytes(midi.render([Note(i, i + 1, 60 + i % 5) for i in range(20)], tempo=60))
    (piece,) = compose(task, model, prompt=long, seconds=1.25, exact_length=True)
    assert len(piece.tokens) == 20 * 16 + 20  # the context is 256
    (piece,) = compose(task, model, seconds=seconds(task, 80), exact_length=True)
    assert len(piece.tokens) == 320


@pytest.mark.parametrize("encoding", ["events", "durations"])
def test_performances_have_the_requested_length(tmp_path, encoding):
    for i in range(3):
        notes = [Note(j * 0.25, j * 0.25 + 0.2, 50 + i + j * j % 12) for j in range(20)]
        (tmp_path / f"{i}.mid").write_bytes(midi.render(notes))
    task = build(Config(path=tmp_path, encoding=encoding, crop=32, window=0, max_length=64))
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=0, intervals=False), task.spec)
    for piece in compose(task, model, seconds=2.0, exact_length=True, n=2):
        assert max((note.end for note in piece.notes), default=2.0) < 4.0
    (piece,) = compose(task, model, seconds=80.0, exact_length=True)  # longer than the context
    assert len(piece.tokens) > 64 and 79 < max(note.end for note in piece.notes) < 83
    (piece,) = compose(task, model, seconds=1.0, prompt=tmp_path / "0.mid", prompt_seconds=1.0)
    assert sum(note.start < 0.99 for note in piece.notes) == 4
    with pytest.raises(
        DataError, match=r"0.mid: only a model of the grid encoding has voices to harmonise; use --prom"
    ):
        compose(task, model, harmonise=tmp_path / "0.mid")
    with pytest.raises(DataError, match=r"0.mid: only a model of the grid encoding has voices to infill; use --prompt"):
        compose(task, model, infill=tmp_path / "0.mid")
    late = tmp_path / "late.mid"
    late.write_bytes(midi.render([Note(3, 4, 60)]))
    with pytest.raises(DataError, match=r"^no note of the prompt starts in its first 1 seconds; use more of it$"):
        compose(task, model, prompt=late, prompt_seconds=1.0)
    assert set(compared(task, model, "train", samples=1, length=1.0)) >= {"pitch_distance", "velocity_data"}


def test_statistics_of_samples_and_data_have_the_same_names(task, model):
    statistics = compared(task, model, "valid", samples=2, length=seconds(task, 16))
    assert statistics["parallel_fifths_data"] == 0 and 0 <= statistics["pitch_distance"] <= 1
    names = [
        {name.removesuffix(suffix) for name in statistics if name.endswith(suffix)} for suffix in ("_data", "_samples")
    ]
    assert names[0] == names[1]


def test_cached_decoding_equals_recomputation(task, model):
    """A model that encodes all tokens again at every step generates the same piece."""

    class Uncached(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.readout = inner, inner.readout

        def start(self, source: Padded):
            return torch.zeros(len(source.tokens), 0, dtype=torch.long)

        def features(self, tokens, state):
            all_tokens = torch.cat([state, tokens], dim=1)
            source = Padded(torch.zeros(len(all_tokens), 1, dtype=torch.long), torch.ones(len(all_tokens)))
            x, _ = self.inner.features(all_tokens, self.inner.start(source))
            return x[:, -tokens.shape[1] :], all_tokens

        def forward(self, tokens, state):
            x, state = self.features(tokens, state)
            return self.readout(x), state

    length = seconds(task, 10)
    (piece,), (uncached,) = (
        compose(task, decoder, seconds=length, exact_length=True) for decoder in (model, Uncached(model))
    )
    assert piece.tokens.tolist() == uncached.tokens.tolist()


@pytest.mark.parametrize("sources", [("prompt", "harmonise"), ("", "prompt"), ("", "infill")], ids=str)
def test_a_request_has_one_file(task, model, melody, sources):
    files = {name: melody for name in sources if name}
    with pytest.raises(ConfigError, match=r"^more than one file; give one to continue, to harmonise or to infill$"):
        compose(task, model, str(melody) if "" in sources else "", **files)


def test_an_input_file_is_the_prompt(task, model, melody):
    for options in ({}, {"harmonise": melody}, {"infill": melody}):
        with pytest.raises(
            ConfigError, match=r"^prompt_seconds=1.0: there is no prompt to shorten; give one, or leave it out$"
        ):
            compose(task, model, prompt_seconds=1.0, **options)
    length = seconds(task, 3)
    (piece,), (same,) = (
        compose(task, model, str(melody), seconds=length),
        compose(task, model, prompt=melody, seconds=length),
    )
    assert piece.tokens.tolist() == same.tokens.tolist() and piece.prompt_seconds == same.prompt_seconds > 0


def test_corrections_of_the_input_are_remarks_of_the_prediction(task, model, tmp_path):
    low = tmp_path / "low.mid"
    low.write_bytes(midi.render([Note(0, 1, 20), Note(0, 1, 60)], tempo=60))
    options = Options(seconds=seconds(task, 2))
    (corrected,), (plain,) = task.predict(model, [task.parse_input(str(low)), None], options, strategy.build("sample"))
    assert corrected.remarks == (
        f"{low}: 1 notes lie outside 36 … 81 (such as 20) and are skipped",
        f"{low}: alto, tenor and bass are silent; --harmonise gives them notes",
    )
    assert corrected.to_json()["remarks"] == list(corrected.remarks) and "remarks" not in plain.to_json()


def test_a_prediction_has_midi_sound_image_and_text_files(task, model, melody):
    (answer,) = task.predict(model, [task.parse_input(str(melody))], Options(seconds=1.0), strategy.build("sample"))[0]
    assert answer.text == (
        f"{answer.value.notes[-1].end:.1f} s, {len(answer.value.notes)} notes, {len(answer.value.tokens)} tokens, "
        f"log p {answer.score:.1f}"
    )
    assert set(answer.files) == {".mid", ".wav", ".png", ".txt"}
    assert answer.render(".mid")[:4] == b"MThd" and answer.render(".wav")[:4] == b"RIFF"
    assert answer.render(".png")[1:4] == b"PNG" and "═" in answer.render(".txt").decode()


def test_the_latest_bars_are_encoded_again_when_the_context_is_full():
    torch.manual_seed(0)
    model = music_transformer.build(
        music_transformer.TINY, MusicSpec(num_conditions=5, vocab_size=19, max_length=12)
    ).eval()
    condition = Padded(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
    sliding = SlidingWindowDecoder(model, lambda position: model.start(condition), max_length=12, bar=4)
    tokens = torch.randint(4, 19, (1, 40))
    state = sliding.start(tokens)
    with torch.no_grad():
        for position in range(40):
            logits, state = sliding(tokens[:, position : position + 1], state)
            assert state.num_dropped % 4 == 0 and position + 1 - state.num_dropped <= 12
            expected, _ = model(tokens[:, state.num_dropped : position + 1], model.start(condition))
            torch.testing.assert_close(logits[:, -1], expected[:, -1], atol=1e-5, rtol=1e-4)
        _, all_at_once = sliding.features(tokens, sliding.start(tokens))
        assert all_at_once.num_dropped == 36 or 40 - all_at_once.num_dropped <= 12
    assert state.tokens.tolist() == tokens.tolist()
