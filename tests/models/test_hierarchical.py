from dataclasses import replace

import pytest
import torch
from samples import DOCUMENTS, document, documents

from regard.attention.record import record
from regard.core.errors import ConfigError
from regard.layers.document_batch import SentenceBatch
from regard.models import flat_attention, hierarchical

VARIANTS = [
    *({}, {"sentence_mixer": "none"}, {"mixer": "blocks"}, {"score": "general"}),
    {"mixer": "blocks", "position": "relative", "layers": 2},
]
MODELS = [(module, change) for module in (hierarchical, flat_attention) for change in VARIANTS]


def build(module, change, sizes=DOCUMENTS):
    torch.manual_seed(1)
    return module.build(replace(module.TINY, **change), sizes)


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_a_document_is_the_same_in_any_batch_and_with_any_padding(module, change):
    model, given = build(module, change).eval(), documents((2, 1, 3))
    together = model(given)
    for number in range(3):
        torch.testing.assert_close(model(document(given, number))[0], together[number])
    wider = torch.cat([given.tokens, torch.zeros(6, 4, dtype=torch.long)], dim=1)
    torch.testing.assert_close(model(given._replace(tokens=wider)), together)


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_padding_sends_no_gradient_and_every_weight_learns(module, change):
    model, given = build(module, {**change, "dropout": 0.0}), documents((2, 1, 3))
    loss = model.readout.loss(model(given), torch.tensor([0, 1, 2]))
    loss.backward()
    assert model.embedding.table.weight.grad[0].eq(0).all()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all() and weight.grad.abs().sum() > 0, name


def test_an_empty_document_is_zeros():
    empty = SentenceBatch(torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long), torch.tensor([0, 0]))
    for module in (hierarchical, flat_attention):
        assert build(module, {}).eval()(empty).eq(0).all()
    beside = documents((0, 2))
    found = build(hierarchical, {}).eval()(beside)
    assert found[0].eq(0).all() and found[1].ne(0).any() and found.isfinite().all()


@pytest.mark.parametrize("mixer", ["gru", "blocks"])
def test_attention_at_both_levels_is_seen(mixer):
    model, given = build(hierarchical, {"mixer": mixer}).eval(), documents((2, 1, 3))
    with record(model, only="*.pool") as maps:
        seen = model(given)
    assert torch.equal(seen, model(given))
    words, sentences = maps["words.pool"], maps["sentences.pool"]
    assert (words.keys, sentences.keys, words.queries) == ("words", "sentences", "label")
    assert words.weights.shape[:3] == (6, 1, 1) and sentences.weights.shape == (3, 1, 1, 3)
    for found in (words, sentences):
        torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(len(found.weights), 1, 1))
    beyond = torch.arange(words.weights.shape[-1]) >= given.lengths[:, None]
    assert words.weights[:, 0, 0][beyond].eq(0).all()


@pytest.mark.parametrize("module", [hierarchical, flat_attention])
def test_several_labels(module):
    model = build(module, {}, replace(DOCUMENTS, several=True))
    loss = model.readout.loss(model(documents((1, 2))), torch.tensor([[1, 0, 1], [0, 0, 0]]))
    assert loss > 0


def test_words_are_left_out_in_training_alone():
    model, given = build(hierarchical, {"word_dropout": 0.9, "dropout": 0.0}), documents((2, 1))
    assert not torch.equal(model(given), model(given))
    model.eval()
    assert torch.equal(model(given), model(given))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim=0 must be at least 1"),
        ({"dropout": 1.0}, r"dropout=1\.0 is not a probability below 1"),
        ({"mixer": "blocks", "heads": 7}, "2·dim=100 cannot be divided among heads=7"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        hierarchical.Config(**settings)


def test_gates_that_begin_closed_carry_little_from_word_to_word():
    open_, closed = (build(hierarchical, {"gate": gate}).words.mixer.both.net for gate in (0.0, -3.0))
    dim = hierarchical.TINY.dim
    for name in ("bias_hh_l0", "bias_hh_l0_reverse"):
        before, after = open_.get_parameter(name), closed.get_parameter(name)
        assert after[dim : 2 * dim].eq(-3).all() and torch.equal(before[2 * dim :], after[2 * dim :])
