"""The synthesizer: right pitch and length, no clipping, louder for a higher velocity."""

import io
import wave

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.music import synth
from regard.data.music.notes import Note


@pytest.mark.parametrize("pitch", [36, 60, 69, 81])
def test_a_tone_has_its_pitch(pitch):
    samples = synth.tone(pitch, 1.0)
    spectrum = np.abs(np.fft.rfft(samples))
    peak = np.argmax(spectrum) * synth.RATE / len(samples)
    assert peak == pytest.approx(440 * 2 ** ((pitch - 69) / 12), rel=0.02)


def test_a_tone_starts_and_ends_in_silence_and_decays():
    samples = np.abs(synth.tone(60, 2.0))
    assert samples[0] == 0
    assert samples[-1] < 1e-3
    assert samples[: synth.RATE // 2].max() > 1.3 * samples[synth.RATE : 2 * synth.RATE].max()
    assert np.abs(synth.tone(60, 1.0, velocity=120)).max() > 2 * np.abs(synth.tone(60, 1.0, velocity=50)).max()


def test_no_partial_is_above_the_nyquist_frequency():
    assert np.isfinite(synth.tone(127, 0.2)).all()


def test_a_wav_of_the_right_length():
    data = synth.render([Note(0, 0.5, 60), Note(0.5, 1.0, 64), Note(0.5, 1.0, 67)])
    with wave.open(io.BytesIO(data)) as file:
        assert file.getframerate() == synth.RATE
        assert file.getnframes() / synth.RATE == pytest.approx(1.0 + synth.RELEASE, abs=0.01)
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    assert 0.85 * 32767 < np.abs(samples).max() < 32767


def test_nothing_to_play():
    with pytest.raises(DataError, match=r"^there are no notes to play; generate a longer piece$"):
        synth.render([])
