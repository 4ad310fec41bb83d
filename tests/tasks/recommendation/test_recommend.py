"""The nearest-neighbour index finds nearly all of the best items, with their exact scores."""

import pytest
import torch

from regard.core.data_specs import RecommendationSpec
from regard.core.errors import ConfigError
from regard.models import recommender
from regard.tasks.recommendation import recommend


def test_nearly_all_of_the_best_are_found():
    pytest.importorskip("usearch")
    torch.manual_seed(0)
    keys, queries = torch.randn(800, 8) * torch.rand(800, 1), torch.randn(20, 8)
    approximate, exact = recommend.ItemIndex(keys).search(queries, 10), (queries @ keys.mT).topk(10, dim=1)
    shared = [len(set(a) & set(b)) for a, b in zip(approximate.indices.tolist(), exact.indices.tolist(), strict=True)]
    assert sum(shared) >= 0.95 * 200
    assert approximate.scores[:, 0].allclose(exact.values[:, 0], atol=1e-4)


def test_a_model_of_several_heads_is_refused():
    sizes = RecommendationSpec(num_users=1, num_items=4, user_field_dims=(), item_field_dims=(), max_length=2)
    model = recommender.build(recommender.Config(dim=8, ffn_dim=8, choice_heads=2), sizes)
    catalog = recommender.ItemCatalog(torch.arange(1, 5), torch.zeros(4, 0))
    with pytest.raises(ConfigError, match="index=approximate: needs one head and a score that is an inner product"):
        recommend.build_index(model, torch.zeros(1, 8), catalog)
