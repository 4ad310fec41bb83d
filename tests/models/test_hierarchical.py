"""Hierarchical and flat attention: batches, padding, recording and invalid settings."""

from dataclasses import replace

import pytest
import torch
from samples import DOCUMENTS, document, documents

from regard.attention.record import record
from regard.core.errors import ConfigError
from regard.layers.document_batch import SentenceBatch
from regard.models import flat_attention, hierarchical

VARIANTS = [
    *({}, {"sentence_encoder": "none"}, {"encoder": "blocks"}, {"score": "general"}, {"votes": 40}),
    {"encoder": "blocks", "position": "relative", "layers": 2},
]
MODELS = [(module, change) for module in (hierarchical, flat_attention) for change in VARIANTS]


def build(module, change, sizes=DOCUMENTS):
    torch.manual_seed(1)
    return module.build(replace(module.TINY, **change), sizes)


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_a_document_is_the_same_in_any_batch_and_with_any_padding(module, change):
    model, batch = build(module, change).eval(), documents((2, 1, 3))
    together = model(batch)
    for index in range(3):
        torch.testing.assert_close(model(document(batch, index))[0], together[index])
    wider = torch.cat([batch.tokens, torch.zeros(6, 4, dtype=torch.long)], dim=1)
    torch.testing.assert_close(model(batch._replace(tokens=wider)), together)


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_padding_gets_no_gradient_and_every_weight_does(module, change):
    model, batch = build(module, {**change, "dropout": 0.0}), documents((2, 1, 3))
    loss = model.readout.loss(model(batch), torch.tensor([0, 1, 2]))
    loss.backward()
    assert model.embedding.table.weight.grad[0].eq(0).all()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all() and weight.grad.abs().sum() > 0, name


def test_an_empty_document_is_zeros():
    empty = SentenceBatch(torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long), torch.tensor([0, 0]))
    for module in (hierarchical, flat_attention):
        assert build(module, {}).eval()(empty).eq(0).all()
    mixed = documents((0, 2))
    features = build(hierarchical, {}).eval()(mixed)
    assert features[0].eq(0).all() and features[1].ne(0).any() and features.isfinite().all()


@pytest.mark.parametrize("encoder", ["gru", "blocks"])
def test_attention_of_both_levels_is_recorded(encoder):
    model, batch = build(hierarchical, {"encoder": encoder}).eval(), documents((2, 1, 3))
    with record(model, only="*.pool") as maps:
        recorded_output = model(batch)
    assert torch.equal(recorded_output, model(batch))
    words, sentences = maps["words.pool"], maps["sentences.pool"]
    assert (words.keys, sentences.keys, words.queries) == ("words", "sentences", "label")
    assert words.weights.shape[:3] == (6, 1, 1) and sentences.weights.shape == (3, 1, 1, 3)
    for recorded in (words, sentences):
        torch.testing.assert_close(recorded.weights.sum(dim=-1), torch.ones(len(recorded.weights), 1, 1))
    is_padding = torch.arange(words.weights.shape[-1]) >= batch.lengths[:, None]
    assert words.weights[:, 0, 0][is_padding].eq(0).all()


@pytest.mark.parametrize("module", [hierarchical, flat_attention])
def test_multiple_labels(module):
    model = build(module, {}, replace(DOCUMENTS, multi_label=True))
    loss = model.readout.loss(model(documents((1, 2))), torch.tensor([[1, 0, 1], [0, 0, 0]]))
    assert loss > 0


def test_word_dropout_only_in_training():
    model, batch = build(hierarchical, {"word_dropout": 0.9, "dropout": 0.0}), documents((2, 1))
    assert not torch.equal(model(batch), model(batch))
    model.eval()
    assert torch.equal(model(batch), model(batch))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim=0 must be at least 1"),
        ({"dropout": 1.0}, r"dropout=1\.0 must be at least 0 and below 1"),
        ({"encoder": "blocks", "heads": 7}, "2·dim=100 cannot be divided among heads=7"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        hierarchical.Config(**settings)


def test_the_initial_bias_of_the_update_gate():
    open_, closed = (build(hierarchical, {"gate": gate}).words.mixer.both.net for gate in (0.0, -3.0))
    dim = hierarchical.TINY.dim
    for name in ("bias_hh_l0", "bias_hh_l0_reverse"):
        before, after = open_.get_parameter(name), closed.get_parameter(name)
        assert after[dim : 2 * dim].eq(-3).all() and torch.equal(before[2 * dim :], after[2 * dim :])
