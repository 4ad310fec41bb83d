"""BiLSTM-CRF and Transformer tagger: batches, gradients, character features and invalid settings."""

from dataclasses import replace

import pytest
import torch
from samples import TAGGED, sentence, sentences

from regard.core.errors import ConfigError
from regard.models import bilstm_crf, tagger

MODELS = [
    *((module, {"output": output}) for module in (bilstm_crf, tagger) for output in ("crf", "softmax")),
    *((module, {"filters": 0}) for module in (bilstm_crf, tagger)),
    (tagger, {"position": "sinusoidal"}),
    (bilstm_crf, {"layers": 2}),
]


def build(module, change, sizes=TAGGED):
    torch.manual_seed(1)
    return module.build(replace(module.TINY, **change), sizes)


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_a_sentence_is_the_same_in_any_batch(module, change):
    model, batch = build(module, change).eval(), sentences()
    together = model(batch)
    best = model.readout.decode(together, batch.counts)
    for index, count in enumerate(batch.counts.tolist()):
        alone = sentence(batch, index)
        torch.testing.assert_close(model(alone)[0], together[index, :count])
        assert torch.equal(model.readout.decode(model(alone), alone.counts)[0], best[index, :count])


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_every_weight_gets_a_gradient(module, change):
    model, batch = build(module, {**change, "dropout": 0.0}), sentences()
    tags = torch.zeros(3, 6, dtype=torch.long)
    tags[:, 1], tags[:, 2] = 1, 2
    model.readout.loss(model(batch), tags, batch.counts).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all() and weight.grad.abs().sum() > 0, name


def test_character_units_have_no_character_features():
    sizes = replace(TAGGED, num_characters=0)
    for module in (bilstm_crf, tagger):
        model = build(module, {}, sizes).eval()
        assert model.spelling is None and model(sentences(multi_token=False)).isfinite().all()


@pytest.mark.parametrize("module", [bilstm_crf, tagger])
def test_characters_change_the_features(module):
    model, batch = build(module, {}).eval(), sentences()
    changed = batch._replace(characters=torch.where(batch.characters > 0, 5, 0))
    assert not torch.allclose(model(batch), model(changed))


@pytest.mark.parametrize("module", [bilstm_crf, tagger])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"filters": -1}, "filters=-1 must be at least 0"),
        ({"word_dropout": 1.5}, r"word_dropout=1\.5 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(module, settings, message):
    with pytest.raises(ConfigError, match=message):
        module.Config(**settings)
