"""Recordings that no training data has seen: synthetic voices, converted to other formats and sampling rates."""

import shutil
import subprocess

import pytest

import regard
from regard.tasks.speech_recognition.metrics import error_rates

PROGRAMS = ("espeak-ng", "sox")
TEXTS = ("three one four", "nine two zero five", "two seven eight", "six four one")
VOICES = ("en-us", "en-gb+f3")
FORMATS = {"8k.wav": ["-r", "8000"], "16k.flac": ["-r", "16000"], "44k.ogg": ["-r", "44100", "-c", "2"]}


@pytest.mark.skipif(any(shutil.which(name) is None for name in PROGRAMS), reason="espeak-ng or sox is not installed")
def test_synthetic_voices_are_transcribed_from_every_format(tmp_path):
    files = {name: [] for name in FORMATS}
    for voice in VOICES:
        for number, text in enumerate(TEXTS):
            spoken = tmp_path / f"{voice}-{number}.wav"
            subprocess.run(["espeak-ng", "-v", voice, "-s", "130", "-g", "6", "-w", spoken, text], check=True)
            for name, options in FORMATS.items():
                files[name].append(str(spoken.with_suffix(f".{name}")))
                subprocess.run(["sox", spoken, *options, files[name][-1]], check=True, capture_output=True)
    run = regard.load("pretrained:speech_recognition")
    transcripts = {name: run.transcribe(paths) for name, paths in files.items()}
    for texts in transcripts.values():
        assert error_rates(texts, TEXTS * len(VOICES))["word_error"] <= 0.15  # 2 of 26 digits: 0.08
