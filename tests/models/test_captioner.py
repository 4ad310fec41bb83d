"""The captioner: soft, hard and no attention, and what it refuses."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.attention.record import record
from regard.attention.reinforce import NoBaseline
from regard.core.data_specs import CaptioningSpec
from regard.core.errors import ConfigError
from regard.models import captioner
from regard.models.captioner import TINY, Config

SIZES = CaptioningSpec(height=4, width=8, channels=3, vocab_size=7, max_length=6)


class Forced(nn.Module):
    """A normaliser that chooses the keys that it is told, one after the other."""

    def __init__(self, places):
        super().__init__()
        self.places = iter(places)

    def forward(self, scores, allowed=None):
        return nn.functional.one_hot(torch.tensor(next(self.places)), scores.shape[-1]).to(scores).expand_as(scores)


@pytest.fixture
def hard():
    torch.manual_seed(0)
    config = replace(TINY, attention="hard", dropout=0.0, expected=0.0, gradual=0, openness=0.0)
    model = captioner.build(config, SIZES).double()
    model.grid.eval()  # its batch norm does not move
    model.looking.baseline = NoBaseline()
    with torch.no_grad():
        model.looking.key.weight.mul_(6)  # choices that matter
        model.readout.weight.mul_(3)
    return model


def test_the_mean_of_sampled_gradients_is_that_of_all_choices(hard):
    """Two words, two cells: four ways, each with its probability; the loss's mean gradient is that of Σ p · cost."""
    images, captions = torch.randn(1, 3, 4, 8).double(), torch.tensor([[2, 4, 5]])
    weights = [hard.looking.key.weight, hard.gates_seen.weight]
    usual, exact = hard.looking.cross_attn.weigh.normalizer, 0.0
    for way in itertools.product(range(2), repeat=2):
        hard.looking.cross_attn.weigh.normalizer = Forced(way)
        state = hard.start(images)
        x, walk, _ = hard._walk(hard.target(captions[:, :-1]), state)
        scores = hard.looking.cross_attn.weigh.scores(walk.queries[:, None], state.cells.value.k.tensor)[0, 0]
        chance = scores.log_softmax(dim=-1)[torch.arange(2), torch.tensor(way)].sum().exp()
        cost = hard.readout.loss(x[0], captions[0, 1:])
        exact = exact + chance * cost
    truth = torch.cat([g.flatten() for g in torch.autograd.grad(exact, weights)])
    hard.looking.cross_attn.weigh.normalizer = usual
    batch = 256
    many, found = images.expand(batch, -1, -1, -1), []
    for _ in range(40):
        parts = hard.losses(many, captions.expand(batch, -1), pad=0)
        total = (parts["words"] + parts["choices"]) / batch
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(total, weights)]))
    found = torch.stack(found)
    errors = found.std(dim=0) / len(found) ** 0.5
    assert ((found.mean(dim=0) - truth).abs() < 5 * errors + 1e-7).all()
    words = hard.losses(images, captions, pad=0)["words"]
    assert torch.autograd.grad(words, weights[0], allow_unused=True) == (None,)  # choices need a term of their own
    assert truth[: weights[0].numel()].abs().max() > 1e-3


def test_hard_attention_looks_at_one_cell_and_is_steady_in_evaluation(hard):
    images, captions = torch.randn(3, 3, 4, 8).double(), torch.randint(4, 7, (3, 5))
    hard.eval()
    with record(hard) as maps:
        first = hard(captions, hard.start(images))[0]
    looked = maps["looking.cross_attn"].weights
    assert looked.amax(dim=-1).min() == 1 and looked.shape == (3, 1, 5, 2)
    assert torch.equal(first, hard(captions, hard.start(images))[0])


def test_the_penalty_is_least_where_every_cell_is_looked_at_alike():
    model = captioner.build(replace(TINY, dropout=0.0, coverage=1.0), SIZES)
    with torch.no_grad():
        model.looking.key.weight.zero_()  # all cells look the same to every query
    parts = model.losses(torch.randn(1, 3, 4, 8), torch.tensor([[2, 4, 5, 6, 3]]), pad=0)
    assert parts["coverage"].item() == pytest.approx(4 * (1 - 4 / 2) ** 2)  # four words, a half of each on both cells


