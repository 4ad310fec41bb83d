"""Alignment of attention with true boundaries, times of tokens, and files of transcripts."""

import numpy as np
import pytest
import torch

from regard.data.speech.utterances import WordSpan
from regard.tasks.speech_recognition import alignment, transcript_files

SPANS = (WordSpan("one", 0.1, 0.3), WordSpan("two", 0.4, 0.6))


def test_attention_inside_the_boundaries_is_no_error():
    weights = np.zeros((2, 20))
    weights[0, 5], weights[1, 12] = 1.0, 1.0  # states of 40 ms: 0.22 and 0.50 seconds
    assert alignment._compare(weights, SPANS, 4) == [(True, 1.0, True), (True, 1.0, True)]


def test_errors_and_steps_back_are_counted():
    weights = np.zeros((2, 20))
    weights[0, 8] = 1.0  # in the pause: 0.34 seconds
    weights[1, 3], weights[1, 12] = 0.6, 0.4
    (first, second) = alignment._compare(weights, SPANS, 4)
    assert first == (False, 0.0, True)
    assert second == (False, pytest.approx(0.4), False)


def test_times_hold_most_of_the_attention():
    weights = torch.tensor([[0.0, 0.2, 0.4, 0.3, 0.1], [1.0, 0.0, 0.0, 0.0, 0.0]])
    assert alignment.token_times(weights, 4) == [(0.04, 0.16), (0.0, 0.04)]


def test_subtitles_join_the_tokens_of_a_word():
    weights = torch.eye(6)[[0, 1, 4]]
    text = transcript_files.render_subtitles("ab c", [0, 0, 1], weights, 50).decode()
    assert text == ("1\n00:00:00,000 --> 00:00:01,000\nab\n\n2\n00:00:02,000 --> 00:00:02,500\nc\n")


def test_the_picture_has_a_row_per_token():
    features = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    picture = transcript_files.render_picture(features, ["a<b", "c"], torch.eye(10)[:2], 4).decode()
    assert picture.startswith("<svg") and "a&lt;b" in picture and picture.count("#c2410c") == 2
