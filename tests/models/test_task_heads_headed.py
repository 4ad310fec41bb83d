import pytest
import torch

from regard.core.data_specs import DocumentSpec, LanguageSpec, MaskedLMSpec, TaggingSpec, TagTransitions, accepts
from regard.layers.document_batch import SentenceBatch, UnitBatch
from regard.models import bert, gpt, xlnet
from regard.models._task_heads import Classifier, Tagger

RULES = TagTransitions((True,) * 3, ((True,) * 3,) * 3, (True,) * 3)
DOCUMENTS = DocumentSpec(vocab_size=24, num_labels=3, max_length=14, max_sentence_length=6, max_sentences=3)
TAGGED = TaggingSpec(vocab_size=24, num_characters=10, max_length=14, allowed_transitions=RULES)
MODELS = pytest.mark.parametrize("module", [bert, gpt, xlnet], ids=["bert", "gpt", "xlnet"])


def documents():
    return SentenceBatch(torch.randint(4, 24, (3, 6)), torch.tensor([6, 4, 5]), torch.tensor([2, 1]))


def sentences():
    firsts = torch.tensor([[0, 2, 3], [0, 1, 0]])
    return UnitBatch(
        torch.randint(4, 24, (2, 5)), torch.tensor([5, 2]), firsts, torch.tensor([3, 2]), torch.zeros(2, 3, 0)
    )


@MODELS
def test_every_family_has_its_head(module):
    for family, kind in ((DocumentSpec, Classifier), (TaggingSpec, Tagger)):
        assert accepts(module, family)
        assert isinstance(module.build(module.TINY, DOCUMENTS if family is DocumentSpec else TAGGED), kind)


@MODELS
def test_labels_and_tags_have_features_and_a_loss(module):
    model = module.build(module.TINY, DOCUMENTS)
    features = model(documents())
    assert features.shape == (2, 16) and model.readout(features).shape == (2, 3)
    tagger = module.build(module.TINY, TAGGED).eval()
    assert tagger(sentences()).shape == (2, 3, 16)


@MODELS
@pytest.mark.parametrize("sizes", [DOCUMENTS, TAGGED], ids=["documents", "tagged"])
def test_the_encoder_fits_that_of_the_pretrained_model(module, sizes):
    family = LanguageSpec if module is gpt else MaskedLMSpec
    pretrained = module.build(module.TINY, family(sizes.size, longest=sizes.longest)).state_dict()
    model = module.build(module.TINY, sizes)
    names = [name for name in model.state_dict() if name.startswith("encoder.")]
    assert names and all(pretrained[name].shape == model.state_dict()[name].shape for name in names)
    model.load_state_dict({name: pretrained[name] for name in names}, strict=False)


@MODELS
def test_every_parameter_of_a_head_learns(module):
    model = module.build(module.TINY, DOCUMENTS)
    model(documents()).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None and not name.startswith("readout")] == []
