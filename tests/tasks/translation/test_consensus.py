"""Expected chrF: agreement with sacreBLEU, and the effect of weights."""

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.tasks.translation.consensus import expected_utilities, pairwise_chrf

TEXTS = ["나는 학교에 간다", "나는 학교에 갔다.", "그는", "True를 돌려줍니다.", "the cat sat", "the cat"]


def test_the_similarity_is_chrf():
    scores = pairwise_chrf(TEXTS)
    for i, hypothesis in enumerate(TEXTS):
        for j, reference in enumerate(TEXTS):
            expected = CHRF().sentence_score(hypothesis, [reference]).score / 100
            assert scores[i, j] == pytest.approx(expected, abs=1e-9)


def test_an_empty_text_is_similar_to_itself_alone():
    assert pairwise_chrf(["", "a", ""]).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert pairwise_chrf([]).shape == (0, 0)


def test_weights_decide():
    first, second = expected_utilities(["the cat", "a dog"], [0.9, 0.1])
    assert first > second and first == pytest.approx(0.9 + 0.1 * pairwise_chrf(["the cat", "a dog"])[0, 1])
    assert int(np.argmax(expected_utilities(["the cat sat", "the cat", "a dog"], [0.3, 0.3, 0.4]))) < 2
