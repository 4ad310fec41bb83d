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
    model, given = build(module, change).eval(), sentences()
    together = model(given)
    best = model.readout.best(together, given.counts)
    for number, count in enumerate(given.counts.tolist()):
        alone = sentence(given, number)
        torch.testing.assert_close(model(alone)[0], together[number, :count])
        assert torch.equal(model.readout.best(model(alone), alone.counts)[0], best[number, :count])


@pytest.mark.parametrize(("module", "change"), MODELS)
def test_every_weight_learns(module, change):
    model, given = build(module, {**change, "dropout": 0.0}), sentences()
    tags = torch.zeros(3, 6, dtype=torch.long)
    tags[:, 1], tags[:, 2] = 1, 2
    model.readout.loss(model(given), tags, given.counts).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all() and weight.grad.abs().sum() > 0, name


def test_characters_as_units_have_no_spelling():
    sizes = replace(TAGGED, characters=0)
    for module in (bilstm_crf, tagger):
        model = build(module, {}, sizes).eval()
        assert model.spelling is None and model(sentences(several=False)).isfinite().all()


@pytest.mark.parametrize("module", [bilstm_crf, tagger])
def test_spelling_counts(module):
    model, given = build(module, {}).eval(), sentences()
    other = given._replace(letters=torch.where(given.characters > 0, 5, 0))
    assert not torch.allclose(model(given), model(other))


@pytest.mark.parametrize("module", [bilstm_crf, tagger])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"filters": -1}, "filters=-1 must be at least 0"),
        ({"word_dropout": 1.5}, r"word_dropout=1\.5 is not a probability below 1"),
    ],
)
def test_settings_that_cannot_be(module, settings, message):
    with pytest.raises(ConfigError, match=message):
        module.Config(**settings)
