"""Audio files: formats, rates, channels, and files that cannot be read."""

import io

import numpy as np
import pytest
import soundfile

from regard.core.errors import DataError
from regard.data.speech.audio_files import encode_wav, read_audio, resample


def tone(seconds=0.5, rate=16000, hertz=440.0):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def dominant_hertz(waveform, rate):
    return float(np.abs(np.fft.rfft(waveform)).argmax() * rate / len(waveform))


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg"])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_every_format_and_rate_gives_the_same_sound(tmp_path, suffix, rate):
    path = tmp_path / f"tone{suffix}"
    soundfile.write(path, np.stack([tone(rate=rate), np.zeros(int(0.5 * rate), np.float32)], axis=1), rate)
    recording = read_audio(path, 8000)
    assert recording.rate == 8000 and recording.seconds == pytest.approx(0.5, abs=0.01)
    assert dominant_hertz(recording.waveform, 8000) == pytest.approx(440, abs=4)
    assert recording.remarks[0] == "2 channels: averaged"
    assert recording.remarks[1:] == (() if rate == 8000 else (f"{rate} Hz: resampled to 8000",))


def test_frequencies_above_the_new_limit_are_removed():
    resampled = resample(tone(hertz=6000.0), 16000, 8000)
    assert np.abs(resampled[50:-50]).max() < 0.02  # without the edges, where the tone starts and stops


def test_a_waveform_is_written_and_read_again():
    waveform, rate = soundfile.read(io.BytesIO(encode_wav(tone(rate=8000), 8000)), dtype="float32")
    assert rate == 8000 and np.abs(waveform - tone(rate=8000)).max() < 1e-4


def test_unusable_files_are_named(tmp_path):
    (tmp_path / "text.wav").write_text("this is not a sound")
    (tmp_path / "blank.wav").write_bytes(b"")
    (tmp_path / "empty.wav").write_bytes(encode_wav(np.zeros(0, np.float32), 8000))
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan, np.float32), 8000, subtype="FLOAT")
    soundfile.write(tmp_path / "long.flac", np.zeros(8000 * 3, np.float32), 8000)
    soundfile.write(tmp_path / "slow.wav", np.zeros(100, np.float32), 100)
    problems = {
        "missing.wav": "cannot be read .No such file",
        "text.wav": "text.wav: not a readable audio file .*; give WAV, FLAC or OGG",
        "blank.wav": "blank.wav: is empty; record it again",
        "empty.wav": "empty.wav: has no samples; record it again",
        "nan.wav": "nan.wav: contains NaN or infinite samples",
        "long.flac": "long.flac: 3.0 seconds; at most 2 are accepted: cut it into parts",
        "slow.wav": "slow.wav: 100 samples per second; convert it to 8,000 to 48,000",
    }
    for name, message in problems.items():
        with pytest.raises(DataError, match=message):
            read_audio(tmp_path / name, 8000, max_seconds=2)


def test_a_silent_recording_has_a_remark(tmp_path):
    for name, peak in (("silent.wav", 0.0), ("quiet.wav", 0.01)):
        soundfile.write(tmp_path / name, np.full(800, peak, np.float32), 8000)
    assert read_audio(tmp_path / "silent.wav", 8000).remarks == ("silent: a transcript has no meaning",)
    assert read_audio(tmp_path / "quiet.wav", 8000).remarks == ()
