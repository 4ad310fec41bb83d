"""The memory of a recommender: counts of items that are near each other in histories."""

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import UserBatch
from regard.tasks.recommendation import nearby_items
from regard.tasks.recommendation.baselines import Interactions
from regard.tasks.recommendation.config import Config
from regard.tasks.recommendation.nearby_items import NearbyItems

CHOICES = Interactions(np.repeat([0, 1], 3), np.array([0, 1, 2, 0, 1, 3]), (2, 5))


def users(*histories):
    """Histories -> a batch of users, padded on the right."""
    length = max(map(len, histories))
    rows = torch.tensor([[*history, *[0] * (length - len(history))] for history in histories])
    lengths = torch.tensor(list(map(len, histories)))
    return UserBatch(lengths * 0, torch.zeros(len(rows), 0), rows, rows * 0.0, rows * 0.0, lengths)


def test_items_that_follow_the_last_items_gain_probability():
    uniform = torch.zeros(1, 5).log_softmax(-1)
    adjusted = NearbyItems(CHOICES, 1.0).adjust(uniform, users([0]))
    assert adjusted.exp().sum().item() == pytest.approx(1)
    assert adjusted[0].argmax() == 1  # it follows item 0 in both histories
    assert adjusted[0, 4] == adjusted[0].min()  # nowhere near item 0


def test_padding_and_an_empty_history_have_no_weight():
    memory, uniform = NearbyItems(CHOICES, 2.0), torch.zeros(2, 5).log_softmax(-1)
    both = memory.adjust(uniform, users([0, 1], [3]))
    alone = memory.adjust(uniform[:1], users([3]))
    torch.testing.assert_close(both[1:], alone)
    torch.testing.assert_close(memory.adjust(uniform[:1], users([])), uniform[:1])


def test_the_log_counts_follow_the_formula():
    memory = NearbyItems(CHOICES, 1.0)
    expected = torch.log(memory.counts[1] + np.exp(-1 / nearby_items.AGE_SCALE) * memory.counts[0] + nearby_items.PRIOR)
    torch.testing.assert_close(memory._log_counts(users([0, 1]))[0], expected)


def test_lists_scores_and_reasons_use_the_memory(tmp_path):
    settings = {"data.users": 40, "data.items": 24, "model.preset": "small", "training.steps": 2, "data.memory": 1e3}
    run = regard.train("recommendation", settings, out=tmp_path / "run", quiet=True)
    (predictions,) = run.recommend([" | 3, 7"])
    counts = run.task.evaluation.memory._log_counts(users([2, 6]))[0]
    counts[[2, 6]] = -torch.inf
    best = [int(prediction.data["item"]) - 1 for prediction in predictions[:3]]
    torch.testing.assert_close(counts[best], counts.topk(3).values)
    assert predictions[0].data["reasons"]
    with pytest.raises(
        ConfigError, match=r"^index=approximate: it does not use data.memory of this run; leave it out$"
    ):
        run.recommend([" | 3, 7"], index="approximate")


def test_the_memory_is_for_the_next_item():
    with pytest.raises(
        ConfigError, match=r"^memory=1.0: give a weight of at least 0, and objective=next if it is above 0$"
    ):
        Config(objective="any", memory=1.0)
