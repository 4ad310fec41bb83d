"""`regard generate` from a stranger's side: train on files of music, make new ones, measure them."""

import json
import os
import sys

import pytest

import regard
from regard.cli.main import main
from regard.data.music import midi
from regard.data.music.notes import Note

SMALL = [
    "model.layers=1",
    "model.dim=16",
    "model.ffn_dim=16",
    "model.heads=2",
    "model.max_distance=32",
    "model.intervals=true",
]
DATA = ["data.crop=64", "data.window=64", "data.max_length=1024", "data.batch_size=4"]
SHORT = ["training.steps=2", "training.evaluation.every=2"]


def call(*words: object) -> int:
    """Run the command line in this process -> its exit code."""
    before, sys.argv = sys.argv, ["regard", *map(str, words)]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = before
    return 0


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "set.json"
    piece = [[72 + i // 4 % 3, 65, 57, 48] for i in range(40)]
    path.write_text(json.dumps({"train": [piece] * 3, "valid": [piece], "test": [piece]}))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("runs") / "small"
    assert call("train", "music", *SMALL, *SHORT, *DATA, f"data.path={data}", "--out", folder) == 0
    return folder


def test_music_is_written_as_file_sound_and_picture(run, tmp_path, capsys):
    files = [tmp_path / f"x.{kind}" for kind in ("mid", "wav", "png")]
    outs = [word for file in files for word in ("--out", file)]
    assert call("generate", run, "--seconds", 3, "--exact-length", "n=2", "--top_k", 5, *outs) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["x-1.mid", "x-1.png", "x-1.wav", "x-2.mid", "x-2.png", "x-2.wav"]
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("wrote")]) == 6
    assert midi.read(tmp_path / "x-1.mid", "second").notes[-1].end == pytest.approx(3, abs=0.2)


def test_a_primer_goes_on_and_a_soprano_is_harmonised(run, tmp_path):
    seed = tmp_path / "seed.mid"
    seed.write_bytes(midi.render([Note(i * 0.5, i * 0.5 + 0.5, 70 + i % 3) for i in range(6)]))
    assert call("generate", run, "--prompt", seed, "--prompt-seconds", 2, "--seconds", 1, "--out", tmp_path / "y.mid") == 0
    assert call("generate", run, "--harmonise", seed, "--out", tmp_path / "z.mid") == 0
    voices = {note.voice for note in midi.read(tmp_path / "z.mid", "quarter").notes}
    assert voices == {0, 1, 2, 3}


def test_samples_are_measured(run, capsys):
    assert call("evaluate", run, "--json") == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"nats", "pitch_distance", "interval_distance", "voice_crossing_samples", "parallel_fifths_data"} <= set(
        report["scores"]
    )
    assert "padding not" in report["signatures"]["nats"]


def test_the_laws_are_kept(run, capsys):
    assert call("check", run) == 0
    assert all(line.startswith("kept") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x.ogg", "--seconds", 1], "regard: this prediction cannot be written as .ogg; available: .mid, .wav, .png"),
        (["--out", "x.mid", "--prompt", "gone.mid"], "regard: gone.mid: cannot be read: No such file or directory"),
        (["--out", "x.mid", "--condition", "Elgar"], "regard: the model does not know the class 'Elgar'; it was trained"),
        (["--out", "x.mid", "temprature=2"], "regard: generate: no setting 'temprature'; did you mean 'temperature'?"),
        (["--out", "x.mid", "--top-p", "7"], "regard: top_p=7.0 must be greater than 0 and at most 1"),
        (["--out", "x.mid", "--prompt-seconds", "9"], "regard: prompt_seconds=9.0"),
    ],
)
def test_a_mistake_is_one_line(run, tmp_path, capsys, words, message):
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert call("generate", run, *words) == 1
    finally:
        os.chdir(before)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_another_decoder_is_sampled_from(data, tmp_path):
    settings = [*SMALL, *SHORT, *DATA, f"data.path={data}", "decoding=greedy"]
    assert call("train", "music", *settings, "--out", tmp_path / "run") == 0
    assert call("generate", tmp_path / "run", "--seconds", 1, "seed=4", "--out", tmp_path / "x.mid") == 0


def test_without_a_file_it_says_what_it_made(run, capsys):
    assert call("generate", run, "--seconds", 1, "--n=2") == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]


def test_a_run_of_another_task_says_its_verb(small, tmp_path, capsys):
    assert call("generate", small, "--out", tmp_path / "x.mid") == 1
    said = f"regard: {small} was trained for translation, whose verb is translate; regard translate {small} …\n"
    assert capsys.readouterr().err == said


def test_python_has_the_same(run):
    pieces = regard.load(run).generate(seconds=1, samples=2)
    assert len(pieces) == 2 and pieces[0].render(".mid").startswith(b"MThd")
