"""Modified Kneser-Ney: probabilities sum to 1, counts are those of the text, and more context helps."""

from __future__ import annotations

import numpy as np
import pytest

from regard.tasks.language.kneser_ney import KneserNey, baseline_nats

TEXT = np.random.default_rng(0).permuted(np.tile(np.arange(6), (200, 1)), axis=1).ravel()  # blocks of 0 … 5


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("start", [0, 17])
def test_probabilities_sum_to_one(order, start):
    model, context = KneserNey(TEXT[:900], 6, order), TEXT[900 + start : 905 + start]
    total = sum(np.exp(-model.nats(np.append(context, token))[-1]) for token in range(6))
    assert total == pytest.approx(1)


def test_an_unseen_context_falls_back_to_shorter_ones():
    model = KneserNey(np.array([0, 1, 2] * 50), 4, 3)
    unseen, known = model.nats(np.array([3, 3, 1]))[-1], model.nats(np.array([2, 0, 1]))[-1]
    assert np.isfinite(unseen) and known < 0.2 < unseen


def test_order_one_is_the_share_of_each_token_before_discounts():
    tokens = np.array([0] * 500 + [1] * 300 + [2] * 200)
    probabilities = np.exp(-KneserNey(tokens, 3, 1).nats(np.array([0, 1, 2])))
    assert probabilities == pytest.approx([0.5, 0.3, 0.2], abs=0.01)


def test_the_order_is_chosen_on_the_validation_text():
    cycle = np.tile([0, 1, 0, 2, 0, 3], 300)
    nats, order = baseline_nats(cycle[:1200], cycle[1200:1500], cycle[1500:], 4)
    assert order in (3, 5, 7) and nats[10:].mean() < 0.05
