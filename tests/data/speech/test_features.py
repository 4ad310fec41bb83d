"""Log-mel features and their augmentation."""

import numpy as np
import pytest

from regard.data.speech.augment import SpecAugment, add_noise, change_speed
from regard.data.speech.features import LogMel, mel_filters

LOG_MEL = LogMel(8000, 40)


def tone(hertz, seconds=0.4):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(8000 * seconds)) / 8000)).astype(np.float32)


def test_frames_and_bands():
    energies = LOG_MEL.energies(np.concatenate([tone(300), tone(2000)]))
    assert energies.shape == (80, 40) == (LOG_MEL.num_frames(6400), 40)
    low, high = energies[5:35].mean(axis=0).argmax(), energies[45:75].mean(axis=0).argmax()
    assert low < high
    assert LOG_MEL.num_frames(81) == len(LOG_MEL.energies(tone(300)[:81])) == 2


@pytest.mark.parametrize(("rate", "bands"), [(8000, 40), (16000, 80), (8000, 8)])
def test_every_band_has_frequencies(rate, bands):
    assert (mel_filters(rate, bands).max(axis=0) > 0).all()


def test_features_do_not_depend_on_loudness():
    waveform = tone(300) * np.linspace(0.1, 1, 3200, dtype=np.float32)
    waveform += 0.01 * np.random.default_rng(0).standard_normal(3200).astype(np.float32)
    np.testing.assert_allclose(LOG_MEL(waveform), LOG_MEL(0.5 * waveform), atol=1e-2)
    assert LOG_MEL(waveform).min() >= -1.6 and LOG_MEL(waveform).max() < 6
    assert LOG_MEL(np.concatenate([np.zeros(800, np.float32), waveform]))[0].max() == pytest.approx(-1.6)  # cut
    assert np.isfinite(LOG_MEL(np.zeros(800, np.float32))).all()  # digital silence


def test_a_short_recording_has_the_features_of_a_long_one():
    """The spectrum of a word does not depend on the silence around it."""
    random = np.random.default_rng(0)
    word = tone(300) + tone(1200)
    silence = 1e-4 * random.standard_normal(8000).astype(np.float32)
    alone, surrounded = LOG_MEL(word), LOG_MEL(np.concatenate([silence, word, silence]))
    np.testing.assert_allclose(surrounded[105:135], alone[5:35], atol=0.05)


def test_the_number_of_frames_does_not_depend_on_later_samples():
    """Frame i covers the samples around (i + ½) hops only."""
    waveform = tone(300)
    np.testing.assert_allclose(LOG_MEL.energies(waveform)[:20], LOG_MEL.energies(waveform[:2400])[:20], rtol=1e-4)


def test_masks_hide_a_bounded_part():
    features = np.ones((100, 40), np.float32)
    augment = SpecAugment(2, 10, 1, 5)
    for seed in range(20):
        masked = augment(features, np.random.default_rng(seed))
        assert (masked == 0).all(axis=1).sum() <= 20 and (masked == 0).all(axis=0).sum() <= 5
    assert (features == 1).all()
    assert SpecAugment(0, 10, 0, 5)(features, np.random.default_rng(0)).all()


def test_speed_changes_duration_and_pitch():
    assert len(change_speed(tone(300), 1.1)) == pytest.approx(3200 / 1.1, abs=1)
    spectrum = np.abs(np.fft.rfft(change_speed(tone(300), 0.9), 8000))
    assert spectrum.argmax() == pytest.approx(270, abs=4)


def test_noise_has_the_requested_level():
    for seed in range(6):
        noise = add_noise(np.zeros(8000, np.float32), 10.0, np.random.default_rng(seed), power=0.01)
        assert 10 * np.log10(0.01 / np.mean(noise**2)) == pytest.approx(10, abs=0.1)
