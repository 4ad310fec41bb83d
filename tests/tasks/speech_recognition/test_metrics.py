"""Error rates of transcripts and the DTW baseline."""

import numpy as np
import pytest

from regard.tasks.speech_recognition.dtw import nearest_templates, warped_distances
from regard.tasks.speech_recognition.metrics import error_rates, normalize_transcript


def test_error_rates():
    rates = error_rates(["one two", "Three,", "four"], ["one two", "three four", "four five six"])
    assert rates["word_error"] == pytest.approx(3 / 7)
    assert rates["exact"] == pytest.approx(1 / 3)
    assert error_rates(["x y z"], ["a"])["word_error"] == 3  # insertions count
    assert error_rates(["", ""], ["a b", "?"])["word_error"] == 1  # references of punctuation alone are left out


def test_normalization():
    assert normalize_transcript(" It's  ONE-two. ") == "it's one two"
    assert normalize_transcript("일 이, 삼") == "일 이 삼"


def naive_distance(query, template):
    total = np.full((len(query) + 1, len(template) + 1), np.inf)
    total[0, 0] = 0
    for i, a in enumerate(query):
        for j, b in enumerate(template):
            total[i + 1, j + 1] = np.linalg.norm(a - b) + min(total[i, j + 1], total[i + 1, j], total[i, j])
    return total[-1, -1] / (len(query) + len(template))


def test_dtw_equals_the_definition():
    random = np.random.default_rng(0)
    query = random.standard_normal((7, 3)).astype(np.float32)
    templates = [random.standard_normal((length, 3)).astype(np.float32) for length in (5, 9, 7)]
    padded = np.zeros((3, 9, 3), np.float32)
    for row, template in enumerate(templates):
        padded[row, : len(template)] = template
    distances = warped_distances(query, padded, np.array([5, 9, 7]))
    np.testing.assert_allclose(distances, [naive_distance(query, template) for template in templates], rtol=1e-4)


def test_a_slower_copy_is_nearest():
    random = np.random.default_rng(1)
    templates = [random.standard_normal((10, 4)).astype(np.float32) for _ in range(5)]
    assert nearest_templates([np.repeat(templates[3], 2, axis=0)], templates) == [3]
