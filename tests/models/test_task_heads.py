"""Classification and tagging heads on any encoder, and on BERT, GPT and XLNet."""

import pytest
import torch
from samples import DOCUMENTS, TAGGED, document, documents, sentence, sentences
from torch import nn

from regard.attention.masks import Mask
from regard.core.data_specs import DocumentSpec, LanguageSpec, MaskedLMSpec, TaggingSpec, accepts
from regard.core.protocols import Padded
from regard.layers.pooling import AttentionPooling
from regard.models import bert, gpt, xlnet
from regard.models._task_heads import Classifier, Tagger

MODELS = pytest.mark.parametrize("module", [bert, gpt, xlnet], ids=["bert", "gpt", "xlnet"])


class Encoder(nn.Module):
    """Every token plus the mean of all tokens, so that leaking padding changes the output."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.pool = AttentionPooling(8, 8)

    def forward(self, text: Padded):
        x = self.table(text.tokens)
        return x + self.pool(x, Mask.lengths(text.lengths, text.tokens.shape[1]))[:, None]


def test_documents_are_the_same_in_any_batch():
    model, batch = Classifier(Encoder(), 8, DOCUMENTS).eval(), documents((2, 1, 3))
    together = model(batch)
    for index in range(3):
        torch.testing.assert_close(model(document(batch, index))[0], together[index])
    assert model.readout(together).shape == (3, 3)


@pytest.mark.parametrize("output", ["crf", "softmax"])
def test_sentences_are_the_same_in_any_batch(output):
    model, batch = Tagger(Encoder(), 8, TAGGED, output=output).eval(), sentences()
    together = model(batch)
    for index, count in enumerate(batch.counts.tolist()):
        torch.testing.assert_close(model(sentence(batch, index))[0], together[index, :count])


def test_the_encoder_keeps_its_name():
    for model in (Classifier(Encoder(), 8, DOCUMENTS), Tagger(Encoder(), 8, TAGGED)):
        assert "encoder.table.weight" in dict(model.named_parameters())


@MODELS
def test_every_data_spec_has_its_head(module):
    for spec, head, sizes in ((DocumentSpec, Classifier, DOCUMENTS), (TaggingSpec, Tagger, TAGGED)):
        assert accepts(module, spec)
        assert isinstance(module.build(module.TINY, sizes), head)


@MODELS
def test_classifiers_and_taggers_have_features_and_logits(module):
    model = module.build(module.TINY, DOCUMENTS)
    features = model(documents((2, 1)))
    assert features.shape == (2, 16) and model.readout(features).shape == (2, 3)
    tagger = module.build(module.TINY, TAGGED).eval()
    assert tagger(sentences((3, 2))).shape == (2, 3, 16)


@MODELS
@pytest.mark.parametrize("sizes", [DOCUMENTS, TAGGED], ids=["documents", "tagged"])
def test_the_encoder_fits_that_of_the_pretrained_model(module, sizes):
    spec = LanguageSpec if module is gpt else MaskedLMSpec
    pretrained = module.build(module.TINY, spec(sizes.vocab_size, max_length=sizes.max_length)).state_dict()
    model = module.build(module.TINY, sizes)
    names = [name for name in model.state_dict() if name.startswith("encoder.")]
    assert names and all(pretrained[name].shape == model.state_dict()[name].shape for name in names)
    model.load_state_dict({name: pretrained[name] for name in names}, strict=False)


@MODELS
def test_every_parameter_of_a_head_gets_a_gradient(module):
    model = module.build(module.TINY, DOCUMENTS)
    model(documents((2, 1))).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None and not name.startswith("readout")] == []
