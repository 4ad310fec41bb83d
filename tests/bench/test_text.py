"""The benchmark of text models: every system of every bench works, and peers compute the same as regard."""

import comparisons
import pytest
import torch

from regard.core.data_specs import DocumentSpec
from regard.models import hierarchical
from systems.text_peers import PlainHierarchical, sample


def test_the_plain_loop_is_the_same_model():
    sizes = DocumentSpec(vocab_size=50, num_labels=2, max_length=300, max_sentence_length=20, max_sentences=10)
    model = hierarchical.build(
        hierarchical.Config(embedding=8, dim=6, attention_dim=6, dropout=0, word_dropout=0), sizes
    )
    documents = sample(3, sizes)
    torch.testing.assert_close(model(documents), PlainHierarchical(model)(documents), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt", "hierarchical"])
def test_our_systems_work(name):
    comparison = comparisons.find(name)
    assert tuple(comparison.systems(True)) == comparison.names
    assert comparisons.measure(comparison, "regard", quick=True)["rate"] > 0


def test_a_peer_trains_in_bfloat16():
    assert comparisons.measure(comparisons.find("gpt"), "nanoGPT bfloat16", quick=True)["rate"] > 0
