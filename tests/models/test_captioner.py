"""The captioner: soft, hard and no attention, and invalid settings."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.attention.policy_gradient import NoBaseline
from regard.attention.record import record
from regard.core.data_specs import CaptioningSpec
from regard.core.errors import ConfigError
from regard.models import captioner
from regard.models.captioner import TINY, Config

SIZES = CaptioningSpec(height=4, width=8, channels=3, vocab_size=7, max_length=6)


class Forced(nn.Module):
    """A normalizer that chooses the given keys, one after the other."""

    def __init__(self, keys):
        super().__init__()
        self.keys = iter(keys)

    def forward(self, scores, allowed=None):
        return nn.functional.one_hot(torch.tensor(next(self.keys)), scores.shape[-1]).to(scores).expand_as(scores)


@pytest.fixture
def hard():
    torch.manual_seed(0)
    config = replace(TINY, attention="hard", dropout=0.0, soft_prob=0.0, hard_warmup=0, entropy_weight=0.0)
    model = captioner.build(config, SIZES).double()
    model.grid.eval()  # batch norm statistics stay fixed
    model.looking.baseline = NoBaseline()
    with torch.no_grad():
        model.looking.key.weight.mul_(6)  # so that the choices matter
        model.readout.weight.mul_(3)
    return model


def test_the_mean_of_sampled_gradients_is_that_of_all_choices(hard):
    """Two words, two cells: four sequences of choices with their probabilities. The mean gradient of the loss is that
    of Σ p · cost."""
    images, captions = torch.randn(1, 3, 4, 8).double(), torch.tensor([[2, 4, 5]])
    weights = [hard.looking.key.weight, hard.gates_seen.weight]
    normalizer, expected_cost = hard.looking.cross_attn.weigh.normalizer, 0.0
    for choices in itertools.product(range(2), repeat=2):
        hard.looking.cross_attn.weigh.normalizer = Forced(choices)
        state = hard.start(images)
        x, trace, _ = hard._run(hard.target(captions[:, :-1]), state)
        scores = hard.looking.cross_attn.weigh.scores(trace.queries[:, None], state.grid_kv.value.k.tensor)[0, 0]
        probability = scores.log_softmax(dim=-1)[torch.arange(2), torch.tensor(choices)].sum().exp()
        cost = hard.readout.loss(x[0], captions[0, 1:])
        expected_cost = expected_cost + probability * cost
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(expected_cost, weights)])
    hard.looking.cross_attn.weigh.normalizer = normalizer
    batch_size = 256
    batch_images, gradients = images.expand(batch_size, -1, -1, -1), []
    for _ in range(40):
        parts = hard.losses(batch_images, captions.expand(batch_size, -1), pad=0)
        total = (parts["words"] + parts["choices"]) / batch_size
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(total, weights)]))
    gradients = torch.stack(gradients)
    std_errors = gradients.std(dim=0) / len(gradients) ** 0.5
    assert ((gradients.mean(dim=0) - expected).abs() < 5 * std_errors + 1e-7).all()
    words_loss = hard.losses(images, captions, pad=0)["words"]
    assert torch.autograd.grad(words_loss, weights[0], allow_unused=True) == (
        None,
    )  # the choices get no gradient from the words
    assert expected[: weights[0].numel()].abs().max() > 1e-3


def test_hard_attention_selects_one_cell_and_is_deterministic_in_evaluation(hard):
    images, captions = torch.randn(3, 3, 4, 8).double(), torch.randint(4, 7, (3, 5))
    hard.eval()
    with record(hard) as maps:
        first = hard(captions, hard.start(images))[0]
    weights = maps["looking.cross_attn"].weights
    assert weights.amax(dim=-1).min() == 1 and weights.shape == (3, 1, 5, 2)
    assert torch.equal(first, hard(captions, hard.start(images))[0])


def test_the_coverage_penalty_of_uniform_attention():
    model = captioner.build(replace(TINY, dropout=0.0, coverage_weight=1.0), SIZES)
    with torch.no_grad():
        model.looking.key.weight.zero_()  # all cells get the same weight for every query
    parts = model.losses(torch.randn(1, 3, 4, 8), torch.tensor([[2, 4, 5, 6, 3]]), pad=0)
    assert parts["coverage"].item() == pytest.approx(
        4 * (1 - 4 / 2) ** 2
    )  # four words, half of each weight on both cells


def test_padding_adds_nothing_to_any_part():
    for attention in ("soft", "none"):
        model = captioner.build(replace(TINY, attention=attention, dropout=0.0), SIZES).eval()
        images, captions = torch.randn(2, 3, 4, 8), torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
        losses = model.losses(images, captions, pad=0)
        longer = model.losses(images, torch.nn.functional.pad(captions, (0, 2)), pad=0)
        for name, value in losses.items():
            assert value.item() == pytest.approx(longer[name].item(), rel=1e-5), name


def test_captions_of_the_same_image_are_independent():
    model = captioner.build(replace(TINY, dropout=0.0), SIZES).eval()
    images, captions = torch.randn(2, 3, 4, 8), torch.randint(4, 7, (6, 5))
    together = model.losses(images, captions, pad=0)
    separate = model.losses(images.repeat_interleave(3, dim=0), captions, pad=0)
    assert {k: v.item() for k, v in together.items()} == pytest.approx(
        {k: v.item() for k, v in separate.items()}, rel=1e-5
    )


def test_word_dropout_only_in_training():
    model = captioner.build(replace(TINY, dropout=0.0, word_dropout=0.9), SIZES)
    model.grid.eval()
    images, captions = torch.randn(4, 3, 4, 8), torch.randint(4, 7, (4, 5))
    torch.manual_seed(0)
    hidden = model.losses(images, captions, pad=0)["words"]
    assert hidden.item() != pytest.approx(model.eval().losses(images, captions, pad=0)["words"].item(), rel=1e-6)


def test_without_attention():
    model = captioner.build(replace(TINY, attention="none"), SIZES)
    assert list(model.losses(torch.randn(1, 3, 4, 8), torch.tensor([[2, 4, 3]]), pad=0)) == ["words"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dim": 0}, "dim=0 must be at least 1"),
        ({"stride": 6}, "stride=6 must be a power of two"),
        ({"dropout": 1.0}, r"dropout=1.0 must be at least 0 and below 1"),
        (
            {"decoder": "transformer", "attention": "hard"},
            "attention='hard' needs decoder='lstm'; the Transformer's is",
        ),
        ({"decoder": "transformer", "heads": 3}, "dim=256 cannot be divided among heads=3; choose a multiple of 3"),
    ],
)
def test_invalid_settings(change, text):
    with pytest.raises(ConfigError, match=text):
        Config(**change)


def test_untied_embeddings():
    model = captioner.build(replace(TINY, tie_embeddings=False, embedding_scale=0.0, dropout=0.0), SIZES).eval()
    assert model.readout.weight is not model.target.weight and model.scale == TINY.embedding**0.5
    with torch.no_grad():
        model.join.bias.fill_(9.0)
        x, _ = model.features(torch.tensor([[2, 4]]), model.start(torch.randn(1, 3, 4, 8)))
    assert x.max() > 2  # a tanh would limit it to 1
    assert captioner.build(TINY, SIZES).readout.weight.shape == model.readout.weight.shape


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_the_bag_of_words_loss(decoder):
    torch.manual_seed(0)
    model = captioner.build(replace(TINY, decoder=decoder, bag_of_words_weight=0.5, dropout=0.0), SIZES).eval()
    images, captions = torch.randn(2, 3, 4, 8), torch.tensor([[2, 4, 5, 3], [2, 4, 3, 0], [2, 6, 6, 3], [2, 5, 3, 0]])
    loss = model.losses(images, captions, pad=0)["named"]
    log_probs = model.named.tell(model.grid(images).mean(dim=1)).log_softmax(dim=-1)
    expected = [
        log_probs[0, 4],
        log_probs[0, 5],
        log_probs[0, 4],
        2 * log_probs[1, 6],
        log_probs[1, 5],
    ]  # neither EOS nor padding
    torch.testing.assert_close(loss, -0.5 * torch.stack(expected).sum())
    swapped = captions.clone()
    swapped[0, 1:3] = captions[0, [2, 1]]
    torch.testing.assert_close(model.losses(images, swapped, pad=0)["named"], loss)  # the order does not matter


def test_negative_weights_are_refused():
    with pytest.raises(ConfigError, match=r"bag_of_words_weight=-1 must be at least 0"):
        Config(bag_of_words_weight=-1)
