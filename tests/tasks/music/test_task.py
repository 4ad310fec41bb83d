"""Music as a task: what is counted in the loss, what evaluation reads, transposition, conditions, saving."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.core.data_specs import MusicSpec
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.protocols import TargetMetric
from regard.data.music import midi
from regard.data.music.grid_encoding import REST
from regard.data.music.key import find_key, shift_key
from regard.data.music.notes import Note
from regard.models import music_transformer
from regard.tasks.music import Config, build, crops, load
from regard.tasks.music.crops import Crop, add_special_tokens


def chorale(steps: int, seed: int) -> list[list[int]]:
    """Four voices that hold and move by step, in C major."""
    random = np.random.default_rng(seed)
    scale = [p for p in range(40, 80) if p % 12 in (0, 2, 4, 5, 7, 9, 11)]
    places = np.array([20, 16, 11, 5])
    rows = []
    for step in range(steps):
        if step % 4 == 0:
            places = np.clip(places + random.integers(-1, 2, 4), 2, 21)
        rows.append([scale[place] for place in places])
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = {"train": [chorale(40, 1), chorale(25, 2), chorale(16, 3)], "valid": [chorale(30, 4)], "test": []}
    file = tmp_path / "set.json"
    file.write_text(json.dumps(table))
    return file


@pytest.fixture
def config(path: Path) -> Config:
    return Config(path=path, crop=64, window=64, batch_size=2, max_length=256)


def model_for(task, **changes):
    torch.manual_seed(0)
    tiny = replace(music_transformer.TINY, voices=4, bar=16, **changes)
    return music_transformer.build(tiny, task.sizes)


def test_a_batch_is_crops_of_transposed_pieces(config):
    task = build(config)
    whole = [add_special_tokens(task.encoding.encode(piece.content)) for piece in task.split("train")]
    for examples in task.epoch_batches(0, 1):
        batch = task.collate(examples)
        for number, row, length in zip(examples, batch.target.tokens, batch.target.lengths, strict=True):
            crop = crops.unpack(int(number))
            expected = task.encoding.transpose(whole[crop.piece], crop.shift)[crop.start :][: config.crop + 1]
            assert row[:length].tolist() == expected.tolist()
            assert (row[length:] == 0).all()
            assert row[row > REST].max() < task.spec.tokens


def test_augmentation_never_leaves_the_range(config):
    task = build(replace(config, transpose=40))
    for epoch in range(3):
        for examples in task.epoch_batches(epoch, 1):
            tokens = task.collate(examples).target.tokens
            assert tokens.min() >= 0
            assert tokens.max() < task.spec.tokens


def test_padding_is_never_counted(config):
    task = build(config)
    model = model_for(task).eval()
    batch = task.collate(np.array([crops.pack(Crop(0, 0)), crops.pack(Crop(0, 128))]))
    assert (batch.target.tokens == 0).any()
    both = task.loss(model, batch)
    alone = [task.loss(model, task.collate(np.array([crops.pack(Crop(0, place))]))) for place in (0, 128)]
    assert both.count == sum(part.count for part in alone) == int((batch.target.lengths - 1).sum())
    assert both.total.item() == pytest.approx(sum(part.total.item() for part in alone), rel=1e-5)


def test_nats_are_the_mean_over_note_tokens_alone(config):
    """By hand: one piece whole, without windows; the end mark has a probability but is no note."""
    task = build(replace(config, window=0))
    model = model_for(task).eval()
    (piece,) = task.split("valid")
    tokens = torch.from_numpy(add_special_tokens(task.encoding.encode(piece.content)))[None]
    with torch.no_grad():
        logits, _ = model(tokens[:, :-1], model.start(task.classes.encode_request([])))
    picked = -logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[0, :, 0]
    found = task.evaluate(model, "valid", None)["nats"]
    assert found == pytest.approx(picked[:-1].mean().item(), abs=1e-5)
    assert len(picked) - 1 == 30 * 4


def test_an_even_model_has_the_logarithm_of_the_vocabulary(config):
    task = build(config)
    model = model_for(task)
    torch.nn.init.zeros_(model.readout.weight)
    torch.nn.init.zeros_(model.readout.bias)
    assert task.evaluate(model, "valid", None)["nats"] == pytest.approx(math.log(task.spec.tokens), abs=1e-5)


def test_windows_count_every_token_once_and_see_the_right_past(config):
    task = build(config)
    model = model_for(task).eval()
    (windowed,) = task.token_nats(model, "valid", window=64)
    (whole,) = task.token_nats(model, "valid", window=0)
    assert len(windowed) == len(whole) == 120
    np.testing.assert_allclose(windowed[:64], whole[:64], atol=1e-5)  # the first window is all that whole sees
    assert (windowed > 0).all()
    assert not np.allclose(windowed[64:], whole[64:])  # later ones see less


def test_evaluation_leaves_the_model_as_it_was(config):
    task = build(config)
    model = model_for(task).train()
    task.evaluate(model, "valid", None)
    assert model.training


def test_conditions_are_told_move_with_the_key_and_are_dropped(config):
    task = build(replace(config, conditions=("composer", "key", "mode"), drop=0.5))
    assert "composer:Bach" in task.classes.names
    keys = [find_key(task.encoding.notes(piece.content)) for piece in task.split("train")]
    seen = set()
    for epoch in range(3):
        for examples in task.epoch_batches(epoch, 1):
            for number, row in zip(examples, task.collate(examples).source.tokens.tolist(), strict=True):
                crop = crops.unpack(int(number))
                names = [task.classes.names[token - 4] for token in row if token]
                told = [name for name in names if name.startswith("key:")]
                assert told in ([], [f"key:{shift_key(keys[crop.piece], crop.shift)}"])
                seen.add(len(names))
    assert seen == {0, 1, 2, 3}


def test_the_example_is_the_beginning_of_a_validation_piece(config, tmp_path):
    task = build(config)
    assert task.examples == ("",)
    task.save(tmp_path)
    again = load(config, tmp_path)
    path, nothing = again.examples
    content = again.parse_input(path).parsed.content
    assert content.tolist() == task.split("valid")[0].content[: len(content)].tolist() and len(content) == 30
    assert again.parse_input(nothing) is None and again.parse_input(" ") is None
    (tmp_path / "example.mid").unlink()  # a run that is older than examples
    older = load(config, tmp_path)
    assert older.examples == ("",)
    (tmp_path / "copy").mkdir()
    older.save(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["music.json"]


def test_saved_loaded_saved_is_the_same(config, tmp_path):
    task = build(replace(config, conditions=("mode",)))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    task.save(tmp_path / "one")
    again = load(replace(config, path=tmp_path / "gone.json"), tmp_path / "one")  # the data is not needed
    again.save(tmp_path / "two")
    for name in ("music.json", "example.mid"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert again.spec == task.spec == build(config, tmp_path / "one").spec
    assert isinstance(again.spec, MusicSpec)


def test_events_with_tempo(tmp_path):
    for i in range(4):
        notes = [Note(j * 0.25, j * 0.25 + 0.2, 50 + i + j * j % 12) for j in range(20)]
        (tmp_path / f"{i}.mid").write_bytes(midi.render(notes))
    task = build(Config(path=tmp_path, encoding="events", crop=32, window=0, batch_size=2, tempo=0.1, max_length=512))
    slow, fast = (task.encoding.decode(task.training_pieces.tokens(0, tempo)[1:-1]) for tempo in (4, 0))
    assert slow[-1].start == pytest.approx(1.1 * 19 * 0.25, abs=0.02)
    assert fast[-1].start == pytest.approx(0.9 * 19 * 0.25, abs=0.02)
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=0, intervals=False), task.spec)
    assert task.loss(model, task.collate(task.epoch_batches(0, 1)[0])).total.isfinite()
    assert 0 < task.evaluate(model, "valid", None)["nats"] < 20
    folder = tmp_path / "run"
    folder.mkdir()
    task.save(folder)
    table = json.loads((folder / "music.json").read_text())
    (folder / "music.json").write_text(json.dumps(table | {"size": 5}))
    with pytest.raises(CheckpointError, match=r"music.json: its encoding had 5 tokens, this one has 314; install the"):
        load(task.config, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, r"^crop and rows must be at least 1, window and transpose at least 0$"),
        ({"drop": 1.5}, r"^tempo=0.0, drop=1.5, shown=0.0: shares lie in 0 … 1$"),
        ({"tempo": 0.1}, r"^tempo=0.1: the grid has no tempo; use encoding='events', or tempo=0$"),
        ({"longest": 100}, r"^longest=100 is less than crop=512 or window=512; raise it$"),
        ({"crop": 100}, r"^crop=100, window=512: the grid needs multiples of 64, a bar$"),
    ],
)
def test_settings_that_cannot_be(change, message):
    with pytest.raises(ConfigError, match=message):
        Config(**change)


def test_splits_that_are_not_there(config, tmp_path):
    task = build(config)
    with pytest.raises(DataError, match=r"^the data has no split 'vaild'; did you mean 'valid'\?$"):
        task.split("vaild")
    with pytest.raises(DataError, match=r"^the split 'test' has no pieces; give more data$"):
        task.split("test")
    with pytest.raises(
        CheckpointError, match=r"music.json: missing or damaged \(FileNotFoundError.*; copy it from the"
    ):
        load(config, tmp_path)


def test_what_is_reported(config):
    task = build(config)
    assert task.target_metric == TargetMetric("nats", higher_is_better=False)
    assert task.target_metric.metric in task.evaluate(model_for(task), "valid", None)
    assert task.signatures()["nats"].startswith("mean -log p per note token (rests included; marks and padding not)")
    assert task.data_warnings() == []
    assert task.data_summary() == [
        "pieces: train 3, valid 1, test 0; 51 tokens of the encoding 'grid'",
        "first piece: train 0 -> 6.7 s",
    ]


def test_other_pieces_have_another_fingerprint(config, path):
    before = build(config).fingerprint()
    assert build(config).fingerprint() == before and set(before) == {"train", "valid", "test"}
    table = json.loads(path.read_text())
    table["train"][0][0][0] += 1
    path.write_text(json.dumps(table))
    after = build(config).fingerprint()
    assert [name for name in before if before[name] != after[name]] == ["train"]
