"""The speech recognition task: batches, metrics, options, inputs and errors."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from regard.core.errors import ConfigError, DataError
from regard.decoding.strategy import build as build_strategy
from regard.models import ctc, las, speech_transformer
from regard.tasks import speech_recognition
from regard.tasks.speech_recognition import TINY, Config, Options, robustness
from regard.tasks.speech_recognition import task as task_module

GREEDY = build_strategy("greedy")


@pytest.fixture(scope="module")
def task():
    return speech_recognition.build(TINY)


@pytest.fixture(scope="module")
def folder(task, tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    task.save(path)
    return path


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return las.build(las.TINY, task.spec)


def test_every_token_counts_once(task, model):
    batch = task.collate(np.arange(4))
    texts = task.collection.split("train").transcripts[:4]
    assert task.loss(model, batch).count == sum(len(text.split()) + 1 for text in texts)
    assert (
        batch.source.frames.shape[2] == TINY.bands and int(batch.source.lengths.max()) == batch.source.frames.shape[1]
    )


def test_the_first_epoch_is_sorted_by_duration(task):
    frames = task.collection.split("train").num_frames()
    first, second = (task.epoch_batches(epoch, seed=1) for epoch in (0, 1))
    longest = [frames[batch].max() for batch in first]
    assert len(first) > 2 and longest == sorted(longest) and longest != [frames[batch].max() for batch in second]
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(second))


def test_training_batches_are_augmented_by_the_random_state():
    task = speech_recognition.build(replace(TINY, time_masks=1, speeds=(0.9, 1.1)))
    batches = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        batches.append(task.collate(np.arange(3)).source.frames)
    assert torch.equal(batches[0], batches[1]) and not torch.equal(batches[0][:, :20], batches[2][:, :20])


def test_metrics_of_models_with_and_without_attention(task, model):
    scores = task.evaluate(model, "valid", GREEDY)
    assert set(scores) == {
        *("word_error", "character_error", "exact", "alignment_error", "attention_outside", "monotonic")
    }
    without = task.evaluate(ctc.build(ctc.TINY, task.spec), "valid", GREEDY)
    assert set(without) == {"word_error", "character_error", "exact"}
    assert set(scores) <= set(task.signatures())


def test_extra_metrics(monkeypatch):
    monkeypatch.setattr(robustness, "NUM_STRINGS", 3)
    monkeypatch.setattr(robustness, "MAX_TEMPLATES", 60)
    task = speech_recognition.build(replace(TINY, held_out_speaker="theo"))
    model = speech_transformer.build(speech_transformer.TINY, task.spec)
    scores = task.extra_metrics(model, "test", GREEDY)
    assert set(scores) == {
        *("single_digit_accuracy", "dtw_accuracy", "snr_20_error", "snr_10_error", "snr_5_error", "snr_0_error"),
        *("longer_error", "unseen_speaker_error"),
    }
    assert 0.6 < scores["dtw_accuracy"] <= 1  # the baseline needs no training
    assert "3 to 4 digits" in task.signatures()["longer_error"] and "theo" in task.signatures()["unseen_speaker_error"]


def test_a_span_of_the_input_can_be_silenced(task, model, folder):
    loaded = speech_recognition.load(TINY, folder)
    recording = loaded.parse_input(loaded.examples[0])
    silenced = task_module.silence(recording, Options(silence="0.1,0.2"))
    assert not silenced.waveform[800:1600].any() and recording.waveform[800:1600].any()
    ((plain,), (changed,)) = (
        loaded.predict(model, [recording], options, GREEDY)[0] for options in (Options(), Options(silence="0,9"))
    )
    assert plain.score != changed.score
    for text in ("0.5", "1,0.5", "a,b", "-1,2"):
        with pytest.raises(ConfigError, match=r"give start,stop in seconds, e.g. 0.5,0.9"):
            Options(silence=text)


def test_inputs(folder, tmp_path):
    task = speech_recognition.load(TINY, folder)
    soundfile.write(tmp_path / "stereo.flac", np.zeros((44100, 2), np.float32) + 0.01, 44100)
    recording = task.parse_input(f" {tmp_path / 'stereo.flac'} ")
    assert recording.seconds == pytest.approx(1.0, abs=0.01)
    soundfile.write(tmp_path / "long.wav", np.zeros(8000 * 9, np.float32), 8000)
    with pytest.raises(DataError, match=r"9.0 seconds; at most 8 are accepted"):
        task.parse_input(str(tmp_path / "long.wav"))
    with pytest.raises(DataError, match="there is no recording; give the path of an audio file"):
        task.parse_input(" ")
    with pytest.raises(DataError, match=r"the input of this run is a file \(\.wav, \.flac, \.ogg"):
        task.parse_untrusted_text("/etc/passwd")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"digits": (0, 3)}, "give the minimum and the maximum"),
        ({"speeds": (3.0,)}, "give factors between 0.5 and 2"),
        ({"sample_rate": 100}, "sample_rate=100: must be at least 4000"),
        ({"dataset": "digits"}, "no data 'digits'; files are given as data.path"),
        ({"held_out_speaker": "bob"}, "no such speaker"),
        ({"max_seconds": 0.0}, "max_seconds"),
    ],
)
def test_invalid_settings_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        Config(**setting)


def test_recordings_that_are_too_long_are_reported():
    task = speech_recognition.build(replace(TINY, max_length=2))
    count = sum(len(text.split()) > 1 for text in task.collection.split("train").transcripts)
    assert task.data_warnings() == [f"{count} training recordings are longer than 8 seconds or 2 tokens: left out"]
    with pytest.raises(DataError, match="no recording has at most max_length=1 tokens"):
        speech_recognition.build(replace(TINY, max_length=1)).epoch_batches(0, 1)


def test_files_without_splits_are_all_test_data(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    lines = ["file,text"]
    for index in range(5):
        noise = np.random.default_rng(index).standard_normal(4000).astype(np.float32) * 0.1
        soundfile.write(tmp_path / f"{index}.wav", noise, 8000)
        lines.append(f"{index}.wav,one two {index}")
    (tmp_path / "transcripts.csv").write_text("\n".join(lines))
    task = speech_recognition.load(replace(TINY, path=tmp_path), folder)
    assert len(task.collection.split("test")) == 1 and len(task.as_test_data().collection.split("test")) == 5
    built = speech_recognition.build(replace(TINY, path=tmp_path))
    assert built.vocabulary.token_texts()[4:].count("o") == 1  # characters
