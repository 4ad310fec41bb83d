"""Losses over items equal their definitions; top items in chunks equal those of a full sort."""

import pytest
import torch
from torch import nn

from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog
from regard.layers import item_softmax
from regard.layers.item_softmax import (
    FullSoftmax,
    SampledSoftmax,
    SingleNegative,
    all_log_probabilities,
    log_probability,
    top_items,
)

ITEMS, WIDTH = 23, 5


class Table(nn.Module):
    """A recommender with a table of item vectors per head."""

    def __init__(self, heads=1, dot=True):
        super().__init__()
        torch.manual_seed(0)
        self.keys, self.gate, self.dot = nn.Parameter(torch.randn(heads, ITEMS, WIDTH)), nn.Linear(WIDTH, heads), dot

    def gates(self, states):
        return self.gate(states).log_softmax(dim=-1)

    def scores(self, states, catalog):
        return torch.einsum("md,hnd->mhn", states, self.keys[:, catalog.ids])

    def query_key_vectors(self, states, catalog):
        return (states.expand(len(self.keys), -1, -1), self.keys[:, catalog.ids]) if self.dot else None


CATALOG = ItemCatalog(torch.arange(ITEMS), torch.zeros(ITEMS, 0))


def examples(count=7):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, WIDTH, generator=generator), torch.randint(ITEMS, (count,), generator=generator)


def by_definition(model, states, targets):
    """Return -log of the mixture."""
    probabilities = (model.scores(states, CATALOG).softmax(dim=-1) * model.gates(states).exp()[..., None]).sum(dim=1)
    return -probabilities[torch.arange(len(targets)), targets].log().sum()


@pytest.mark.parametrize(("heads", "dot"), [(1, True), (1, False), (3, True), (3, False)])
def test_the_full_softmax_is_its_definition_in_value_and_gradient(heads, dot, monkeypatch):
    monkeypatch.setattr(item_softmax, "MAX_SCORES", 2 * ITEMS)  # several chunks
    model, (states, targets) = Table(heads, dot), examples()
    states.requires_grad_()
    losses = [FullSoftmax()(model, states, CATALOG, targets), by_definition(model, states, targets)]
    gradients = [torch.autograd.grad(loss, [states, model.keys]) for loss in losses]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    for gradient, expected in zip(*gradients, strict=True):
        assert (gradient - expected).abs().max() < 1e-4


def test_smoothing_needs_one_product():
    with pytest.raises(ConfigError, match=r"smoothing=0.1 needs one head and a dot-product score"):
        FullSoftmax(0.1)(Table(2), *examples()[:1], CATALOG, examples()[1])


def test_sampling_every_item_is_the_full_softmax():
    model, (states, targets) = Table(2), examples()
    sampled = SampledSoftmax(ITEMS)(model, states, CATALOG, targets)
    assert sampled.item() == pytest.approx(by_definition(model, states, targets).item(), rel=1e-4)


def test_sampling_is_near_the_full_softmax_on_average():
    model, (states, targets) = Table(1), examples()
    torch.manual_seed(0)
    mean = sum(SampledSoftmax(12)(model, states, CATALOG, targets).item() for _ in range(60)) / 60
    assert mean == pytest.approx(by_definition(model, states, targets).item(), rel=0.15)
    with pytest.raises(ConfigError, match="num_negatives=0 must be at least 1"):
        SampledSoftmax(0)


@pytest.mark.parametrize("dot", [True, False])
def test_single_negative_decreases_for_the_best_item(dot):
    model, (states, targets) = Table(2, dot), examples(200)
    torch.manual_seed(0)
    before = SingleNegative()(model, states, CATALOG, targets).item()
    with torch.no_grad():
        best = model.scores(states, CATALOG).mean(dim=1).argmax(dim=1)
    torch.manual_seed(0)
    assert SingleNegative()(model, states, CATALOG, best).item() < before


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("size", [1, 10, 10**6])
@pytest.mark.parametrize("group", [1, 2, 5, 64])  # by group maxima if they divide a chunk, else by sorting
def test_top_items_in_chunks(heads, size, group, monkeypatch):
    monkeypatch.setattr(item_softmax, "MAX_SCORES", 7 * size)
    monkeypatch.setattr(item_softmax, "GROUP_ITEMS", group)
    model, (states, _) = Table(heads), examples()
    excluded = torch.tensor([[0, 1], [5, -1]] + [[-1, -1]] * 5)
    with torch.no_grad():
        top, log_probs = (
            top_items(model, states, CATALOG, count=4, excluded=excluded),
            all_log_probabilities(model, states, CATALOG),
        )
    assert log_probs.exp().sum(dim=1).allclose(torch.ones(7), atol=1e-5)
    log_probs[0, :2], log_probs[1, 5] = -torch.inf, -torch.inf
    expected = log_probs.topk(4, dim=1)
    assert torch.equal(top.indices, expected.indices) and top.scores.allclose(expected.values, atol=1e-5)


def test_largest_by_groups():
    scores = torch.randn(5, 64 * 12, generator=torch.Generator().manual_seed(0))
    top, expected = item_softmax._largest(scores, 7), scores.topk(7, dim=1)
    assert torch.equal(top.indices, expected.indices) and torch.equal(top.scores, expected.values)


def test_an_empty_catalog():
    empty, (states, _) = ItemCatalog(torch.zeros(0, dtype=torch.long), torch.zeros(0, 0)), examples()
    assert top_items(Table(), states, empty, count=3).indices.shape == (7, 0)
    assert log_probability(Table(), states[:0], CATALOG, torch.zeros(0, dtype=torch.long)).shape == (0,)