def test_padding_adds_nothing_to_any_part():
    for attention in ("soft", "none"):
        model = captioner.build(replace(TINY, attention=attention, dropout=0.0), SIZES).eval()
        images, captions = torch.randn(2, 3, 4, 8), torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
        whole = model.losses(images, captions, pad=0)
        longer = model.losses(images, torch.nn.functional.pad(captions, (0, 2)), pad=0)
        for name, value in whole.items():
            assert value.item() == pytest.approx(longer[name].item(), rel=1e-5), name


def test_several_captions_of_an_image_are_learned_as_if_they_came_alone():
    model = captioner.build(replace(TINY, dropout=0.0), SIZES).eval()
    images, captions = torch.randn(2, 3, 4, 8), torch.randint(4, 7, (6, 5))
    together = model.losses(images, captions, pad=0)
    apart = model.losses(images.repeat_interleave(3, dim=0), captions, pad=0)
    assert {k: v.item() for k, v in together.items()} == pytest.approx(
        {k: v.item() for k, v in apart.items()}, rel=1e-5
    )


def test_hidden_words_are_hidden_in_training_alone():
    model = captioner.build(replace(TINY, dropout=0.0, word_dropout=0.9), SIZES)
    model.grid.eval()
    images, captions = torch.randn(4, 3, 4, 8), torch.randint(4, 7, (4, 5))
    torch.manual_seed(0)
    hidden = model.losses(images, captions, pad=0)["words"]
    assert hidden.item() != pytest.approx(model.eval().losses(images, captions, pad=0)["words"].item(), rel=1e-6)


def test_the_image_as_one_vector_has_no_attention():
    model = captioner.build(replace(TINY, attention="none"), SIZES)
    assert list(model.losses(torch.randn(1, 3, 4, 8), torch.tensor([[2, 4, 3]]), pad=0)) == ["words"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dim": 0}, "dim, embedding, grid, layers, heads and stride must be at least 1"),
        ({"stride": 6}, "stride=6 must be a power of two"),
        ({"dropout": 1.0}, r"dropout=1.0 and word_dropout=0.0 must be probabilities below 1"),
        (
            {"decoder": "transformer", "attention": "hard"},
            "attention='hard' is for decoder='lstm'; the Transformer's is",
        ),
        ({"decoder": "transformer", "heads": 3}, "dim=256 cannot be divided among heads=3; choose a multiple of 3"),
    ],
)
def test_what_cannot_be_built_is_refused(change, text):
    with pytest.raises(ConfigError, match=text):
        Config(**change)


def test_untied_words_have_a_table_of_their_own_without_bounds():
    model = captioner.build(replace(TINY, tied=False, word_scale=0.0, dropout=0.0), SIZES).eval()
    assert model.readout.weight is not model.target.weight and model.scale_embeddings == TINY.embedding**0.5
    with torch.no_grad():
        model.join.bias.fill_(9.0)
        x, _ = model.features(torch.tensor([[2, 4]]), model.start(torch.randn(1, 3, 4, 8)))
    assert x.max() > 2  # a tanh would have kept it below 1
    assert captioner.build(TINY, SIZES).readout.weight.shape == model.readout.weight.shape


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_words_without_order_are_foretold_from_the_image(decoder):
    torch.manual_seed(0)
    model = captioner.build(replace(TINY, decoder=decoder, named=0.5, dropout=0.0), SIZES).eval()
    images, captions = torch.randn(2, 3, 4, 8), torch.tensor([[2, 4, 5, 3], [2, 4, 3, 0], [2, 6, 6, 3], [2, 5, 3, 0]])
    loss = model.losses(images, captions, pad=0)["named"]
    logs = model.named.tell(model.grid(images).mean(dim=1)).log_softmax(dim=-1)
    told = [logs[0, 4], logs[0, 5], logs[0, 4], 2 * logs[1, 6], logs[1, 5]]  # neither ends nor padding
    torch.testing.assert_close(loss, -0.5 * torch.stack(told).sum())
    turned = captions.clone()
    turned[0, 1:3] = captions[0, [2, 1]]
    torch.testing.assert_close(model.losses(images, turned, pad=0)["named"], loss)  # their order does not count


def test_weights_below_zero_are_refused():
    with pytest.raises(ConfigError, match=r"word_scale=1.0 and named=-1: neither is negative"):
        Config(bag_of_words_weight=-1)
