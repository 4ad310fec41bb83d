"""The benchmark of text models: every system of every bench works, and peers compute the same as regard."""

import pytest
import text as bench
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
    systems = bench.COMPARISON.benches[name].systems(True)
    assert len(systems) == 1 + bench.COMPARISON.benches[name].peers
    assert systems["regard"]()() > 0


def test_the_page_says_how_many_times_as_fast():
    page = bench.COMPARISON.text(
        {"gpt": {"threads": 2, "rates": {"regard": [30.0, 10.0, 20.0], "HF GPT-2": [5.0, 10.0, 15.0]}}}
    )
    assert "| gpt | HF GPT-2 | 10 tokens/s | 5 – 15 | 2.00 |" in page and "| gpt | regard | 20 tokens/s |" in page
