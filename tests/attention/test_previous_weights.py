"""Attention with the weights of the previous step: the location score, and the state of a decoder."""

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.previous_weights import PreviousWeights, StepAttention
from regard.attention.record import record
from regard.core.errors import ShapeError
from regard.core.state_tree import concat_states, select

B, S, D = 2, 40, 6


@pytest.fixture
def attend():
    torch.manual_seed(0)
    return Attend(scores.build("location", D), queries="target", keys="source").eval()


def run(attend, keys, values, queries, *, mask=None, previous=None):
    projected = attend.project(keys[:, None])
    attention = StepAttention.of(attend, projected, values[:, None], mask or Mask())
    previous = previous or PreviousWeights.initial(attend, projected)
    contexts = []
    for query in queries.unbind(1):
        context, previous = attention(query, previous)
        contexts.append(context)
    return torch.stack(contexts, 1), previous


@torch.no_grad()
def test_the_score_follows_the_formula(attend):
    score, q, k = attend.weigh.score, torch.randn(D), torch.randn(S, D)
    previous = torch.rand(S).softmax(0)
    query = torch.cat([q, previous])[None, None, None]
    actual = score(query, score.project_keys(k[None, None]))[0, 0, 0]
    filters = score.filters.weight[:, 0]  # (FILTERS width)
    padded = torch.nn.functional.pad(previous, (15, 15))
    for j in (0, 7, S - 1):
        f = filters @ padded[j : j + 31]
        expected = score.weight.weight[0] @ torch.tanh(
            score.query.weight @ q + score.key.weight @ k[j] + score.location.weight @ f
        )
        assert float(actual[j]) == pytest.approx(float(expected), abs=1e-5)


@torch.no_grad()
def test_the_walk_of_the_monotonic_score_stops_at_the_first_key_that_fits():
    torch.manual_seed(0)
    attend = Attend(scores.build("monotonic_location", D), queries="target", keys="source").eval()
    score, keys, query, start = attend.weigh.score, torch.randn(B, 100, D), torch.randn(B, 1, D), 40
    previous = torch.eye(100)[[start, start]]
    _, after = run(attend, keys, keys, query, previous=PreviousWeights(previous))
    queries = torch.cat([query, previous[:, None]], dim=-1)[:, None]
    p = torch.sigmoid(super(type(score), score).forward(queries, score.project_keys(keys[:, None])) + score.threshold)
    expected = torch.zeros(B, 100)
    reaches = torch.ones(B)
    for key in range(start, 100):
        expected[:, key] = reaches * p[:, 0, 0, key]
        reaches = reaches * (1 - p[:, 0, 0, key])
    torch.testing.assert_close(after.tensor, expected / expected.sum(dim=1, keepdim=True))
    assert not after.tensor[:, :start].any()


@torch.no_grad()
def test_later_keys_do_not_change_the_order_of_the_monotonic_score():
    torch.manual_seed(0)
    attend = Attend(scores.build("monotonic_location", D), queries="target", keys="source").eval()
    keys, query = torch.randn(B, 100, D), torch.randn(B, 1, D)
    _, long = run(attend, keys, keys, query)
    _, short = run(attend, keys[:, :30], keys[:, :30], query)
    torch.testing.assert_close(long.tensor[:, :15] / long.tensor[:, :1], short.tensor[:, :15] / short.tensor[:, :1])


def test_weights_depend_on_the_previous_weights(attend):
    keys = torch.randn(1, 1, D).expand(B, S, D)  # equal content everywhere
    query = torch.zeros(B, 1, D)
    _, first = run(attend, keys, keys, query)
    _, moved = run(attend, keys, keys, query, previous=PreviousWeights(torch.eye(S)[[20, 20]]))
    assert not torch.allclose(first.tensor, moved.tensor)
    torch.testing.assert_close(moved.tensor.sum(dim=1), torch.ones(B))
    with torch.no_grad():
        attend.weigh.score.location.weight.zero_()
    _, without = run(attend, keys, keys, query)
    torch.testing.assert_close(without.tensor, torch.full((B, S), 1 / S))


def test_hypotheses_share_the_keys_of_a_source(attend):
    keys, values, queries = torch.randn(1, S, D), torch.randn(1, S, 5), torch.randn(3, 4, D)
    previous = PreviousWeights(torch.rand(3, S).softmax(1))
    shared = run(attend, keys, values, queries, previous=previous)
    copied = run(attend, keys.expand(3, -1, -1), values.expand(3, -1, -1), queries, previous=previous)
    torch.testing.assert_close(shared, copied)


def test_recorded_weights_are_those_that_were_used(attend):
    keys, values, queries = torch.randn(B, S, D), torch.randn(B, S, 5), torch.randn(B, 3, D)
    lengths = torch.tensor([S, 25])
    with record(attend) as maps:
        contexts, last = run(attend, keys, values, queries, mask=Mask.lengths(lengths, S))
    weights = maps[""].weights
    torch.testing.assert_close(weights[:, 0, -1], last.tensor)
    torch.testing.assert_close(weights[:, 0] @ values, contexts)
    assert not weights[1, :, :, 25:].any()


def test_the_state_is_reordered_and_joined():
    first, second = PreviousWeights(torch.rand(2, 5)), PreviousWeights(torch.rand(1, 3))
    joined = concat_states(first, second)
    assert joined.tensor.shape == (3, 5) and not joined.tensor[2, 3:].any()
    torch.testing.assert_close(select(joined, torch.tensor([2])).tensor[:, :3], second.tensor)


def test_other_scores_keep_no_weights():
    attend = Attend(scores.build("additive", D))
    keys = torch.randn(B, S, D)
    context, previous = run(attend, keys, keys, torch.randn(B, 1, D))
    assert previous.tensor.shape == (B, 0) and context.shape == (B, 1, D)


def test_a_wrong_number_of_previous_weights_is_an_error(attend):
    keys = attend.project(torch.randn(B, 1, S, D))
    with pytest.raises(
        ShapeError, match="queries carry 3 previous weights for 40 keys; give one weight per key, or none"
    ):
        attend(torch.randn(B, 1, 1, D + 3), keys, torch.randn(B, 1, S, D))
