"""Layouts of transcribed recordings: tables, Common Voice, LibriSpeech; splits, caches and problems."""

import json

import numpy as np
import pytest
import soundfile

from regard.core.errors import DataError
from regard.data.checks import detect_layout, report
from regard.data.speech import recorded
from regard.data.speech.features import LogMel
from regard.data.speech.layouts import has_transcripts, read_transcripts

LOG_MEL = LogMel(8000, 8)


def record(path, seed=0, seconds=0.4):
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = 0.1 * np.random.default_rng(seed).standard_normal(int(8000 * seconds))
    soundfile.write(path, samples.astype(np.float32), 8000)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def folder(tmp_path):
    for index in range(8):
        record(tmp_path / "audio" / f"{index}.wav", index)
    rows = "".join(f'audio/{index}.wav,"text, number {index}"\n' for index in range(8))
    (tmp_path / "transcripts.csv").write_text(f"file,text\n{rows}")
    return tmp_path


def read(path, **settings):
    return recorded.read_folder(path, LOG_MEL, speeds=(1.0,), max_seconds=5.0, seed=1, **settings)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_table_in_each_format(folder, kind):
    rows = [{"path": f"audio/{index}.wav", "sentence": f"text {index}"} for index in range(8)]
    (folder / "transcripts.csv").unlink()
    separator = {"csv": ",", "tsv": "\t"}.get(kind, "")
    lines = [json.dumps(row) for row in rows] if kind == "jsonl" else [separator.join(row.values()) for row in rows]
    header = [] if kind == "jsonl" else [separator.join(rows[0])]
    (folder / f"transcripts.{kind}").write_text("\n".join(header + lines) + "\n")
    listed = read_transcripts(folder)
    assert [transcript.text for transcript in listed.transcripts] == [f"text {index}" for index in range(8)]


def test_missing_splits_are_held_out(folder):
    splits = read(folder).splits
    assert {name: len(part) for name, part in splits.items()} == {"train": 6, "valid": 1, "test": 1}
    assert len({text for part in splits.values() for text in part.transcripts}) == 8
    assert len(read(folder, test_only=True).splits["test"]) == 8
    part = splits["train"]
    assert part.features(0).shape == (40, 8) == (part.num_frames()[0], 8)
    np.testing.assert_allclose(part.features(0), LOG_MEL(part.waveform(0)), atol=0.01)
    assert part.word_spans(0) == ()


def test_common_voice(tmp_path):
    for index, split in enumerate(("train", "train", "dev", "test")):
        record(tmp_path / "clips" / f"{index}.ogg", index)
        table = tmp_path / f"{split}.tsv"
        rows = table.read_text() if table.exists() else "client_id\tpath\tsentence\tup_votes\n"
        table.write_text(f"{rows}x\t{index}.ogg\tSentence {index}.\t2\n")
    splits = read(tmp_path).splits
    assert {name: part.transcripts for name, part in splits.items()} == {
        "train": ("Sentence 0.", "Sentence 1."), "valid": ("Sentence 2.",), "test": ("Sentence 3.",),
    }  # fmt: skip


def test_librispeech(tmp_path):
    for split, chapter in (("train-clean-100", "1-2"), ("dev-clean", "3-4"), ("test-clean", "5-6")):
        folder = tmp_path / split / chapter.replace("-", "/")
        for index in range(2):
            record(folder / f"{chapter}-000{index}.flac", index)
        (folder / f"{chapter}.trans.txt").write_text(f"{chapter}-0000 HELLO WORLD\n{chapter}-0001 GOOD DAY\n")
    splits = read(tmp_path).splits
    assert {name: part.transcripts for name, part in splits.items()} == dict.fromkeys(
        ("train", "valid", "test"), ("HELLO WORLD", "GOOD DAY")
    )


def test_names_may_differ_in_case(folder):
    path = folder / "transcripts.csv"
    path.write_text(path.read_text().replace(".wav", ".WAV"))
    assert read(folder).remarks == ()


def test_features_are_cached(folder, monkeypatch):
    first = read(folder).splits["train"].features(0)
    monkeypatch.setattr(recorded, "read_audio", None)
    np.testing.assert_array_equal(read(folder).splits["train"].features(0), first)


def test_problems_are_remarks(folder):
    (folder / "audio" / "7.wav").write_text("broken")
    record(folder / "audio" / "6.wav", seconds=6)
    text = (folder / "transcripts.csv").read_text().replace('"text, number 5"', "")
    (folder / "transcripts.csv").write_text(f"{text}gone.wav,words\n")
    collection = read(folder)
    assert sum(map(len, collection.splits.values())) == 5
    remarks = "\n".join(collection.remarks)
    assert "1 recordings do not exist: gone.wav" in remarks and "1 transcripts are empty" in remarks
    assert "6.0 seconds; at most 5" in remarks and "7.wav: not a readable audio file" in remarks


def test_errors_name_the_remedy(tmp_path, folder):
    with pytest.raises(DataError, match=r"no such file or folder; give a folder with recordings and transcripts.csv"):
        read(tmp_path / "nowhere")
    (folder / "transcripts.csv").write_text("name,words\na.wav,b\n")
    with pytest.raises(DataError, match=r"transcripts.csv:2: no column for the file; name it 'path' or 'file'"):
        read(folder)
    (folder / "transcripts.csv").write_text("file,text,split\naudio/1.wav,b,training\n")
    with pytest.raises(DataError, match="no split 'training'; did you mean 'train'"):
        read(folder)
    (folder / "transcripts.csv").unlink()
    with pytest.raises(DataError, match=r"no transcripts; add transcripts.csv with the columns file and text"):
        read(folder)


def test_the_data_check(folder):
    assert has_transcripts(folder) and has_transcripts(folder / "transcripts.csv")
    assert detect_layout.detect_layout(folder) == "speech" and report.examine(folder).findings == []
    assert report.examine(folder).command.startswith("regard train speech_recognition data.path=")
    (folder / "audio" / "7.wav").write_text("broken")
    soundfile.write(folder / "audio" / "6.wav", np.zeros(800, np.float32), 8000)
    (folder / "transcripts.csv").write_text(
        (folder / "transcripts.csv").read_text() + f"gone.wav,x\naudio/1.wav,{'y' * 99}\n"
    )
    lines = [str(finding).removeprefix(f"{folder}") for finding in report.examine(folder).findings]
    assert lines == [
        ": error: 'gone.wav' has a transcript, but the recording does not exist",
        "/audio/1.wav: warning: 99 characters in 0.4 seconds; is it the right transcript?",
        "/audio/1.wav: warning: the recording has 2 transcripts",
        "/audio/6.wav: warning: 14 characters in 0.1 seconds; is it the right transcript?",
        "/audio/6.wav: warning: the recording is silent",
        "/audio/7.wav: error: not a readable audio file (Format not recognised); give WAV, FLAC or OGG",
    ]
