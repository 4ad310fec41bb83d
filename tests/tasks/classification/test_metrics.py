"""Classification metrics, and attention on the evidence of built-in reviews."""

import pytest
import torch
from torch import nn

from regard.data.builtin import reviews
from regard.data.text import document_corpus
from regard.models import flat_attention, hierarchical
from regard.tasks import classification
from regard.tasks.classification import metrics


def test_one_label():
    logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, 1, 1])
    assert metrics.compute_metrics(logits, labels, num_blank=1, multi_label=False)["accuracy"] == 0.5
    table = metrics.confusion(logits, labels, ["a", "b"], multi_label=False)
    assert table == {"confusion.a.a": 1, "confusion.a.b": 0, "confusion.b.a": 1, "confusion.b.b": 1}


def test_several_labels_agree_with_scikit_learn():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    logits, labels = torch.randn(30, 4), torch.randint(0, 2, (30, 4))
    scores = metrics.compute_metrics(logits, labels, num_blank=0, multi_label=True)
    predicted = (logits >= 0).int().numpy()
    for name, average in (("f1", "micro"), ("f1_macro", "macro")):
        assert scores[name] == pytest.approx(sklearn_metrics.f1_score(labels.numpy(), predicted, average=average))
    table = metrics.confusion(logits, labels, list("abcd"), multi_label=True)
    assert table["right.a"] + table["missed.a"] == int(labels[:, 0].sum())


def test_without_true_and_predicted_labels_f1_is_zero():
    labels = torch.zeros(2, 2, dtype=torch.long)
    scores = metrics.compute_metrics(-torch.ones(2, 2), labels, num_blank=0, multi_label=True)
    assert scores["f1"] == 0 and scores["accuracy"] == 1


def test_many_labels_have_no_confusion_matrix():
    labels = torch.zeros(1, dtype=torch.long)
    assert metrics.confusion(torch.zeros(1, 30), labels, ["x"] * 30, multi_label=False) == {}


class NoAttention(nn.Module):
    """A model without attention."""


@pytest.fixture(scope="module")
def task():
    return classification.build(classification.TINY)


@pytest.fixture(scope="module")
def documents(task):
    generated = reviews.generate("valid", 40, language="en", seed=1)
    texts = [review.text for review in generated]
    config = task.config
    tokenized = document_corpus.tokenize_documents(
        texts, task.tokenizer, splitter=config.splitter, limits=config.limits
    )
    return generated, tokenized


@pytest.mark.parametrize(
    ("module", "names"),
    [(hierarchical, {"deciding_words", "deciding_sentence"}), (flat_attention, {"deciding_words"})],
    ids=["hierarchical", "flat"],
)
def test_attention_on_evidence_is_a_fraction_and_does_not_depend_on_batches(task, documents, module, names):
    model = module.build(module.TINY, task.spec)
    small, large = (
        metrics.attention_on_evidence(model, *documents, tokenizer=task.tokenizer, budget=budget)
        for budget in (200, 9000)
    )
    assert set(small) == names and all(0 <= value <= 1 for value in small.values())
    assert small == pytest.approx(large, abs=1e-4)


def test_a_model_without_attention_has_none_on_evidence(task, documents):
    assert metrics.attention_on_evidence(NoAttention(), *documents, tokenizer=task.tokenizer, budget=100) == {}
