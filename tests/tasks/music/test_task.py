"""Music task: loss, evaluation, transposition, conditions, saving, settings and request options."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.convert.web.tasks import music as web_export
from regard.convert.web.trace import Constants
from regard.core.data_specs import MusicSpec
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.protocols import TargetMetric
from regard.data.music import midi
from regard.data.music.grid_encoding import REST
from regard.data.music.key import find_key, mode_of, shift_key
from regard.data.music.notes import Note
from regard.decoding import strategy
from regard.models import music_transformer
from regard.tasks.music import Config, Options, build, crops, load
from regard.tasks.music.crops import Crop, add_special_tokens
from regard.tasks.music.metrics import class_condition
from regard.training.load_run import LoadedRun


def chorale(steps: int, seed: int) -> list[list[int]]:
    """Return four voices that move by step, in C major."""
    random = np.random.default_rng(seed)
    scale = [p for p in range(40, 80) if p % 12 in (0, 2, 4, 5, 7, 9, 11)]
    degrees = np.array([20, 16, 11, 5])
    rows = []
    for step in range(steps):
        if step % 4 == 0:
            degrees = np.clip(degrees + random.integers(-1, 2, 4), 2, 21)
        rows.append([scale[degree] for degree in degrees])
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
    return music_transformer.build(tiny, task.spec)


def test_a_batch_has_crops_of_transposed_pieces(config):
    task = build(config)
    pieces = [add_special_tokens(task.encoding.encode(piece.content)) for piece in task.split("train")]
    for examples in task.epoch_batches(0, 1):
        batch = task.collate(examples)
        for example_id, row, length in zip(examples, batch.target.tokens, batch.target.lengths, strict=True):
            crop = crops.unpack(int(example_id))
            expected = task.encoding.transpose(pieces[crop.piece], crop.shift)[crop.start :][: config.crop + 1]
            assert row[:length].tolist() == expected.tolist()
            assert (row[length:] == 0).all()
            assert row[row > REST].max() < task.spec.vocab_size


def test_augmentation_never_leaves_the_range(config):
    task = build(replace(config, transpose=40))
    for epoch in range(3):
        for examples in task.epoch_batches(epoch, 1):
            tokens = task.collate(examples).target.tokens
            assert tokens.min() >= 0
            assert tokens.max() < task.spec.vocab_size


def test_padding_is_never_counted(config):
    task = build(config)
    model = model_for(task).eval()
    batch = task.collate(np.array([crops.pack(Crop(0, 0)), crops.pack(Crop(0, 128))]))
    assert (batch.target.tokens == 0).any()
    both = task.loss(model, batch)
    alone = [task.loss(model, task.collate(np.array([crops.pack(Crop(0, start))]))) for start in (0, 128)]
    assert both.count == sum(part.count for part in alone) == int((batch.target.lengths - 1).sum())
    assert both.total.item() == pytest.approx(sum(part.total.item() for part in alone), rel=1e-5)


def test_nats_are_the_mean_over_note_tokens_only(config):
    """Computed directly for one piece without windows; EOS has a probability but is not a note."""
    task = build(replace(config, window=0))
    model = model_for(task).eval()
    (piece,) = task.split("valid")
    tokens = torch.from_numpy(add_special_tokens(task.encoding.encode(piece.content)))[None]
    with torch.no_grad():
        logits, _ = model(tokens[:, :-1], model.start(task.classes.encode_request([])))
    nats = -logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[0, :, 0]
    score = task.evaluate(model, "valid", None)["nats"]
    assert score == pytest.approx(nats[:-1].mean().item(), abs=1e-5)
    assert len(nats) - 1 == 30 * 4


def test_a_uniform_model_has_the_logarithm_of_the_vocabulary_size(config):
    task = build(config)
    model = model_for(task)
    torch.nn.init.zeros_(model.readout.weight)
    torch.nn.init.zeros_(model.readout.bias)
    assert task.evaluate(model, "valid", None)["nats"] == pytest.approx(math.log(task.spec.vocab_size), abs=1e-5)


def test_windows_count_every_token_once_with_limited_context(config):
    task = build(config)
    model = model_for(task).eval()
    (windowed,) = task.token_nats(model, "valid", window=64)
    (complete,) = task.token_nats(model, "valid", window=0)
    assert len(windowed) == len(complete) == 120
    np.testing.assert_allclose(windowed[:64], complete[:64], atol=1e-5)  # the first window has the full context
    assert (windowed > 0).all()
    assert not np.allclose(windowed[64:], complete[64:])  # later ones have less context


def test_evaluation_restores_the_training_mode(config):
    task = build(config)
    model = model_for(task).train()
    task.evaluate(model, "valid", None)
    assert model.training


def test_conditions_are_transposed_and_dropped(config):
    task = build(replace(config, conditions=("composer", "key", "mode"), condition_dropout=0.5))
    assert "composer:Bach" in task.classes.names
    keys = [find_key(task.encoding.notes(piece.content)) for piece in task.split("train")]
    counts = set()
    for epoch in range(3):
        for examples in task.epoch_batches(epoch, 1):
            for example_id, row in zip(examples, task.collate(examples).source.tokens.tolist(), strict=True):
                crop = crops.unpack(int(example_id))
                names = [task.classes.names[token - 4] for token in row if token]
                key_names = [name for name in names if name.startswith("key:")]
                assert key_names in ([], [f"key:{shift_key(keys[crop.piece], crop.shift)}"])
                counts.add(len(names))
    assert counts == {0, 1, 2, 3}


def test_evaluation_reports_with_and_without_the_condition(config):
    """The conditioned nats are those of a request with the true class, and a wrong class has others."""
    task = build(replace(config, conditions=("mode",)))
    assert set(build(config).evaluate(model_for(build(config)), "train", None)) == {"nats"}
    model = model_for(task)
    torch.nn.init.normal_(model.conditions.weight)
    scores = task.evaluate(model, "train", None)
    assert set(scores) == {"nats", "nats_conditioned"} and scores["nats"] != scores["nats_conditioned"]
    tokens, piece = task._class_tokens("train"), task.split("train")[0]
    assert task.classes.names[tokens[0][0] - 4] == f"mode:{mode_of(find_key(task.encoding.notes(piece.content)))}"

    def true_classes(rows, pieces):
        return class_condition(rows, pieces, classes=tokens)

    nats = task.token_nats(model, "train", window=64, condition=true_classes)
    mean = sum(float(values.sum()) for values in nats) / sum(map(len, nats))
    assert scores["nats_conditioned"] == pytest.approx(mean)
    swapped = task.wrong_condition_nats(model, "train")
    assert swapped == {} or swapped["nats_wrong_condition"] != scores["nats_conditioned"]
    assert set(scores) | set(swapped) <= set(task.signatures())


def test_the_encoding_follows_the_data_and_is_stored(config, tmp_path):
    task = build(config)
    assert config.encoding == "auto" and task.config.encoding == task.encoding.name == "grid"
    task.save(tmp_path)
    assert load(config, tmp_path).config.encoding == "grid"


def test_the_example_is_the_start_of_a_validation_piece(config, tmp_path):
    task = build(config)
    assert task.examples == ("",)
    task.save(tmp_path)
    loaded = load(config, tmp_path)
    path, empty = loaded.examples
    content = loaded.parse_input(path).parsed.content
    assert content.tolist() == task.split("valid")[0].content[: len(content)].tolist() and len(content) == 30
    assert loaded.parse_input(empty) is None and loaded.parse_input(" ") is None
    (tmp_path / "example.mid").unlink()  # a run without an example
    without = load(config, tmp_path)
    assert without.examples == ("",)
    (tmp_path / "copy").mkdir()
    without.save(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["music.json"]


def test_saving_a_loaded_task_writes_the_same_files(config, tmp_path):
    task = build(replace(config, conditions=("mode",)))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    task.save(tmp_path / "one")
    loaded = load(replace(config, path=tmp_path / "gone.json"), tmp_path / "one")  # the data is not needed
    loaded.save(tmp_path / "two")
    for name in ("music.json", "example.mid"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert loaded.spec == task.spec == build(config, tmp_path / "one").spec
    assert isinstance(loaded.spec, MusicSpec)


@pytest.mark.parametrize(("encoding", "size"), [("events", 314), ("durations", 404)])
def test_performances_with_tempo(tmp_path, encoding, size):
    for i in range(4):
        notes = [Note(j * 0.25, j * 0.25 + 0.2, 50 + i + j * j % 12) for j in range(20)]
        (tmp_path / f"{i}.mid").write_bytes(midi.render(notes))
    task = build(Config(path=tmp_path, encoding=encoding, crop=32, window=0, batch_size=2, tempo=0.1, max_length=512))
    slow, fast = (task.encoding.decode(task.training_pieces.tokens(0, tempo)[1:-1]) for tempo in (4, 0))
    assert slow[-1].start == pytest.approx(1.1 * 19 * 0.25, abs=0.02)
    assert fast[-1].start == pytest.approx(0.9 * 19 * 0.25, abs=0.02)
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=0, intervals=False), task.spec)
    assert task.loss(model, task.collate(task.epoch_batches(0, 1)[0])).total.isfinite()
    scores = task.evaluate(model, "valid", None)
    assert 0 < scores["nats"] < 20
    num_tokens = len(task.encoding.encode(task.split("valid")[0].content))
    assert scores["nats_per_note"] == pytest.approx(scores["nats"] * num_tokens / 20)
    assert "rests" not in task.signatures()["nats"]
    inspectable = task.inspect(model, task.parse_input(str(tmp_path / "0.mid")), Options(), None)
    assert len(inspectable.axes["output"].items) == num_tokens and len(inspectable.extra["roll"]["notes"]) == 20
    assert inspectable.axes["output"].labels[0] == ("on D3" if encoding == "events" else "D3")
    folder = tmp_path / "run"
    folder.mkdir()
    task.save(folder)
    with pytest.raises(ConfigError, match=rf"^web: music with performed notes \(data.encoding={encoding}\) is not sup"):
        web_export.describe(LoadedRun(folder, None, task, model), Constants(model))
    assert load(task.config, folder).encoding.settings() == task.encoding.settings()
    table = json.loads((folder / "music.json").read_text())
    (folder / "music.json").write_text(json.dumps(table | {"size": 5}))
    with pytest.raises(CheckpointError, match=rf"music.json: its encoding had 5 tokens, this one has {size}; install "):
        load(task.config, folder)
    table["encoding"]["rate"] = 10**9
    (folder / "music.json").write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match=r"music.json: missing or damaged \(ConfigError\('rate=1000000000"):
        load(task.config, folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, r"^batch_size=0 must be at least 1$"),
        ({"window": -1}, r"^window=-1 must be at least 0$"),
        ({"condition_dropout": 1.5}, r"^condition_dropout=1.5 must be between 0 and 1$"),
        ({"visible_prob": 2}, r"^visible_prob=2 must be between 0 and 1$"),
        (
            {"visible_prob": 0.5, "encoding": "durations"},
            r"^visible_prob=0.5: only the grid has voices and bars; use visible_prob=0$",
        ),
        (
            {"encoding": "grid", "tempo": 0.1},
            r"^tempo=0.1: the grid has no tempo; use encoding='durations', or tempo=0$",
        ),
        ({"max_length": 100}, r"^max_length=100 is less than crop=512 or window=512; raise it$"),
        ({"encoding": "grid", "crop": 100}, r"^crop=100, window=512: the grid needs multiples of a bar, 64 tokens$"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_missing_splits_are_refused(config, tmp_path):
    task = build(config)
    with pytest.raises(DataError, match=r"^the data has no split 'vaild'; did you mean 'valid'\?$"):
        task.split("vaild")
    with pytest.raises(DataError, match=r"^the split 'test' has no pieces; give more data$"):
        task.split("test")
    with pytest.raises(
        CheckpointError, match=r"music.json: missing or damaged \(FileNotFoundError.*; copy it from the"
    ):
        load(config, tmp_path)


def test_metric_signatures_and_data_summary(config):
    task = build(config)
    assert task.target_metric == TargetMetric("nats", higher_is_better=False)
    assert task.target_metric.metric in task.evaluate(model_for(task), "valid", None)
    assert task.signatures()["nats"].startswith(
        "mean -log p per note token (rests included; special tokens and padding not)"
    )
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0.0}, r"^seconds=0.0 must be more than 0 and less than a day$"),
        ({"prompt_seconds": -1.0}, r"^prompt_seconds=-1.0 must be more than 0 and less than a day$"),
        ({"prompt_seconds": 1e308}, r"^prompt_seconds=1e\+308 must be more than 0 and less than a day$"),
        ({"exact_length": True}, r"^exact_length: the length is missing; give seconds=…$"),
        ({"voices": ("alto",)}, r"^voices and bars: they select the part of a file to generate; give infill=FILE$"),
        ({"infill": Path("x"), "seconds": 3.0}, r"^infill: the piece has the length of the file; leave seconds out$"),
        (
            {"harmonise": Path("x"), "exact_length": True, "seconds": 3.0},
            r"^harmonise: the piece is as long as the melody or seconds=…; leave exact_length out$",
        ),
        ({"temperature": 0.0, "n": 2}, r"^n=2: all pieces are identical at temperature=0; use n=1$"),
        ({"temperature": 0.0, "seed": 2}, r"^top_k, top_p and seed: they have no effect at temperature=0; leave them"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Options(**options)


@pytest.mark.parametrize(
    "decoding", [None, strategy.build("greedy"), strategy.build("sample", num_samples=4, top_k=2)], ids=str
)
def test_options_override_the_decoding_of_the_run(decoding):
    resolved = Options(n=2, seed=7).resolve_strategy(decoding)
    assert resolved.name == "sample" and (resolved.config.num_samples, resolved.config.seed) == (2, 7)
    assert resolved.config.top_k == (2 if decoding is not None and decoding.name == "sample" else 0)
    assert Options().resolve_strategy(decoding) == (decoding or strategy.build("sample"))


def test_temperature_0_is_greedy_search():
    sampling, greedy = (strategy.build(name, suppress_tokens=(7,)) for name in ("sample", "greedy"))
    assert Options(temperature=0).resolve_strategy(sampling) == greedy


def test_options_without_effect_on_inspection_are_refused():
    Options().check_inspect_options(file=True)
    Options(seconds=3.0, seed=2).check_inspect_options(file=False)
    with pytest.raises(
        ConfigError, match=r"^seconds, seed: a file is inspected unchanged; generate a piece first, then"
    ):
        Options(seconds=3.0, seed=2).check_inspect_options(file=True)
    with pytest.raises(ConfigError, match=r"^harmonise: without a file a short new piece is inspected; generate a"):
        Options(harmonise=Path("x")).check_inspect_options(file=False)
