import pytest
import torch
from samples import DOCUMENTS, TAGGED, document, documents, sentence, sentences
from torch import nn

from regard.attention.masks import Mask
from regard.core.protocols import Padded
from regard.layers.pooling import AttentionPooling
from regard.models._task_heads import Classifier, Tagger


class Encoder(nn.Module):
    """Every token with the mean of all: enough to see padding that leaks."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.pool = AttentionPooling(8, 8)

    def forward(self, text: Padded):
        x = self.table(text.tokens)
        return x + self.pool(x, Mask.lengths(text.lengths, text.tokens.shape[1]))[:, None]


def test_documents_are_the_same_in_any_batch():
    model, given = Classifier(Encoder(), 8, DOCUMENTS).eval(), documents((2, 1, 3))
    together = model(given)
    for number in range(3):
        torch.testing.assert_close(model(document(given, number))[0], together[number])
    assert model.readout(together).shape == (3, 3)


@pytest.mark.parametrize("output", ["crf", "softmax"])
def test_sentences_are_the_same_in_any_batch(output):
    model, given = Tagger(Encoder(), 8, TAGGED, output=output).eval(), sentences()
    together = model(given)
    for number, count in enumerate(given.counts.tolist()):
        torch.testing.assert_close(model(sentence(given, number))[0], together[number, :count])


def test_the_encoder_keeps_its_name():
    for model in (Classifier(Encoder(), 8, DOCUMENTS), Tagger(Encoder(), 8, TAGGED)):
        assert "encoder.table.weight" in dict(model.named_parameters())
