"""The alignment error rate: 0 for the truth, 1 for what is never true."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.alignment import error_rate, judge, token_links, words
from regard.inspection.example import Truth
from regard.inspection.format import Map

# Output words 0 and 1 (the second of two tokens) come from source words 1 and 0; the end marks from nothing.
TRUTH = Truth(links=((0, 1), (1, 0)), rows=(0, 1, 1, -1), columns=(0, 1, 1, -1))
RIGHT = np.array([[0, 0.5, 0.5, 0], [1, 0, 0, 0], [0.9, 0.1, 0, 0], [0, 0, 0, 1]], np.float32)


def test_the_true_alignment_has_no_error():
    assert error_rate(RIGHT, TRUTH) == 0
    wrong = RIGHT[[1, 0, 0, 3]]
    assert error_rate(wrong, TRUTH) == 1


def test_tokens_are_added_up_to_words():
    assert words(RIGHT, TRUTH) == pytest.approx(np.array([[0, 1], [0.95, 0.05]]))


def test_half_of_the_links_right_is_half_an_error():
    half = RIGHT.copy()
    half[1:3] = RIGHT[0]
    assert error_rate(half, TRUTH) == 0.5


def test_every_map_and_head_is_judged_and_the_best_is_named():
    good = Map("good", "cross", 1, "output", "source", np.stack([RIGHT, RIGHT]))
    bad = Map("bad", "cross", 0, "output", "source", np.stack([RIGHT[[1, 0, 0, 3]]] * 2))
    own = Map("own", "decoder", 0, "output", "read", np.stack([RIGHT]))
    found = judge((bad, own, good), TRUTH)
    assert found.best == "good"
    assert found.rates == {"bad": {"mean": 1.0, "heads": [1.0, 1.0]}, "good": {"mean": 0.0, "heads": [0.0, 0.0]}}
    assert judge((own,), TRUTH) is None


def test_links_of_words_are_drawn_between_all_their_tokens():
    assert set(token_links(TRUTH)) == {(0, 1), (0, 2), (1, 0), (2, 0)}


def test_nothing_true_is_nothing_wrong():
    assert error_rate(RIGHT, TRUTH._replace(links=())) == 0
