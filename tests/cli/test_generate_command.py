"""`regard generate`: train on music, generate new pieces, evaluate them."""

import json

import pytest
from run_cli import call

import regard
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


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "set.json"
    piece = [[72 + i // 4 % 3, 65, 57, 48] for i in range(40)]
    path.write_text(json.dumps({"train": [piece] * 3, "valid": [piece], "test": [piece]}))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("runs") / "small"
    call("train", "music", *SMALL, *SHORT, *DATA, f"data.path={data}", "--out", folder)
    return folder


def test_music_is_written_as_midi_sound_and_image(run, tmp_path, capsys):
    files = [tmp_path / f"x.{suffix}" for suffix in ("mid", "wav", "png")]
    out = [argument for file in files for argument in ("--out", file)]
    call("generate", run, "--seconds", 3, "--exact-length", "n=2", "--top_k", 5, *out)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["x-1.mid", "x-1.png", "x-1.wav", "x-2.mid", "x-2.png", "x-2.wav"]
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("wrote")]) == 6
    assert midi.read(tmp_path / "x-1.mid", "second").notes[-1].end == pytest.approx(3, abs=0.2)


def test_a_prompt_is_continued_and_a_soprano_is_harmonised(run, tmp_path):
    prompt = tmp_path / "prompt.mid"
    prompt.write_bytes(midi.render([Note(i * 0.5, i * 0.5 + 0.5, 70 + i % 3) for i in range(6)]))
    out = tmp_path / "y.mid"
    call("generate", run, "--prompt", prompt, "--prompt-seconds", 2, "--seconds", 1, "--out", out)
    assert midi.read(out, "second").notes
    call("generate", run, "--harmonise", prompt, "--out", tmp_path / "z.mid")
    voices = {note.voice for note in midi.read(tmp_path / "z.mid", "quarter").notes}
    assert voices == {0, 1, 2, 3}


def test_samples_are_evaluated(run, capsys):
    call("evaluate", run, "--json")
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"nats", "pitch_distance", "interval_distance", "voice_crossing_samples", "parallel_fifths_data"} <= set(
        report["scores"]
    )
    assert "padding not" in report["signatures"]["nats"]


def test_the_invariants_hold(run, capsys):
    call("check", run)
    assert all(line.startswith("passed") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--out", "x.ogg", "--seconds", 1],
            "regard: x.ogg: these predictions cannot be written as .ogg; available: .txt, .jsonl, .mid, .wav, .png",
        ),
        (["--out", "x.mid", "--prompt", "gone.mid"], "regard: gone.mid: cannot be read: No such file or directory"),
        (
            ["--out", "x.mid", "--condition", "Elgar"],
            "regard: the model does not know the class 'Elgar'; it was trained",
        ),
        (["--out", "x.mid", "temprature=2"], "regard: generate: no setting 'temprature'; did you mean 'temperature'?"),
        (["--out", "x.mid", "--top-p", "7"], "regard: top_p=7.0 must be greater than 0 and at most 1"),
        (["--out", "x.mid", "--prompt-seconds", "9"], "regard: prompt_seconds=9.0"),
    ],
)
def test_a_mistake_is_a_one_line_error(run, tmp_path, capsys, monkeypatch, *, args, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        call("generate", run, *args)
    assert stop.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_another_decoding_generates(data, tmp_path):
    settings = [*SMALL, *SHORT, *DATA, f"data.path={data}", "decoding=greedy"]
    call("train", "music", *settings, "--out", tmp_path / "run")
    call("generate", tmp_path / "run", "--seconds", 1, "seed=4", "--out", tmp_path / "x.mid")
    assert (tmp_path / "x.mid").read_bytes().startswith(b"MThd")


def test_without_a_file_the_pieces_are_described(run, capsys):
    call("generate", run, "--seconds", 1, "--n=2")
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]


def test_the_error_names_the_verb_of_another_task(small, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        call("generate", small, "--out", tmp_path / "x.mid")
    assert stop.value.code == 1
    message = f"regard: {small} was trained for translation, whose verb is translate; regard translate {small} …\n"
    assert capsys.readouterr().err == message


def test_generate_in_python(run):
    pieces = regard.load(run).generate(seconds=1, n=2)
    assert len(pieces) == 2 and pieces[0].render(".mid").startswith(b"MThd")
