"""The choice between hypotheses and retrieved targets."""

import pytest

from regard.core.prediction import Prediction
from regard.data.text.translation_memory import Match
from regard.tasks.translation.retrieval import choose

HYPOTHESES = [Prediction("the cat sat", -1.0, -0.2), Prediction("the cat sits", -2.0, -0.4)]
RETRIEVED = [Match("Hund", "a dog barks", 0.3), Match("Katze", "the cat sleeps", 0.2)]


def texts(*, weight, count=9, retrieved=RETRIEVED):
    return [prediction.text for prediction in choose(HYPOTHESES, retrieved, weight=weight, count=count)]


def test_the_weight_of_the_memory():
    assert set(texts(weight=0.0)) == {"the cat sat", "the cat sits"}
    assert set(texts(weight=1.0)) == {"a dog barks", "the cat sleeps"}
    assert texts(weight=0.5)[0].startswith("the cat") and len(texts(weight=0.5)) == 4


def test_an_exact_match_outweighs_the_hypotheses():
    exact = [Match("Hund", "a dog barks", 1.0), *RETRIEVED[1:]]
    assert texts(weight=0.5, count=1, retrieved=exact) == ["a dog barks"]


def test_a_retrieved_target_is_shown_as_such():
    (first,) = choose([], [Match("Hund", "a dog", 0.25)], weight=1.0, count=3)
    assert first.data == {"retrieved": {"source": "Hund", "similarity": 0.25}}
    assert first.remarks == ("target of a training pair (similarity 0.25): Hund",)
    assert first.score is None and first.ranking_score == pytest.approx(1.0)


def test_a_target_that_is_also_a_hypothesis_is_a_hypothesis():
    same = [Match("Katze", "the cat sat", 0.9)]
    first = choose(HYPOTHESES, same, weight=0.5, count=1)[0]
    assert first.text == "the cat sat" and first.data == {} and first.score == -1.0


def test_without_candidates_the_hypotheses_are_returned():
    assert choose(HYPOTHESES, [], weight=1.0, count=1) == HYPOTHESES[:1]
    assert choose(HYPOTHESES, [], weight=0.5, count=2) == HYPOTHESES
