"""Losses over items agree with their definitions; the best items in chunks are those of a whole sort."""

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
    """A model of choices that is a table for each head."""

    def __init__(self, heads=1, dot=True):
        super().__init__()
        torch.manual_seed(0)
        self.keys, self.gate, self.dot = nn.Parameter(torch.randn(heads, ITEMS, WIDTH)), nn.Linear(WIDTH, heads), dot

    def gates(self, states):
        return self.gate(states).log_softmax(dim=-1)

    def scores(self, states, shelf):
        return torch.einsum("md,hnd->mhn", states, self.keys[:, shelf.numbers])

    def vectors(self, states, shelf):
        return (states.expand(len(self.keys), -1, -1), self.keys[:, shelf.numbers]) if self.dot else None


SHELF = ItemCatalog(torch.arange(ITEMS), torch.zeros(ITEMS, 0))


def asked(count=7):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, WIDTH, generator=generator), torch.randint(ITEMS, (count,), generator=generator)


def defined(model, states, chosen):
    """-log of the mixture, written out."""
    mixed = (model.scores(states, SHELF).softmax(dim=-1) * model.gates(states).exp()[..., None]).sum(dim=1)
    return -mixed[torch.arange(len(chosen)), chosen].log().sum()


@pytest.mark.parametrize(("heads", "dot"), [(1, True), (1, False), (3, True), (3, False)])
def test_the_full_softmax_is_its_definition_in_value_and_gradient(heads, dot, monkeypatch):
    monkeypatch.setattr(item_softmax, "SCORES", 2 * ITEMS)  # several chunks
    model, (states, chosen) = Table(heads, dot), asked()
    states.requires_grad_()
    losses = [FullSoftmax()(model, states, SHELF, chosen), defined(model, states, chosen)]
    slopes = [torch.autograd.grad(loss, [states, model.keys]) for loss in losses]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    for one, other in zip(*slopes, strict=True):
        assert (one - other).abs().max() < 1e-4


def test_smoothing_needs_one_product():
    with pytest.raises(ConfigError, match=r"smoothing=0.1 needs one head and a score that is an inner product"):
        FullSoftmax(0.1)(Table(2), *asked()[:1], SHELF, asked()[1])


def test_sampling_every_item_is_the_full_softmax():
    model, (states, chosen) = Table(2), asked()
    sampled = SampledSoftmax(ITEMS)(model, states, SHELF, chosen)
    assert sampled.item() == pytest.approx(defined(model, states, chosen).item(), rel=1e-4)


def test_sampling_is_near_the_full_softmax_on_average():
    model, (states, chosen) = Table(1), asked()
    torch.manual_seed(0)
    mean = sum(SampledSoftmax(12)(model, states, SHELF, chosen).item() for _ in range(60)) / 60
    assert mean == pytest.approx(defined(model, states, chosen).item(), rel=0.15)
    with pytest.raises(ConfigError, match="negatives=0: draw at least one item"):
        SampledSoftmax(0)


@pytest.mark.parametrize("dot", [True, False])
def test_one_negative_falls_when_the_chosen_item_suits(dot):
    model, (states, chosen) = Table(2, dot), asked(200)
    torch.manual_seed(0)
    before = SingleNegative()(model, states, SHELF, chosen).item()
    with torch.no_grad():
        suited = model.scores(states, SHELF).mean(dim=1).argmax(dim=1)
    torch.manual_seed(0)
    assert SingleNegative()(model, states, SHELF, suited).item() < before


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("size", [1, 10, 10**6])
@pytest.mark.parametrize("group", [1, 2, 5, 64])  # by maxima of groups where they divide a chunk, else by sorting
def test_the_best_in_chunks_are_the_best(heads, size, group, monkeypatch):
    monkeypatch.setattr(item_softmax, "SCORES", 7 * size)
    monkeypatch.setattr(item_softmax, "GROUP", group)
    model, (states, _) = Table(heads), asked()
    seen = torch.tensor([[0, 1], [5, -1]] + [[-1, -1]] * 5)
    with torch.no_grad():
        found, whole = (
            top_items(model, states, SHELF, count=4, excluded=seen),
            all_log_probabilities(model, states, SHELF),
        )
    assert whole.exp().sum(dim=1).allclose(torch.ones(7), atol=1e-5)
    whole[0, :2], whole[1, 5] = -torch.inf, -torch.inf
    wanted = whole.topk(4, dim=1)
    assert torch.equal(found.indices, wanted.indices) and found.scores.allclose(wanted.values, atol=1e-5)


def test_the_largest_by_groups_are_the_largest():
    scores = torch.randn(5, 64 * 12, generator=torch.Generator().manual_seed(0))
    found, wanted = item_softmax._largest(scores, 7), scores.topk(7, dim=1)
    assert torch.equal(found.indices, wanted.indices) and torch.equal(found.scores, wanted.values)


def test_nothing_to_choose_from():
    empty, (states, _) = ItemCatalog(torch.zeros(0, dtype=torch.long), torch.zeros(0, 0)), asked()
    assert top_items(Table(), states, empty, count=3).indices.shape == (7, 0)
    assert log_probability(Table(), states[:0], SHELF, torch.zeros(0, dtype=torch.long)).shape == (0,)
