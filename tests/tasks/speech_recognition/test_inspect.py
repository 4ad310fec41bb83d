"""Inspection of a transcript: spans to silence, ablation of states, and the data of the page."""

import base64

import pytest
import torch

from regard.core.protocols.speech import SpeechFrames
from regard.decoding.strategy import build as build_strategy
from regard.models import las
from regard.tasks import speech_recognition
from regard.tasks.speech_recognition import TINY, Options, inspect

GREEDY = build_strategy("greedy", no_repeat_ngram_size=1)


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    speech_recognition.build(TINY).save(folder)
    task = speech_recognition.load(TINY, folder)
    torch.manual_seed(0)
    model = las.build(las.TINY, task.spec).eval()
    recording = task.parse_input(task.examples[0])
    return task.inspect(model, recording, Options(), GREEDY), recording


def test_the_time_axis_covers_the_recording(inspected):
    inspectable, recording = inspected
    states = inspectable.axes["frames"].items
    assert states[0].time == 0 and states[-1].time < recording.seconds <= states[-1].time + 0.05
    assert inspectable.views == ("speech",) and inspectable.axes["target"].items[-1].text == "<end>"


def test_the_page_has_sound_picture_and_silenced_transcripts(inspected):
    inspectable, recording = inspected
    data = inspectable.extra["speech"]
    assert base64.b64decode(data["wav"]).startswith(b"RIFF")
    assert len(base64.b64decode(data["spectrogram"])) == data["frames"] * data["bands"]
    assert data["again"][0]["span"][0] == 0 and data["again"][-1]["span"][1] == pytest.approx(
        recording.seconds, abs=1e-3
    )
    assert max(high for _, high in data["envelope"]) == 1 or min(low for low, _ in data["envelope"]) == -1


def test_spans_to_silence():
    assert inspect.silence_spans(0.1) == [(0.0, 0.1)]
    assert len(inspect.silence_spans(10.0)) == 8


def test_states_are_ablated_one_by_one():
    sizes = speech_recognition.build(TINY).spec
    torch.manual_seed(0)
    model = las.build(las.TINY, sizes).eval()
    source = SpeechFrames(torch.randn(1, 14, TINY.bands), torch.tensor([14]))
    tokens = torch.tensor([[2, 5, 6, 3]])
    with torch.no_grad():
        logits = inspect.ablate_states(model, source, tokens)
        frames = source.frames.clone()
        frames[0, 4:8] = 0
        expected, _ = model(tokens[:, :-1], model.start(SpeechFrames(frames, source.lengths)))
    assert logits.shape[:2] == (4, 3)
    torch.testing.assert_close(logits[1], expected[0])
