"""Built-in strings of spoken digits: recordings, splits, boundaries, noise and readings."""

import numpy as np
import pytest

from regard.core.errors import ConfigError
from regard.data.builtin import spoken_digits
from regard.data.builtin.spoken_digits import READINGS, SPEAKERS, StringSettings
from regard.data.speech.features import LogMel

LOG_MEL = LogMel(8000, 8)


def strings(split="train", count=20, **settings):
    return spoken_digits.strings_of(
        split, count, StringSettings(**settings), log_mel=LOG_MEL, seed=1, speakers=SPEAKERS
    )


def test_all_recordings_are_included():
    recordings = spoken_digits.load()
    assert len(recordings) == 2880 and {r.speaker for r in recordings} == set(SPEAKERS)
    counts = {
        split: sum(r.take in indices for r in recordings) for split, indices in spoken_digits.SPLIT_INDICES.items()
    }
    assert counts == {"train": 2400, "valid": 300, "test": 180}  # 3 of the 5 official test recordings are included
    assert all(np.sqrt(np.mean(r.waveform**2)) == pytest.approx(0.1, rel=0.01) for r in recordings[::50])
    assert (spoken_digits.FOLDER / "spoken_digits.LICENSE.txt").read_text().count("CC BY-SA 4.0") == 2


def test_a_string_is_reproducible_and_has_one_speaker():
    first, again = strings(), strings()
    assert first.transcripts == again.transcripts and first.checksum() == again.checksum()
    np.testing.assert_array_equal(first.waveform(3), again.waveform(3))
    for plan in first.plans:
        assert len({first.recordings[i].speaker for i in plan.recordings}) == 1 and 1 <= len(plan.recordings) <= 7


def test_boundaries_are_true():
    """The energy inside of the boundaries is far above that of the pauses."""
    data = strings(snr=(40.0, 40.0))
    for index in range(5):
        waveform, spans = data.waveform(index), data.word_spans(index)
        assert [span.text for span in spans] == data.transcripts[index].split()
        inside = np.zeros(len(waveform), bool)
        for span in spans:
            inside[round(span.start * 8000) : round(span.stop * 8000)] = True
        assert np.mean(waveform[inside] ** 2) > 1000 * np.mean(waveform[~inside] ** 2)
        assert len(data.features(index)) == data.num_frames()[index]


def test_training_strings_vary_in_speed_and_noise():
    data = strings(speeds=(0.9, 1.1))
    random = np.random.default_rng(0)
    lengths = {len(data.training_features(0, random)) for _ in range(12)}
    normal = int(data.num_frames()[0])
    assert len(lengths) == 2 and min(lengths) < normal < max(lengths)


def test_readings():
    english, korean = strings(reading="english"), strings(reading="korean")
    words = dict(zip(READINGS["english"], READINGS["korean"], strict=True))
    assert korean.transcripts[0] == " ".join(words[word] for word in english.transcripts[0].split())
    assert READINGS["korean"][1:4] == ("일", "이", "삼")


def test_a_held_out_speaker_is_not_in_the_data():
    settings = StringSettings()
    collection = spoken_digits.make_strings(10, settings, log_mel=LOG_MEL, seed=1, held_out_speaker="theo")
    for part in collection.splits.values():
        assert "theo" not in {recording.speaker for recording in part.recordings}
    with pytest.raises(ConfigError, match="held_out_speaker='teo': no such speaker; did you mean 'theo'"):
        spoken_digits.check_speaker("teo")
